#include "comm/hierarchical/hierarchical_process_group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "comm/queue/chunks.h"
#include "comm/queue/first_cause.h"
#include "comm/queue/request.h"
#include "comm/queue/request_queue.h"
#include "comm/rendezvous/job.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using model::BF16;
using model::DType;
using model::Tensor;

constexpr std::string_view kBackend = "hierarchical";

// Bytes of a chunk per host, over the vectors of all ranks of a host. Long enough that the cost per message
// is small, and short enough that the first and the last chunk, during which the link or memory is idle, take
// little time.
constexpr int64_t kChunkBytesPerHost = int64_t{2} << 20;

struct Position {
  size_t host;
  size_t local;  // number among the ranks of the host
};

Position PositionOf(int rank, const std::vector<std::vector<int>>& ranks_by_host) {
  size_t host = 0;
  while (!std::ranges::binary_search(ranks_by_host[host], rank)) ++host;
  const std::vector<int>& ranks = ranks_by_host[host];
  return {host, static_cast<size_t>(std::ranges::lower_bound(ranks, rank) - ranks.begin())};
}

// The hosts' sums of bf16 must not be rounded before they are added.
DType DTypeOfSums(const Request& request) {
  const bool is_sum = request.op == ReduceOp::kSum || request.op == ReduceOp::kMean;
  return is_sum && request.dtype() == DType::kBF16 ? DType::kF32 : request.dtype();
}

// Converts from or to the dtype of sums.
void Convert(const Tensor& from, const Tensor& to) {
  const auto each = [&]<class From, class To>(const From* values, To* results) {
    std::transform(values, values + from.numel(), results, [](From value) { return To(value); });
  };
  // This does not use CopyFrom, because a collective does not count a write.
  if (from.dtype() == to.dtype()) return to.device()->Copy(to.raw_data(), from.raw_data(), to.nbytes());
  if (from.dtype() == DType::kBF16) {
    each(from.data<BF16>(), to.data<float>());
  } else {
    each(from.data<float>(), to.data<BF16>());
  }
}

// Combines several works into one, from the start of the first to the end of the last. Some works may be
// empty.
class All : public Work::State {
 public:
  explicit All(std::vector<Work> works) : works_(std::move(works)) {}
  void Wait() override {
    for (Work& work : works_) work.Wait();
  }
  Interval interval() override {
    Interval all;
    for (Work& work : works_) {
      const Interval part = work.interval();
      if (part.end_ns == 0) continue;
      all = {all.end_ns == 0 ? part.start_ns : std::min(all.start_ns, part.start_ns),
             std::max(all.end_ns, part.end_ns)};
    }
    return all;
  }
  bool Done() override {
    return std::ranges::all_of(works_, [](const Work& work) { return work.Done(); });
  }

 private:
  std::vector<Work> works_;
};

// A request to a part, with the whole request's operation.
Request PartOf(const Request& whole, Collective collective, const Tensor& input, const Tensor& output,
               const Work& after = {}) {
  return {.collective = collective,
          .op = whole.op,
          .root = whole.root,
          .input = input,
          .output = output,
          .after = after};
}

class HierarchicalProcessGroup : public QueueGroup {
 public:
  HierarchicalProcessGroup(const GroupOptions& options, const MakePart& make_part)
      : QueueGroup(options.world.rank, options.world.size),
        name_(options.world.NameOf(options.world.rank)),
        host_(options.world.host) {
    World world = options.world;
    if (world.size > 1 && world.job == nullptr)
      world.job = std::make_shared<Job>(world, Terms{}, options.timeout);
    ranks_ = RanksByHost(HostsOf(world));
    own_ = PositionOf(world.rank, ranks_);
    const bool has_both = all_hosts() > 1 && num_local() > 1;
    // A rank of this host without progress may be waiting for a rank of another host.
    const auto first_cause = has_both ? std::make_shared<FirstCause>(world, options.timeout) : nullptr;
    GroupOptions part = options;
    part.backend_options = {};
    if (all_hosts() == 1 || has_both) {
      part.backend = options.backend_options.at("inner");
      part.world = PartOf(world, ranks_[own_.host]);
      part.num_threads = 1;
      inner_ = make_part(part, first_cause);
    }
    if (all_hosts() > 1) {
      std::vector<int> members;
      for (const std::vector<int>& ranks : ranks_) members.push_back(ranks[own_.local]);
      part.backend = options.backend_options.at("outer");
      part.world = PartOf(world, members);
      part.num_threads = options.num_threads;
      part.timeout = options.timeout * (has_both ? 2 : 1);
      outer_ = make_part(part, first_cause);
    }
    if (has_both) Prepare(first_cause);
  }
  ~HierarchicalProcessGroup() override {
    queue_.reset();
    // The job may end with outer_, which waits for the other ranks; all these ranks must see this rank leave
    // before.
    inner_.reset();
  }

