#include "comm/hierarchical/hierarchical_process_group.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include "comm/queue/chunks.h"
#include "comm/queue/request.h"
#include "comm/queue/request_queue.h"
#include "comm/rendezvous/job.h"
#include "comm/shm/shm_process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using model::BF16;
using model::DType;
using model::Tensor;

constexpr std::string_view kBackend = "hierarchical";

// Of the vectors of a host's ranks together. Long enough that messages cost little; short enough that little
// time is lost in the first and the last chunk, when either the link or memory is idle.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

World PartOf(const World& world, const std::vector<int>& members, size_t index) {
  World part = world;
  part.rank = static_cast<int>(index);
  part.size = static_cast<int>(members.size());
  part.members = members;
  return part;
}

struct Place {
  size_t host;
  size_t local;  // among the ranks of the host
};

Place PlaceOf(int rank, const std::vector<std::vector<int>>& ranks_by_host) {
  size_t host = 0;
  while (!std::ranges::binary_search(ranks_by_host[host], rank)) ++host;
  const std::vector<int>& ranks = ranks_by_host[host];
  return {host, static_cast<size_t>(std::ranges::lower_bound(ranks, rank) - ranks.begin())};
}

class HierarchicalProcessGroup : public QueueGroup {
 public:
  explicit HierarchicalProcessGroup(const GlooOptions& options)
      : QueueGroup(options.world.rank, options.world.size), options_(options) {
    World& world = options_.world;
    if (world.size > 1 && world.job == nullptr) {
      world.job = std::make_shared<Job>(world, Terms{}, options_.timeout);
    }
    ranks_ = RanksByHost(world.size > 1 ? world.job->hosts() : std::vector<std::string>{""});
    own_ = PlaceOf(world.rank, ranks_);
    if (num_hosts() > 1 && num_local() > 1) {
      // A rank of this host that does nothing may be waiting for one of another host.
      first_cause_ = std::make_shared<FirstCause>(world, options_.timeout);
    }
    host_ = MakeShmGroup({.world = PartOf(world, ranks_[own_.host], own_.local),
                          .timeout = options_.timeout,
                          .first_cause = first_cause_});
    if (num_hosts() > 1) {
      std::vector<int> members;
      for (const std::vector<int>& ranks : ranks_) members.push_back(ranks[own_.local]);
      GlooOptions link = options_;
      link.world = PartOf(world, members, own_.host);
      link.first_cause = first_cause_;
      if (num_local() > 1) link.timeout *= 2;
      link_ = MakeGlooGroup(link);
    }
    only_ = num_hosts() == 1 ? host_.get() : num_local() == 1 ? link_.get() : nullptr;
    if (only_ == nullptr) Prepare();
  }
  ~HierarchicalProcessGroup() override { queue_.reset(); }

