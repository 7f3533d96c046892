#include "comm/gloo/gloo_collectives.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

constexpr int64_t kCacheLineBytes = 64;

// A slot is the sequence number, what the collective is, and the stream's number. Because the middle part
// differs between different collectives, ranks that disagree do not take each other's messages for their own.
constexpr uint64_t kCheck = uint64_t{1} << 31;
enum Stream : uint64_t { kWhole = 0, kContributions = 1, kResults = 2, kReceipt = 3 };

uint64_t SequenceBits(const Request& request) { return static_cast<uint64_t>(request.sequence) << 32; }

uint64_t BaseSlot(const Request& request) {
  const Signature signature(request);
  uint64_t hash = static_cast<uint64_t>(signature.bytes);
  for (const uint64_t value :
       {static_cast<uint64_t>(signature.collective), static_cast<uint64_t>(signature.op),
        static_cast<uint64_t>(signature.dtype), static_cast<uint64_t>(signature.root + 1),
        static_cast<uint64_t>(request.chunk)}) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  }
  return SequenceBits(request) | (hash >> 36 << 3);
}

void CopyBytes(void* target, const void* source, size_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, bytes);
}

// A vector cut into one part per rank, and each part into segments. All in bytes. Parts begin on cache lines.
class Layout {
 public:
  Layout(size_t total_bytes, size_t part_bytes, size_t segment_bytes)
      : total_bytes_(total_bytes), part_bytes_(part_bytes), segment_bytes_(segment_bytes) {}

  size_t PartBegin(int part) const { return std::min(total_bytes_, static_cast<size_t>(part) * part_bytes_); }
  size_t PartBytes(int part) const { return PartBegin(part + 1) - PartBegin(part); }
  size_t NumSegments(int part) const { return (PartBytes(part) + segment_bytes_ - 1) / segment_bytes_; }
  // The first part is the longest.
  size_t MaxSegments() const { return NumSegments(0); }
  size_t SegmentBegin(int part, size_t segment) const { return PartBegin(part) + segment * segment_bytes_; }
  size_t SegmentBytes(int part, size_t segment) const {
    return std::min(segment_bytes_, PartBytes(part) - segment * segment_bytes_);
  }
  // Gives `fn` offset and bytes of the message of this number: a segment, after the last one an empty one,
  // and then none.
  template <class Fn>
  void WithMessage(int part, size_t number, const Fn& fn) const {
    if (number < NumSegments(part)) {
      fn(SegmentBegin(part, number), SegmentBytes(part, number));
    } else if (number == NumSegments(part)) {
      fn(size_t{0}, size_t{0});
    }
  }

 private:
  const size_t total_bytes_;
  const size_t part_bytes_;
  const size_t segment_bytes_;
};

// Everything that one collective's functions share.
struct Call {
  GlooMesh& mesh;
  const Request& request;
  const GlooTuning& tuning;
  Scratch& scratch;
  const uint64_t slot;

  std::byte* input() const { return static_cast<std::byte*>(request.input.raw_data()); }
  std::byte* output() const { return static_cast<std::byte*>(request.output.raw_data()); }
  size_t input_bytes() const { return request.input.nbytes(); }
  size_t output_bytes() const { return request.output.nbytes(); }
  size_t element_bytes() const { return SizeOf(request.dtype()); }

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

// Reductions of short vectors: everybody gets all of them.
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
  WaitAll(outgoing);

  const auto vector_of = [&](int rank) {
    return rank == call.mesh.rank() ? call.output() : received + bytes * static_cast<size_t>(rank);
  };
  // Operands in the same places on all ranks, so that the results are the same bits even for NaNs.
  const auto numel = call.request.output.numel();
  const Combine combine = CombineFunction(call.request.dtype(), call.request.op);
  std::byte* const sum = vector_of(0);
  for (int rank = 1; rank < size; ++rank) combine(vector_of(rank), sum, numel);
  Finish(call.request.dtype(), call.request.op, size, sum, numel);
  CopyBytes(call.output(), sum, bytes);
}

