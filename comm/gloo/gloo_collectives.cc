#include "comm/gloo/gloo_collectives.h"

#include <gloo/allreduce.h>

#include <algorithm>
#include <array>
#include <optional>

#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

enum Stream : uint64_t { kWhole = 0, kContributions = 1, kResults = 2, kReceipt = 3, kShort = 4 };

// A vector cut into one part per rank, and each part into segments.
struct Layout {
  Slices parts;
  size_t segment_bytes;

  Slices segments(int part) const { return {parts.bytes(static_cast<size_t>(part)), segment_bytes}; }
  size_t num_segments(int part) const { return segments(part).count(); }
  size_t begin(int part, size_t segment) const {
    return parts.begin(static_cast<size_t>(part)) + segments(part).begin(segment);
  }
  // Calls `fn` with offset and bytes of the message with this number: segments, then one empty message. Does
  // not call it for later numbers.
  template <class Fn>
  void WithMessage(int part, size_t number, const Fn& fn) const {
    if (number < num_segments(part)) fn(begin(part, number), segments(part).bytes(number));
    if (number == num_segments(part)) fn(size_t{0}, size_t{0});
  }
  template <class Fn>
  void ForEachMessage(int part, const Fn& fn) const {
    for (size_t number = 0; number <= num_segments(part); ++number) WithMessage(part, number, fn);
  }
};

struct Call {
  GlooMesh& mesh;
  const Request& request;
  const GlooTuning& tuning;
  Scratch& scratch;
  const uint64_t slot;

  std::byte* input() const { return Bytes(request.input); }
  std::byte* output() const { return Bytes(request.output); }
  size_t input_bytes() const { return request.input.nbytes(); }
  size_t output_bytes() const { return request.output.nbytes(); }
  // Reduces `bytes` bytes of all ranks, in rank order.
  void Reduce(const std::vector<std::byte*>& parts, std::byte* result, size_t bytes) const {
    comm::Reduce(request.dtype(), request.op, parts, {&result, 1},
                 static_cast<int64_t>(bytes / SizeOf(request.dtype())));
  }

  std::vector<Outgoing> OutgoingToOthers(Stream stream, const void* data, size_t bytes) const {
    std::vector<Outgoing> streams;
    for (const int peer : mesh.others()) streams.emplace_back(mesh, peer, slot + stream, data, bytes);
    return streams;
  }
  std::vector<Incoming> IncomingFromOthers(Stream stream, std::byte* data, size_t bytes) const {
    std::vector<Incoming> streams;
    for (const int peer : mesh.others()) streams.emplace_back(mesh, peer, slot + stream, data, bytes);
    return streams;
  }
};

template <class Streams>
void WaitAll(Streams& streams) {
  for (auto& stream : streams) stream.Wait();
}

void SendAll(std::vector<Outgoing>& streams, size_t offset_bytes, size_t bytes) {
  for (Outgoing& stream : streams) stream.Send(offset_bytes, bytes);
}

constexpr size_t kLeavesAtOnceBytes = 4 << 10;

// Reductions of short vectors: every rank receives all vectors.
void AllReduceDirect(const Call& call) {
  const auto& others = call.mesh.others();
  const int size = call.mesh.size();
  const size_t bytes = call.output_bytes();
  std::byte* const received = call.scratch.Get(bytes * static_cast<size_t>(size));
  std::vector<Incoming> incoming =
      call.IncomingFromOthers(kWhole, received, bytes * static_cast<size_t>(size));
  for (size_t i = 0; i < others.size(); ++i)
    incoming[i].Expect(bytes * static_cast<size_t>(others[i]), bytes);
  std::vector<Outgoing> outgoing = call.OutgoingToOthers(kWhole, call.output(), bytes);
  SendAll(outgoing, 0, bytes);
  WaitAll(incoming);
  // A vector that fits into an empty connection has already been sent. A longer vector may be stuck in a
  // broken connection.
  if (bytes > kLeavesAtOnceBytes) {
    for (Incoming& receipt : incoming) receipt.Expect(0, 0);
    SendAll(outgoing, 0, 0);  // "I have everything"
    WaitAll(incoming);
  }
  WaitAll(outgoing);

  std::vector<std::byte*> vectors;
  for (int rank = 0; rank < size; ++rank) {
    vectors.push_back(rank == call.mesh.rank() ? call.output()
                                               : received + bytes * static_cast<size_t>(rank));
  }
  call.Reduce(vectors, call.output(), bytes);
}