  std::string_view backend() const override { return kBackend; }
  GroupFacts facts() const override {
    GroupFacts facts = (outer_ != nullptr ? outer_ : inner_)->facts();
    if (all_hosts() == 1) facts.link = "memory";
    // A single collective uses all threads of outer_ for its chunks.
    if (inner_ != nullptr) facts.channels = 1;
    facts.more.emplace_back("hosts",
                            Join(all_hosts(), " of ", num_local(), num_local() == 1 ? " rank" : " ranks",
                                 host_.empty() ? "" : ", by GRADSYNC_HOST"));
    return facts;
  }
  Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape, DType dtype) override {
    return all_hosts() == 1 ? inner_->AllocateShared(device, std::move(shape), dtype) : Tensor();
  }
  ProcessGroup* host_group() override {
    if (all_hosts() == 1) return nullptr;
    Require(num_local() > 1, "backend hierarchical: there is one rank on each host, expected several");
    return inner_.get();
  }
  Tensor Allocate(const model::DevicePtr& device, model::Shape shape, DType dtype) override {
    try {
      return only_or_inner().Allocate(device, std::move(shape), dtype);
    } catch (const CollectiveError& error) {
      if (!queue_.has_value()) throw;
      // Ranks of other hosts also fail, and rank 0 stays until they have read the cause.
      throw CollectiveError(
          Join("rank ", name_, ": allocation (hierarchical) failed: ", queue_->Fail("allocate", error)));
    }
  }
  void Abort() override {
    if (queue_.has_value()) {
      QueueGroup::Abort();
    } else {
      only_or_inner().Abort();
    }
  }
  Work Issue(Request request) override {
    return queue_.has_value() ? QueueGroup::Issue(std::move(request))
                              : only_or_inner().Issue(std::move(request));
  }

 private:
  // A range of elements of every rank's part of a vector.
  struct Chunk {
    int64_t number;
    int64_t begin;
    int64_t numel;

    Tensor Of(const Tensor& part) const { return part.Slice(begin, {numel}); }
  };

  int64_t all_hosts() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t num_local() const { return size() / all_hosts(); }
  int64_t ChunkBytes() const { return kChunkBytesPerHost * all_hosts(); }
  // Chunks in flight on the link: one for each of its threads, and one that waits for a thread.
  int64_t max_chunks() const { return outer_->facts().channels + 1; }
  ProcessGroup& only_or_inner() const { return inner_ != nullptr ? *inner_ : *outer_; }

  void Prepare(const std::shared_ptr<FirstCause>& first_cause) {
    queue_.emplace(RequestQueueOptions{.rank = name_,
                                       .backend = kBackend,
                                       .divide = [this](const Request& request) { return Divide(request); },
                                       .run = {},
                                       .abort =
                                           [this] {
                                             inner_->Abort();
                                             outer_->Abort();
                                           },
                                       .first_cause = first_cause});
    const auto allocate = [&](int64_t bytes) { return Allocate(model::CpuDevice(), {bytes}, DType::kU8); };
    all_parts_ = allocate(ChunkBytes());
    for (int64_t i = 0; i < max_chunks(); ++i) own_parts_.push_back(allocate(ChunkBytes() / num_local()));
    uses_.resize(own_parts_.size());
  }

  Work Divide(const Request& request) {
    if (request.within_host) return IssueWithinHost(request);
    std::vector<Work> works;
    switch (request.collective) {
      case Collective::kAllReduce:
        DivideAllReduce(request, works);
        break;
      case Collective::kBroadcast:
        DivideBroadcast(request, works);
        break;
      case Collective::kReduceScatter:
        DivideReduceScatter(request, works);
        break;
      case Collective::kAllGather:
        DivideAllGather(request, works);
        break;
      case Collective::kBarrier:
        works.push_back(inner_->Issue({}));
        works.push_back(outer_->Issue({.after = works.front()}));
    }
    return Work(std::make_shared<All>(std::move(works)));
  }

  // Implements HostGroup. The link carries one vector while the next vector is reduced in memory, so there
  // are no chunks.
  Work IssueWithinHost(const Request& request) {
    Request inner = PartOf(request, request.collective, request.input, request.output);
    const Work in_host = inner_->Issue(std::move(inner));
    if (request.collective != Collective::kReduceScatter) return in_host;
    const Work on_link =
        outer_->Issue(PartOf(request, Collective::kAllReduce, request.output, request.output, in_host));
    return Work(std::make_shared<All>(std::vector{in_host, on_link}));
  }

  // Runs chunk after chunk: `start` issues requests and returns its last one, which is on the link; `finish`
  // receives this work, and returns the last request that follows it. All requests are added to `works`,
  // whose time is the collective's time. `bytes` is the size of one element of every rank's part.
  template <class Start, class Finish>
  void InChunks(int64_t numel, size_t bytes, std::vector<Work>& works, const Start& start,
                const Finish& finish) const {
    const Slices chunks(static_cast<size_t>(numel), WholeLines(static_cast<size_t>(ChunkBytes()) / bytes));
    const auto chunk_of = [&](int64_t number) {
      const auto i = static_cast<size_t>(number);
      return Chunk{number, static_cast<int64_t>(chunks.begin(i)), static_cast<int64_t>(chunks.bytes(i))};
    };
    std::vector<Work> on_link;
    Pipeline(
        static_cast<int64_t>(chunks.count()), max_chunks(),
        [&](int64_t number) {
          on_link.push_back(start(chunk_of(number)));
          works.push_back(on_link.back());
        },
        [&](int64_t number) {
          works.push_back(finish(chunk_of(number), on_link[static_cast<size_t>(number)]));
        });
  }

  // Each rank receives its share of the host's sum, then its share of the sum of all hosts, and finally the
  // shares of other ranks. A remainder with fewer elements than ranks belongs to no share, and all ranks sum
  // it.
  void DivideAllReduce(const Request& request, std::vector<Work>& works) {
    const Tensor tensor = request.output;
    const DType dtype = DTypeOfSums(request);
    const bool is_wide = dtype != tensor.dtype();
    const Tensor sums = is_wide ? Tensor::Empty(tensor.device(), {tensor.numel()}, dtype) : tensor;
    const int64_t shares = num_local(), share_numel = tensor.numel() / shares;
    const Chunk rest{0, share_numel * shares, tensor.numel() % shares};
    if (rest.numel > 0) {
      Request inner = PartOf(request, Collective::kAllReduce, rest.Of(sums), rest.Of(sums)), outer = inner;
      if (is_wide) inner.prepare = [=] { Convert(rest.Of(tensor), rest.Of(sums)); };
      if (is_wide) outer.conclude = [=] { Convert(rest.Of(sums), rest.Of(tensor)); };
      outer.after = works.emplace_back(inner_->Issue(std::move(inner)));
      works.push_back(outer_->Issue(std::move(outer)));
    }
    const auto whole = [=](const Chunk& chunk, const Tensor& of) {
      return of.Slice(chunk.begin * shares, {chunk.numel * shares});
    };
    const auto own = [=, place = static_cast<int64_t>(own_.local)](const Chunk& chunk) {
      return whole(chunk, sums).Slice(place * chunk.numel, {chunk.numel});
    };
    InChunks(
        share_numel, SizeOf(dtype) * static_cast<size_t>(shares), works,
        [&](const Chunk& chunk) {
          Request inner = PartOf(request, Collective::kReduceScatter, whole(chunk, sums), own(chunk));
          if (is_wide) inner.prepare = [=] { Convert(whole(chunk, tensor), whole(chunk, sums)); };
          works.push_back(inner_->Issue(std::move(inner)));
          return outer_->Issue(PartOf(request, Collective::kAllReduce, own(chunk), own(chunk), works.back()));
        },
        [&](const Chunk& chunk, const Work& on_link) {
          Request inner = PartOf(request, Collective::kAllGather, own(chunk), whole(chunk, sums), on_link);
          if (is_wide) inner.conclude = [=] { Convert(whole(chunk, sums), whole(chunk, tensor)); };
          return inner_->Issue(std::move(inner));
        });
  }

  // Broadcasts from the root to the ranks with its local rank on the other hosts, and from them to the other
  // ranks of these hosts.
  void DivideBroadcast(const Request& request, std::vector<Work>& works) {
    const Position from = PositionOf(request.root, ranks_);
    const auto part = [&](const Chunk& chunk, size_t root, const Work& after) {
      const Tensor tensor = chunk.Of(request.output);
      Request broadcast = PartOf(request, Collective::kBroadcast, tensor, tensor, after);
      broadcast.root = static_cast<int>(root);
      return broadcast;
    };
    InChunks(
        request.output.numel(), SizeOf(request.dtype()), works,
        [&](const Chunk& chunk) {
          return from.local == own_.local ? outer_->Issue(part(chunk, from.host, {})) : Work();
        },
        [&](const Chunk& chunk, const Work& on_link) {
          return inner_->Issue(part(chunk, from.local, on_link));
        });
  }

  // On each host, the rank with a local rank sums the data for the ranks with this local rank on all hosts.
  void DivideReduceScatter(const Request& request, std::vector<Work>& works) {
    const Tensor &input = request.input, &output = request.output;
    const DType dtype = DTypeOfSums(request);
    const bool is_wide = dtype != output.dtype();
    const Tensor sums = is_wide ? Tensor::Empty(output.device(), output.shape(), dtype) : output;
    InChunks(
        output.numel(), SizeOf(dtype) * static_cast<size_t>(size()), works,
        [&](const Chunk& chunk) {
          const Tensor all = AllParts(chunk, dtype), own = OwnParts(chunk, dtype);
          Request inner = PartOf(request, Collective::kReduceScatter, all, own, UseOf(chunk));
          inner.prepare = [=, this] { ForEachPart(chunk, input, all, &Convert); };
          works.push_back(inner_->Issue(std::move(inner)));
          Request outer = PartOf(request, Collective::kReduceScatter, own, chunk.Of(sums), works.back());
          if (is_wide) outer.conclude = [=] { Convert(chunk.Of(sums), chunk.Of(output)); };
          return UseOf(chunk) = outer_->Issue(std::move(outer));
        },
        [](const Chunk&, const Work& on_link) { return on_link; });
  }

  void DivideAllGather(const Request& request, std::vector<Work>& works) {
    const Tensor &input = request.input, &output = request.output;
    InChunks(
        input.numel(), SizeOf(input.dtype()) * static_cast<size_t>(size()), works,
        [&](const Chunk& chunk) {
          return outer_->Issue(PartOf(request, Collective::kAllGather, chunk.Of(input),
                                      OwnParts(chunk, input.dtype()), UseOf(chunk)));
        },
        [&](const Chunk& chunk, const Work& on_link) {
          const Tensor all = AllParts(chunk, input.dtype()), own = OwnParts(chunk, input.dtype());
          Request inner = PartOf(request, Collective::kAllGather, own, all, on_link);
          inner.conclude = [=, this] {
            ForEachPart(chunk, output, all, [](const Tensor& to, const Tensor& from) { Convert(from, to); });
          };
          return UseOf(chunk) = inner_->Issue(std::move(inner));
        });
  }

  // Returns memory for the chunk of the ranks with this local rank on all hosts, by host.
  Tensor OwnParts(const Chunk& chunk, DType dtype) const {
    return own_parts_[Slot(chunk)].SliceBytes(0, {all_hosts() * chunk.numel}, dtype);
  }
  Work& UseOf(const Chunk& chunk) { return uses_[Slot(chunk)]; }
  size_t Slot(const Chunk& chunk) const { return static_cast<size_t>(chunk.number) % own_parts_.size(); }
  // Returns memory for the chunk of all ranks, ordered by local rank and then by host. Only the single thread
  // of the inner part uses this memory.
  Tensor AllParts(const Chunk& chunk, DType dtype) const {
    return all_parts_.SliceBytes(0, {size() * chunk.numel}, dtype);
  }
  // Calls fn(the chunk of a rank's part of `whole`, the chunk of its part of `parts`) for every rank.
  template <class Fn>
  void ForEachPart(const Chunk& chunk, const Tensor& whole, const Tensor& parts, const Fn& fn) const {
    int64_t begin = 0;
    for (size_t local = 0; local < ranks_[0].size(); ++local) {
      for (const std::vector<int>& ranks : ranks_) {
        fn(whole.Slice(ranks[local] * (whole.numel() / size()) + chunk.begin, {chunk.numel}),
           parts.Slice(begin, {chunk.numel}));
        begin += chunk.numel;
      }
    }
  }

  const int name_;                       // number of this rank in messages
  const std::string host_;               // by GRADSYNC_HOST
  std::vector<std::vector<int>> ranks_;  // ranks of each host
  Position own_{};
  std::unique_ptr<ProcessGroup> inner_;  // group of the ranks of this host; null if each host has one rank
  // Group of the ranks with this local rank on all hosts; null on one host.
  std::unique_ptr<ProcessGroup> outer_;
  Tensor all_parts_;
  std::vector<Tensor> own_parts_;  // memory of the chunks in flight
  std::vector<Work> uses_;         // the last work that uses each of own_parts_
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part) {
  CheckOptions(kBackend, options);
  return std::make_unique<HierarchicalProcessGroup>(options, make_part);
}

std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> indices;
  std::vector<std::vector<int>> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const size_t index = indices.try_emplace(hosts[rank], ranks.size()).first->second;
    if (index == ranks.size()) ranks.emplace_back();
    ranks[index].push_back(static_cast<int>(rank));
  }
  for (const std::vector<int>& others : ranks) {
    Require(others.size() == ranks[0].size(), "backend hierarchical: ", ranks[0].size(),
            " ranks are on the host of rank 0, ", others.size(), " on that of rank ", others[0],
            ", expected equally many on every host");
  }
  return ranks;
}

}  // namespace gradsync::comm