// The part of a reduction that brings this rank's part of the vector together, segment by segment.
class PartReduction {
 public:
  // So many segments may arrive from each rank before the first of them is reduced.
  static constexpr size_t kWindow = 3;
  // So many segments are sent before the first of one's own is reduced.
  static constexpr size_t kAhead = 2;

  // `layout` cuts the input; the result of this rank's part goes to `result`.
  PartReduction(const Call& call, const Layout& layout, size_t segment_bytes, std::byte* result)
      : call_(call),
        layout_(layout),
        segment_bytes_(segment_bytes),
        result_(result),
        combine_(CombineFunction(call.request.dtype(), call.request.op)),
        received_(call.scratch.Get(segment_bytes * kWindow * static_cast<size_t>(call.mesh.size()))),
        outgoing_(call.OutgoingToOthers(kContributions, call.input(), call.input_bytes())) {
    for (const int peer : call.mesh.others()) {
      incoming_.emplace_back(call.mesh, peer, call.slot + kContributions, Received(peer, 0),
                             segment_bytes * kWindow);
    }
    for (size_t segment = 0; segment < kWindow; ++segment) Expect(segment);
  }

  size_t num_segments() const { return layout_.NumSegments(call_.mesh.rank()); }

  // Sends this rank's contributions to the others' segments of this number. After the last one comes an empty
  // message, after that nothing.
  void Send(size_t segment) {
    const auto& others = call_.mesh.others();
    for (size_t i = 0; i < others.size(); ++i) {
      layout_.WithMessage(others[i], segment,
                          [&](size_t offset, size_t length) { outgoing_[i].Send(offset, length); });
    }
  }

  // Waits for the others' contributions to the segment, and puts the result where it belongs.
  void Reduce(size_t segment) {
    WaitAll(incoming_);
    const int rank = call_.mesh.rank();
    const int size = call_.mesh.size();
    const size_t bytes = layout_.SegmentBytes(rank, segment);
    const auto numel = static_cast<int64_t>(bytes / call_.element_bytes());
    std::byte* const result = result_ + segment * segment_bytes_;
    CopyBytes(result, call_.input() + layout_.SegmentBegin(rank, segment), bytes);
    // The ranks before this one are summed where the first of them was received.
    for (int peer = 1; peer < rank; ++peer) combine_(Received(peer, segment), Received(0, segment), numel);
    if (rank > 0) combine_(Received(0, segment), result, numel);
    for (int peer = rank + 1; peer < size; ++peer) combine_(Received(peer, segment), result, numel);
    Finish(call_.request.dtype(), call_.request.op, size, result, numel);
    Expect(segment + kWindow);
  }

  // After the last segment: waits for the empty messages.
  void WaitForEnd() { WaitAll(incoming_); }
  // Once all others have said that they have everything.
  void WaitUntilSent() { WaitAll(outgoing_); }

 private:
  std::byte* Received(int peer, size_t segment) const {
    return received_ + (static_cast<size_t>(peer) * kWindow + segment % kWindow) * segment_bytes_;
  }

  void Expect(size_t segment) {
    if (segment > num_segments()) return;
    const size_t bytes = segment == num_segments() ? 0 : layout_.SegmentBytes(call_.mesh.rank(), segment);
    for (Incoming& stream : incoming_) stream.Expect(segment % kWindow * segment_bytes_, bytes);
  }