// For collectives that run one at a time, because their callers wait.
void AllReduceShort(const Call& call) {
  const std::vector<std::byte*> vectors =
      call.mesh.short_messages()->Exchange(call.slot + kShort, call.output(), call.output_bytes());
  call.Reduce(vectors, call.output(), call.output_bytes());
}

// Segments are small enough to limit the memory for arriving segments of all ranks, and to show progress
// before the deadline on a slow link.
size_t SegmentBytes(const Call& call, size_t window) {
  constexpr size_t kMaxScratchBytes = size_t{96} << 20;
  // A segment must arrive within the timeout, after seven other segments, over a link of 10 Mbit/s.
  constexpr size_t kBytesPerMs = 1250 / 8;
  return WholeLines(std::min({call.tuning.segment_bytes,
                              kMaxScratchBytes / (window * static_cast<size_t>(call.mesh.size())),
                              kBytesPerMs * static_cast<size_t>(call.mesh.timeout().count())}));
}

// Reduces this rank's part of the vector, segment by segment.
class PartReduction {
 public:
  // Segments that may arrive from each rank before the first of them is reduced.
  static constexpr size_t kWindow = 3;

  // `parts` divide the input; the result of this rank's part goes to `result`.
  PartReduction(const Call& call, const Slices& parts, std::byte* result)
      : call_(call),
        layout_{parts,
                std::min(SegmentBytes(call, kWindow), WholeLines(parts.bytes(0) + kCacheLineBytes - 1))},
        result_(result),
        received_(call.scratch.Get(layout_.segment_bytes * kWindow * static_cast<size_t>(call.mesh.size()))),
        outgoing_(call.OutgoingToOthers(kContributions, call.input(), call.input_bytes())) {
    for (const int peer : call.mesh.others()) {
      incoming_.emplace_back(call.mesh, peer, call.slot + kContributions, Received(peer, 0),
                             layout_.segment_bytes * kWindow);
    }
    for (size_t segment = 0; segment < kWindow; ++segment) Expect(segment);
  }

  const Layout& layout() const { return layout_; }

  // Reduces all segments. Calls `sent` when this rank's contributions to the others' segments of a number
  // have been sent, and `reduced` when its own segment has been reduced. Sending runs ahead. Returns when all
  // segments have arrived.
  template <class Sent, class Reduced>
  void Run(const Sent& sent, const Reduced& reduced) {
    // The first part is the longest. An empty message follows it.
    const auto num_messages = static_cast<int64_t>(layout_.num_segments(0)) + 1;
    Pipeline(
        num_messages, kWindow,
        [&](int64_t number) {
          Send(static_cast<size_t>(number));
          sent(static_cast<size_t>(number));
        },
        [&](int64_t number) {
          const auto segment = static_cast<size_t>(number);
          if (segment >= layout_.num_segments(call_.mesh.rank())) return;
          Reduce(segment);
          reduced(segment);
        });
    WaitAll(incoming_);
  }
  // Call this after all other ranks have confirmed that they have everything.
  void WaitUntilSent() { WaitAll(outgoing_); }

 private:
  void Send(size_t number) {
    for (size_t i = 0; i < outgoing_.size(); ++i) {
      layout_.WithMessage(call_.mesh.others()[i], number,
                          [&](size_t offset, size_t bytes) { outgoing_[i].Send(offset, bytes); });
    }
  }

  void Reduce(size_t segment) {
    WaitAll(incoming_);
    const int own = call_.mesh.rank();
    std::vector<std::byte*> parts;
    for (int rank = 0; rank < call_.mesh.size(); ++rank)
      parts.push_back(rank == own ? call_.input() + layout_.begin(own, segment) : Received(rank, segment));
    const Slices segments = layout_.segments(own);
    call_.Reduce(parts, result_ + segments.begin(segment), segments.bytes(segment));
    Expect(segment + kWindow);
  }

  std::byte* Received(int peer, size_t segment) const {
    return received_ + (static_cast<size_t>(peer) * kWindow + segment % kWindow) * layout_.segment_bytes;
  }

  void Expect(size_t number) {
    layout_.WithMessage(call_.mesh.rank(), number, [&](size_t, size_t bytes) {
      for (Incoming& stream : incoming_) stream.Expect(number % kWindow * layout_.segment_bytes, bytes);
    });
  }