  std::string_view backend() const override { return kBackend; }
  int num_threads() const override { return only_ == nullptr ? 1 : only_->num_threads(); }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    std::vector<std::pair<std::string, std::string>> facts = {
        {"hosts", Join(num_hosts(), " of ", num_local(), num_local() == 1 ? " rank" : " ranks",
                       options_.world.host.empty() ? "" : ", by GRADSYNC_HOST")}};
    if (link_ != nullptr) std::ranges::move(link_->facts(), std::back_inserter(facts));
    return facts;
  }
  Tensor Allocate(const model::DevicePtr& device, model::Shape shape, DType dtype) override {
    try {
      return host_->Allocate(device, std::move(shape), dtype);
    } catch (const CollectiveError& error) {
      if (!queue_.has_value()) throw;
      // The other hosts' ranks fail too, and rank 0 stays until they have read why.
      throw CollectiveError(
          Join("rank ", rank(), ": allocation (hierarchical) failed: ", queue_->Fail("allocate", error)));
    }
  }
  Work Issue(Request request) override {
    return only_ == nullptr ? QueueGroup::Issue(std::move(request)) : only_->Issue(std::move(request));
  }

 private:
  // Elements of everyone's part of a vector.
  struct Chunk {
    int64_t number;
    int64_t begin;
    int64_t numel;
  };

  int64_t num_hosts() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t num_local() const { return size() / num_hosts(); }
  // On the link: one for each of its threads, and one that waits for a thread.
  int64_t max_chunks() const { return options_.num_threads + 1; }

  void Prepare() {
    queue_.emplace(RequestQueueOptions{.rank = rank(),
                                       .backend = kBackend,
                                       .num_threads = 1,
                                       .run = [this](const Request& request, int) { Run(request); },
                                       .abort =
                                           [this] {
                                             host_->Abort();
                                             link_->Abort();
                                           },
                                       .first_cause = first_cause_,
                                       // The thread that waits may as well run it.
                                       .begin = [](const Request&) { return false; }});
    const auto allocate = [&](int64_t numel) { return Allocate(model::CpuDevice(), {numel}, DType::kU8); };
    own_note_ = allocate(sizeof(Signature));
    notes_ = allocate(num_local() * int64_t{sizeof(Signature)});
    all_parts_ = allocate(kChunkBytes);
    for (int64_t i = 0; i < max_chunks(); ++i) own_parts_.push_back(allocate(kChunkBytes / num_local()));
  }

  void Run(const Request& request) {
    CheckSame(request);
    if (request.dtype() == DType::kBF16 && (request.op == ReduceOp::kSum || request.op == ReduceOp::kMean) &&
        (request.collective == Collective::kAllReduce || request.collective == Collective::kReduceScatter)) {
      return RunInF32(request);
    }
    RunAs(request);
  }

  // In f32, because the hosts' sums must not be rounded before they are added.
  void RunInF32(const Request& request) const {
    const Tensor& input = request.input;
    const Tensor& output = request.output;
    const bool is_in_place = request.collective == Collective::kAllReduce;
    Request wide = request;
    wide.input = Tensor::Empty(input.device(), input.shape(), DType::kF32);
    wide.output = is_in_place ? wide.input : Tensor::Empty(output.device(), output.shape(), DType::kF32);
    std::transform(input.data<BF16>(), input.data<BF16>() + input.numel(), wide.input.data<float>(),
                   [](BF16 value) { return static_cast<float>(value); });
    RunAs(wide);
    const float* const sums = wide.output.data<float>();
    std::transform(sums, sums + output.numel(), output.data<BF16>(), [](float sum) { return BF16(sum); });
  }

  void RunAs(const Request& request) const {
    switch (request.collective) {
      case Collective::kAllReduce:
        return RunAllReduce(request.output, request.op);
      case Collective::kBroadcast:
        return RunBroadcast(request.output, request.root);
      case Collective::kReduceScatter:
        return RunReduceScatter(request.input, request.output, request.op);
      case Collective::kAllGather:
        return RunAllGather(request.input, request.output);
      case Collective::kBarrier:
        host_->Barrier();
        link_->Barrier();
    }
  }

  // Otherwise the host's group would report a difference between its own collectives, not the caller's.
  void CheckSame(const Request& request) const {
    const Signature own(request);
    std::memcpy(own_note_.raw_data(), &own, sizeof(own));
    host_->AllGather(own_note_, notes_).Wait();
    const std::vector<int>& ranks = ranks_[own_.host];
    const auto* const signatures = static_cast<const Signature*>(notes_.raw_data());
    for (size_t i = 1; i < ranks.size(); ++i) {
      if (signatures[i] == signatures[0]) continue;
      throw std::runtime_error(Mismatch(ranks[i], signatures[i], ranks[0], signatures[0]));
    }
  }

  // Chunk after chunk: `start` works in memory and returns what it gave to the link; when that is done,
  // `finish` works in memory again. `bytes`: of one element of everyone's part.
  template <class Start, class Finish>
  void InChunks(int64_t numel, int64_t bytes, const Start& start, const Finish& finish) const {
    const Slices chunks(static_cast<size_t>(numel), WholeLines(static_cast<size_t>(kChunkBytes / bytes)));
    const auto chunk_of = [&](int64_t number) {
      const auto i = static_cast<size_t>(number);
      return Chunk{number, static_cast<int64_t>(chunks.begin(i)), static_cast<int64_t>(chunks.bytes(i))};
    };
    std::deque<Work> on_link;
    Pipeline(
        static_cast<int64_t>(chunks.count()), max_chunks(),
        [&](int64_t number) { on_link.push_back(start(chunk_of(number))); },
        [&](int64_t number) {
          on_link.front().Wait();
          finish(chunk_of(number));
          on_link.pop_front();
        });
  }

  // Each rank gets its share of the host's sum, then of all hosts' sums, and at last the others' shares. A
  // rest of fewer elements than ranks belongs to no share: all ranks sum it.
  void RunAllReduce(const Tensor& tensor, ReduceOp op) const {
    const int64_t shares = num_local();
    const int64_t share_numel = tensor.numel() / shares;
    const Tensor rest = tensor.Slice(share_numel * shares, {tensor.numel() % shares});
    Work rest_on_link;
    if (rest.numel() > 0) {
      host_->AllReduce(rest, op).Wait();
      rest_on_link = link_->AllReduce(rest, op);
    }
    const auto whole = [&](const Chunk& chunk) {
      return tensor.Slice(chunk.begin * shares, {chunk.numel * shares});
    };
    const auto own = [&](const Chunk& chunk) {
      return whole(chunk).Slice(static_cast<int64_t>(own_.local) * chunk.numel, {chunk.numel});
    };
    InChunks(
        share_numel, BytesOf(tensor, shares),
        [&](const Chunk& chunk) {
          host_->ReduceScatter(whole(chunk), own(chunk), op).Wait();
          return link_->AllReduce(own(chunk), op);
        },
        [&](const Chunk& chunk) { host_->AllGather(own(chunk), whole(chunk)).Wait(); });
    rest_on_link.Wait();
  }

  // From the root to those with its place on the other hosts, and from them to the others there.
  void RunBroadcast(const Tensor& tensor, int root) const {
    const Place from = PlaceOf(root, ranks_);
    const auto part = [&](const Chunk& chunk) { return tensor.Slice(chunk.begin, {chunk.numel}); };
    InChunks(
        tensor.numel(), BytesOf(tensor, 1),
        [&](const Chunk& chunk) {
          return from.local == own_.local ? link_->Broadcast(part(chunk), static_cast<int>(from.host))
                                          : Work();
        },
        [&](const Chunk& chunk) { host_->Broadcast(part(chunk), static_cast<int>(from.local)).Wait(); });
  }

  // What is for the ranks with one place on all hosts is summed, on each host, by the one with that place.
  void RunReduceScatter(const Tensor& input, const Tensor& output, ReduceOp op) const {
    InChunks(
        output.numel(), BytesOf(output, size()),
        [&](const Chunk& chunk) {
          ForEachPart(chunk, input,
                      [](const Tensor& of_rank, const Tensor& part) { part.CopyFrom(of_rank); });
          const Tensor own = OwnParts(chunk, output.dtype());
          host_->ReduceScatter(AllParts(chunk, output.dtype()), own, op).Wait();
          return link_->ReduceScatter(own, output.Slice(chunk.begin, {chunk.numel}), op);
        },
        [](const Chunk&) {});
  }

  void RunAllGather(const Tensor& input, const Tensor& output) const {
    InChunks(
        input.numel(), BytesOf(input, size()),
        [&](const Chunk& chunk) {
          return link_->AllGather(input.Slice(chunk.begin, {chunk.numel}), OwnParts(chunk, input.dtype()));
        },
        [&](const Chunk& chunk) {
          host_->AllGather(OwnParts(chunk, input.dtype()), AllParts(chunk, input.dtype())).Wait();
          ForEachPart(chunk, output, [](const Tensor& of_rank, const Tensor& part) {
            // Not CopyFrom: a collective counts no write.
            of_rank.device()->Copy(of_rank.raw_data(), part.raw_data(), part.nbytes());
          });
        });
  }

  static int64_t BytesOf(const Tensor& tensor, int64_t numel) {
    return numel * static_cast<int64_t>(SizeOf(tensor.dtype()));
  }

  // The chunk of the ranks with this one's place on all hosts, by host.
  Tensor OwnParts(const Chunk& chunk, DType dtype) const {
    const auto slot = static_cast<size_t>(chunk.number % max_chunks());
    return own_parts_[slot].SliceBytes(0, {num_hosts() * chunk.numel}, dtype);
  }
  // Of all ranks, by place, then by host.
  Tensor AllParts(const Chunk& chunk, DType dtype) const {
    return all_parts_.SliceBytes(0, {size() * chunk.numel}, dtype);
  }
  // Calls fn(the chunk of a rank's part of `whole`, the same of AllParts) for every rank.
  template <class Fn>
  void ForEachPart(const Chunk& chunk, const Tensor& whole, const Fn& fn) const {
    const Tensor parts = AllParts(chunk, whole.dtype());
    int64_t begin = 0;
    for (size_t local = 0; local < ranks_[0].size(); ++local) {
      for (const std::vector<int>& ranks : ranks_) {
        const int64_t part_begin = ranks[local] * (whole.numel() / size());
        fn(whole.Slice(part_begin + chunk.begin, {chunk.numel}), parts.Slice(begin, {chunk.numel}));
        begin += chunk.numel;
      }
    }
  }

  GlooOptions options_;
  std::vector<std::vector<int>> ranks_;  // by host
  Place own_{};
  std::shared_ptr<FirstCause> first_cause_;
  std::unique_ptr<QueueGroup> host_;  // the ranks of this host
  std::unique_ptr<QueueGroup> link_;  // those with this one's place on all hosts; null on one host
  QueueGroup* only_ = nullptr;        // the one that does everything, if the other has only this rank
  Tensor own_note_;
  Tensor notes_;
  Tensor all_parts_;
  std::vector<Tensor> own_parts_;  // of the chunks that are on their way
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GlooOptions& options) {
  CheckOptions(kBackend, options.world, options.timeout);
  return std::make_unique<HierarchicalProcessGroup>(options);
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