  const Call& call_;
  const Layout& layout_;
  const size_t segment_bytes_;
  std::byte* const result_;
  const Combine combine_;
  std::byte* const received_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

// Segments small enough that what arrives from all ranks together stays within bounds.
size_t SegmentBytes(const Call& call) {
  constexpr size_t kMaxScratchBytes = size_t{96} << 20;
  const size_t limit = kMaxScratchBytes / (PartReduction::kWindow * static_cast<size_t>(call.mesh.size()));
  const size_t bytes = std::min(call.tuning.segment_bytes, limit);
  return std::max<size_t>(bytes / kCacheLineBytes, 1) * kCacheLineBytes;
}

void AllReduceInParts(const Call& call) {
  const GlooMesh& mesh = call.mesh;
  const size_t bytes = call.output_bytes();
  const size_t segment_bytes = SegmentBytes(call);
  const size_t part_bytes =
      (bytes / static_cast<size_t>(mesh.size()) / kCacheLineBytes + 1) * kCacheLineBytes;
  const Layout layout(bytes, part_bytes, segment_bytes);

  std::vector<Incoming> results = call.IncomingFromOthers(kResults, call.output(), bytes);
  std::vector<Outgoing> own_results = call.OutgoingToOthers(kResults, call.output(), bytes);
  PartReduction part(call, layout, segment_bytes, call.output() + layout.PartBegin(mesh.rank()));
  // The others' results go where this rank's contributions to them come from, and are asked for when those
  // have been sent. That is safe: a result of a segment comes only when all contributions to it have been
  // received.
  const auto send = [&](size_t segment) {
    part.Send(segment);
    for (size_t i = 0; i < results.size(); ++i) {
      layout.WithMessage(mesh.others()[i], segment,
                         [&](size_t offset, size_t length) { results[i].Expect(offset, length); });
    }
  };
  for (size_t segment = 0; segment < PartReduction::kAhead; ++segment) send(segment);
  for (size_t segment = 0; segment <= layout.MaxSegments(); ++segment) {
    send(segment + PartReduction::kAhead);
    if (segment >= part.num_segments()) continue;
    part.Reduce(segment);
    SendAll(own_results, layout.SegmentBegin(mesh.rank(), segment),
            layout.SegmentBytes(mesh.rank(), segment));
  }
  part.WaitForEnd();
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t segment = 0; segment < layout.NumSegments(mesh.others()[i]); ++segment) results[i].Wait();
  }
  SendAll(own_results, 0, 0);  // "I have everything"
  WaitAll(results);
  WaitAll(own_results);
  part.WaitUntilSent();
}

void ReduceScatter(const Call& call) {
  const size_t segment_bytes = SegmentBytes(call);
  const Layout layout(call.input_bytes(), call.output_bytes(), segment_bytes);
  std::vector<Incoming> receipts = call.IncomingFromOthers(kReceipt, nullptr, 0);
  for (Incoming& receipt : receipts) receipt.Expect(0, 0);
  PartReduction part(call, layout, segment_bytes, call.output());
  for (size_t segment = 0; segment < PartReduction::kAhead; ++segment) part.Send(segment);
  for (size_t segment = 0; segment <= layout.MaxSegments(); ++segment) {
    part.Send(segment + PartReduction::kAhead);
    if (segment < part.num_segments()) part.Reduce(segment);
  }
  part.WaitForEnd();
  std::vector<Outgoing> own_receipts = call.OutgoingToOthers(kReceipt, nullptr, 0);
  SendAll(own_receipts, 0, 0);
  WaitAll(receipts);
  WaitAll(own_receipts);
  part.WaitUntilSent();
}

// Messages of at most a segment each, and an empty one, for the bytes from `begin`.
template <class Fn>
void ForEachMessage(const Call& call, size_t begin, size_t bytes, const Fn& fn) {
  const size_t segment_bytes = SegmentBytes(call);
  for (size_t offset = 0; offset < bytes; offset += segment_bytes) {
    fn(begin + offset, std::min(segment_bytes, bytes - offset));
  }
}

void AllGather(const Call& call) {
  const size_t bytes = call.input_bytes();
  std::vector<Incoming> incoming = call.IncomingFromOthers(kWhole, call.output(), call.output_bytes());
  std::vector<Outgoing> outgoing = call.OutgoingToOthers(kWhole, call.input(), bytes);
  for (size_t i = 0; i < incoming.size(); ++i) {
    const size_t begin = static_cast<size_t>(call.mesh.others()[i]) * bytes;
    ForEachMessage(call, begin, bytes,
                   [&](size_t offset, size_t length) { incoming[i].Expect(offset, length); });
    incoming[i].Expect(0, 0);
  }
  ForEachMessage(call, 0, bytes, [&](size_t offset, size_t length) { SendAll(outgoing, offset, length); });
  CopyBytes(call.output() + static_cast<size_t>(call.mesh.rank()) * bytes, call.input(), bytes);
  ForEachMessage(call, 0, bytes, [&](size_t, size_t) { WaitAll(incoming); });
  SendAll(outgoing, 0, 0);  // "I have everything"
  WaitAll(incoming);
  WaitAll(outgoing);
}