  const Call& call_;
  const Layout layout_;
  std::byte* const result_;
  std::byte* const received_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

void AllReduceInParts(const Call& call) {
  const GlooMesh& mesh = call.mesh;
  const int own = mesh.rank();
  const size_t bytes = call.output_bytes();
  const Slices parts = Slices::OfRanks(bytes, mesh.size());
  std::vector<Incoming> results = call.IncomingFromOthers(kResults, call.output(), bytes);
  std::vector<Outgoing> own_results = call.OutgoingToOthers(kResults, call.output(), bytes);
  PartReduction reduction(call, parts, call.output() + parts.begin(static_cast<size_t>(own)));
  const Layout& layout = reduction.layout();
  reduction.Run(
      // The results of other ranks overwrite this rank's contributions, and are requested after the
      // contributions have been sent. This is safe: the result of a segment arrives only after all
      // contributions to it have been received.
      [&](size_t number) {
        for (size_t i = 0; i < results.size(); ++i) {
          layout.WithMessage(mesh.others()[i], number,
                             [&](size_t offset, size_t length) { results[i].Expect(offset, length); });
        }
      },
      [&](size_t segment) {
        SendAll(own_results, layout.begin(own, segment), layout.segments(own).bytes(segment));
      });
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t segment = 0; segment < layout.num_segments(mesh.others()[i]); ++segment) results[i].Wait();
  }
  SendAll(own_results, 0, 0);  // "I have everything"
  WaitAll(results);
  WaitAll(own_results);
  reduction.WaitUntilSent();
}

void ReduceScatter(const Call& call) {
  std::vector<Incoming> receipts = call.IncomingFromOthers(kReceipt, nullptr, 0);
  for (Incoming& receipt : receipts) receipt.Expect(0, 0);
  PartReduction reduction(call, {call.input_bytes(), call.output_bytes()}, call.output());
  reduction.Run([](size_t) {}, [](size_t) {});
  std::vector<Outgoing> own_receipts = call.OutgoingToOthers(kReceipt, nullptr, 0);
  SendAll(own_receipts, 0, 0);
  WaitAll(receipts);
  WaitAll(own_receipts);
  reduction.WaitUntilSent();
}

// Uses a binomial tree: the root's number is 0; a rank's parent is its number without the lowest set bit, and
// its children are its number with one more bit below this bit. A rank forwards segments as they arrive. It
// keeps few segments in flight to a child; the child's receipts show that the child is slow, not dead.
void Broadcast(const Call& call) {
  constexpr size_t kWindow = 3;
  const GlooMesh& mesh = call.mesh;
  const int size = mesh.size();
  const int own = (mesh.rank() - call.request.root + size) % size;
  const auto rank_of = [&](int number) { return (number + call.request.root) % size; };
  const Slices segments(call.output_bytes(), SegmentBytes(call, 1));
  // An empty message follows the segments. Messages have no receipt if no rank waits for it.
  const size_t last = segments.count();
  const auto has_receipt = [&](size_t number) { return number == last || number + kWindow <= last; };
  std::vector<Outgoing> to_children;
  std::vector<Incoming> receipts;
  int bit = 1;
  for (; bit < size && (own & bit) == 0; bit *= 2) {
    if (own + bit >= size) continue;
    const int child = rank_of(own + bit);
    to_children.emplace_back(call.mesh, child, call.slot + kWhole, call.output(), call.output_bytes());
    receipts.emplace_back(call.mesh, child, call.slot + kReceipt, nullptr, 0);
    for (size_t i = 0; i <= last; ++i) {
      if (has_receipt(i)) receipts.back().Expect(0, 0);
    }
  }
  std::optional<Incoming> from_parent;
  std::optional<Outgoing> to_parent;
  if (own != 0) {
    const int parent = rank_of(own - bit);
    from_parent.emplace(call.mesh, parent, call.slot + kWhole, call.output(), call.output_bytes());
    to_parent.emplace(call.mesh, parent, call.slot + kReceipt, nullptr, 0);
    for (size_t i = 0; i <= last; ++i) from_parent->Expect(segments.begin(i), segments.bytes(i));
  }
  for (size_t i = 0; i <= last; ++i) {
    if (own != 0) {
      from_parent->Wait();
      if (has_receipt(i)) to_parent->Send(0, 0);
    }
    if (i >= kWindow) WaitAll(receipts);
    SendAll(to_children, segments.begin(i), segments.bytes(i));
  }
  WaitAll(receipts);
  if (own != 0) to_parent->Wait();
  WaitAll(to_children);
}