// From the root to everyone: initial weights are not worth a tree.
void Broadcast(const Call& call) {
  GlooMesh& mesh = call.mesh;
  const int root = call.request.root;
  const size_t bytes = call.output_bytes();
  if (mesh.rank() == root) {
    std::vector<Incoming> receipts = call.IncomingFromOthers(kReceipt, nullptr, 0);
    for (Incoming& receipt : receipts) receipt.Expect(0, 0);
    std::vector<Outgoing> outgoing = call.OutgoingToOthers(kWhole, call.output(), bytes);
    ForEachMessage(call, 0, bytes, [&](size_t offset, size_t length) { SendAll(outgoing, offset, length); });
    SendAll(outgoing, 0, 0);
    WaitAll(receipts);
    WaitAll(outgoing);
    return;
  }
  Incoming incoming(mesh, root, call.slot + kWhole, call.output(), bytes);
  ForEachMessage(call, 0, bytes, [&](size_t offset, size_t length) { incoming.Expect(offset, length); });
  incoming.Expect(0, 0);
  ForEachMessage(call, 0, bytes, [&](size_t, size_t) { incoming.Wait(); });
  incoming.Wait();
  Outgoing receipt(mesh, root, call.slot + kReceipt, nullptr, 0);
  receipt.Send(0, 0);
  receipt.Wait();
}

}  // namespace

void Scratch::Free::operator()(std::byte* data) const { std::free(data); }

std::byte* Scratch::Get(size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    bytes_ = (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, bytes_)));
    if (data_ == nullptr) {
      bytes_ = 0;
      throw std::bad_alloc();
    }
  }
  return data_.get();
}

void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch) {
  const Call call{mesh, request, tuning, scratch, BaseSlot(request)};
  if (request.collective == Collective::kBarrier) return mesh.WaitForOthers(call.slot);
  if (request.bytes() == 0) return;
  switch (request.collective) {
    case Collective::kAllReduce:
      return call.output_bytes() * (static_cast<size_t>(mesh.size()) - 1) <= tuning.direct_bytes
                 ? AllReduceDirect(call)
                 : AllReduceInParts(call);
    case Collective::kReduceScatter:
      return ReduceScatter(call);
    case Collective::kAllGather:
      return AllGather(call);
    case Collective::kBroadcast:
      return Broadcast(call);
    case Collective::kBarrier:
      return;
  }
}

void CheckSameOnAllRanks(GlooMesh& mesh, const Request& request) {
  const Signature::Numbers own_numbers = Signature(request).ToNumbers();
  std::vector<Signature::Numbers> numbers(static_cast<size_t>(mesh.size()), own_numbers);
  std::vector<Incoming> incoming;
  std::vector<Outgoing> outgoing;
  for (const int peer : mesh.others()) {
    const uint64_t slot = SequenceBits(request) | kCheck;
    Signature::Numbers& theirs = numbers[static_cast<size_t>(peer)];
    incoming.emplace_back(mesh, peer, slot, theirs.data(), sizeof(theirs)).Expect(0, sizeof(theirs));
    outgoing.emplace_back(mesh, peer, slot, own_numbers.data(), sizeof(own_numbers))
        .Send(0, sizeof(own_numbers));
  }
  WaitAll(incoming);
  WaitAll(outgoing);
  for (int rank = 1; rank < mesh.size(); ++rank) {
    if (numbers[static_cast<size_t>(rank)] == numbers[0]) continue;
    throw std::runtime_error(Mismatch(mesh.NameOf(rank), Signature(numbers[static_cast<size_t>(rank)]),
                                      mesh.NameOf(0), Signature(numbers[0])));
  }
}

}  // namespace gradsync::comm