// Gathers all ranks' parts of the output on all ranks, in rank order.
void Gather(const Call& call) {
  const GlooMesh& mesh = call.mesh;
  const int own = mesh.rank();
  const Layout layout{{call.output_bytes(), call.input_bytes()}, SegmentBytes(call, 1)};
  std::vector<Incoming> incoming = call.IncomingFromOthers(kWhole, call.output(), call.output_bytes());
  std::vector<Outgoing> outgoing = call.OutgoingToOthers(kWhole, call.input(), call.input_bytes());
  for (size_t i = 0; i < incoming.size(); ++i) {
    layout.ForEachMessage(mesh.others()[i],
                          [&](size_t offset, size_t bytes) { incoming[i].Expect(offset, bytes); });
  }
  const Slices segments = layout.segments(own);
  for (size_t i = 0; i < segments.count(); ++i) SendAll(outgoing, segments.begin(i), segments.bytes(i));
  CopyBytes(call.output() + layout.begin(own, 0), call.input(), segments.total_bytes);
  for (size_t i = 0; i < incoming.size(); ++i) {
    for (size_t n = layout.num_segments(mesh.others()[i]); n > 0; --n) incoming[i].Wait();
  }
  SendAll(outgoing, 0, 0);  // "I have everything"
  WaitAll(incoming);
  WaitAll(outgoing);
}

// gloo's options for elements of any size.
struct AllReduceOptions : gloo::AllreduceOptions {
  AllReduceOptions(GlooMesh& mesh, const model::Tensor& tensor) : AllreduceOptions(mesh.context(0, 1)) {
    impl_.elements = static_cast<size_t>(tensor.numel());
    impl_.elementSize = SizeOf(tensor.dtype());
    impl_.out.push_back(mesh.context(0, 1)->createUnboundBuffer(tensor.raw_data(), tensor.nbytes()));
  }
};

}  // namespace

uint64_t BaseSlot(const Request& request) {
  const Signature signature(request);
  uint64_t hash = static_cast<uint64_t>(signature.bytes);
  for (const uint64_t value :
       {static_cast<uint64_t>(signature.collective), static_cast<uint64_t>(signature.op),
        static_cast<uint64_t>(signature.dtype), static_cast<uint64_t>(signature.root + 1)}) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  }
  return static_cast<uint64_t>(request.sequence) << 32 | (hash >> 36 << 3);
}

std::byte* Scratch::Get(size_t bytes) {
  const size_t num_lines = (bytes + kCacheLineBytes - 1) / kCacheLineBytes;
  if (num_lines > lines_.size()) lines_ = std::vector<Line>(num_lines);
  return lines_.empty() ? nullptr : lines_.front().bytes;
}

void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch) {
  const Call call{mesh, request, tuning, scratch, BaseSlot(request)};
  const bool is_short = mesh.short_messages() != nullptr && request.waits == Waits::kAtOnce &&
                        static_cast<size_t>(request.bytes()) <= ShortMessages::kMaxBytes;
  if (request.collective == Collective::kBarrier) {
    if (!is_short) return mesh.WaitForOthers(call.slot);
    mesh.short_messages()->Exchange(call.slot + kShort, nullptr, 0);
    return;
  }
  if (request.bytes() == 0) return;
  switch (request.collective) {
    case Collective::kAllReduce:
      if (call.output_bytes() * (static_cast<size_t>(mesh.size()) - 1) > tuning.direct_bytes)
        return AllReduceInParts(call);
      return is_short ? AllReduceShort(call) : AllReduceDirect(call);
    case Collective::kReduceScatter:
      return ReduceScatter(call);
    case Collective::kAllGather:
      return Gather(call);
    case Collective::kBroadcast:
      return Broadcast(call);
    case Collective::kBarrier:
      return;
  }
}

void RunOwnAllReduce(GlooMesh& mesh, const Request& request) {
  if (request.bytes() == 0) return;
  AllReduceOptions options(mesh, request.output);
  // Identifies the collective and its kind, so that ranks which disagree do not accept each other's messages.
  const uint64_t slot = BaseSlot(request);
  options.setTag(static_cast<uint32_t>(slot >> 32 << 20 | (slot & 0xffffffff) >> 12));
  options.setTimeout(mesh.timeout());
  const bool is_mean = request.op == ReduceOp::kMean;
  options.setReduceFunction([&](void* result, const void* a, const void* b, size_t numel) {
    const std::array parts = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    auto* const target = static_cast<std::byte*>(result);
    Reduce(request.dtype(), is_mean ? ReduceOp::kSum : request.op, parts, {&target, 1},
           static_cast<int64_t>(numel));
  });
  mesh.Call([&] { gloo::allreduce(options); });
  if (!is_mean) return;
  const std::array sum = {Bytes(request.output)};
  const std::byte* const part = sum[0];
  Reduce(request.dtype(), ReduceOp::kMean, {&part, 1}, sum, request.output.numel(), mesh.size());
}

}  // namespace gradsync::comm
