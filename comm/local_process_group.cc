#include "comm/local_process_group.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "comm/queue/chunks.h"
#include "comm/queue/reduction.h"
#include "comm/queue/request.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

constexpr std::string_view kBackend = "local";

// One collective: complete once every rank has issued it.
struct Meeting {
  Meeting(size_t size, int first, const Signature& first_signature)
      : first_rank(first), signature(first_signature), requests(size), arrived(size, false) {}

  const int first_rank;
  const Signature signature;      // of the first rank
  std::vector<Request> requests;  // by rank
  std::vector<bool> arrived;      // by rank
  bool done = false;
  Interval interval;
};

// Into fresh memory first, because results may overlap with inputs.
void RunReduction(const std::vector<Request>& requests) {
  const Request& first = requests[0];
  const int64_t numel = first.input.numel();
  std::vector<std::byte> result(first.input.nbytes());
  std::vector<const std::byte*> parts;
  for (const Request& request : requests) parts.push_back(Bytes(request.input));
  std::byte* const target = result.data();
  Reduce(first.dtype(), first.op, parts, {&target, 1}, numel);

  const bool scatter = first.collective == Collective::kReduceScatter;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    const Tensor& output = requests[rank].output;
    CopyBytes(Bytes(output), result.data() + (scatter ? rank * output.nbytes() : 0), output.nbytes());
  }
}

void Broadcast(const std::vector<Request>& requests) {
  const Tensor& source = requests[static_cast<size_t>(requests[0].root)].input;
  for (const Request& request : requests) CopyBytes(Bytes(request.output), Bytes(source), source.nbytes());
}

void AllGather(const std::vector<Request>& requests) {
  for (const Request& target : requests) {
    for (size_t rank = 0; rank < requests.size(); ++rank) {
      const Tensor& input = requests[rank].input;
      CopyBytes(Bytes(target.output) + rank * input.nbytes(), Bytes(input), input.nbytes());
    }
  }
}

void Run(const std::vector<Request>& requests) {
  switch (requests[0].collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return RunReduction(requests);
    case Collective::kBroadcast:
      return Broadcast(requests);
    case Collective::kAllGather:
      return AllGather(requests);
    case Collective::kBarrier:
      return;
  }
}

// Where the ranks meet. Everything is behind one mutex: the reference has to be right, not fast.
class LocalWorld {
 public:
  LocalWorld(int size, std::chrono::milliseconds timeout)
      : size_(static_cast<size_t>(size)), timeout_(timeout), left_(size_, false) {}

  int size() const { return static_cast<int>(size_); }

  // Adds this rank to the collective of its sequence number, and runs that if nobody else is missing.
  std::shared_ptr<Meeting> Arrive(int rank, Request request) {
    const std::lock_guard lock(mutex_);
    last_arrival_ns_ = Now();
    const int64_t sequence = request.sequence;
    std::shared_ptr<Meeting>& slot = open_[sequence];
    if (slot == nullptr) slot = std::make_shared<Meeting>(size_, rank, Signature(request));
    std::shared_ptr<Meeting> meeting = slot;
    const Signature signature(request);
    if (signature != meeting->signature) {
      Fail(Mismatch(rank, signature, meeting->first_rank, meeting->signature));
    } else {
      meeting->requests[static_cast<size_t>(rank)] = std::move(request);
      meeting->arrived[static_cast<size_t>(rank)] = true;
    }
    FailIfAbandoned(*meeting);
    if (failure_.empty() && std::ranges::find(meeting->arrived, false) == meeting->arrived.end()) {
      Complete(*meeting);
      open_.erase(sequence);
    }
    return meeting;
  }

  // Returns when the collective is done. Throws CollectiveError if it never will be.
  void Wait(int rank, const Meeting& meeting, int64_t issue_ns) {
    std::unique_lock lock(mutex_);
    while (!meeting.done && failure_.empty()) {
      const std::chrono::nanoseconds idle(Now() - std::max(issue_ns, last_arrival_ns_));
      if (idle >= timeout_) {
        Fail(Join("missing rank ", Missing(meeting), ": nothing was issued for ", timeout_.count(), " ms"));
      } else {
        changed_.wait_for(lock, timeout_ - idle);
      }
    }
    if (!meeting.done) {
      throw CollectiveError(Failure(rank, meeting.signature, kBackend, Now() - issue_ns, failure_));
    }
  }

  Interval IntervalOf(const Meeting& meeting) {
    const std::lock_guard lock(mutex_);
    return meeting.interval;
  }

  // The rank will issue nothing more.
  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(rank)] = true;
    for (const auto& [sequence, meeting] : open_) FailIfAbandoned(*meeting);
  }

 private:
  void Complete(Meeting& meeting) {
    meeting.interval.start_ns = Now();
    Run(meeting.requests);
    meeting.interval.end_ns = Now();
    meeting.requests.clear();
    meeting.done = true;
    changed_.notify_all();
  }

  void FailIfAbandoned(const Meeting& meeting) {
    for (size_t rank = 0; rank < size_; ++rank) {
      if (left_[rank] && !meeting.arrived[rank]) Fail(Join("rank ", rank, " left"));
    }
  }

  // The first cause stays.
  void Fail(std::string cause) {
    if (failure_.empty()) failure_ = std::move(cause);
    for (const auto& [sequence, meeting] : open_) meeting->requests.assign(size_, {});
    changed_.notify_all();
  }

  std::string Missing(const Meeting& meeting) const {
    std::string ranks;
    for (size_t rank = 0; rank < size_; ++rank) {
      if (!meeting.arrived[rank]) ranks += Join(ranks.empty() ? "" : ", ", rank);
    }
    return ranks;
  }

  const size_t size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Meeting>> open_;  // by sequence number
  std::vector<bool> left_;                            // by rank
  int64_t last_arrival_ns_ = 0;
  std::string failure_;
};

class LocalWork : public Work::State {
 public:
  LocalWork(std::shared_ptr<LocalWorld> world, std::shared_ptr<Meeting> meeting, int rank)
      : world_(std::move(world)), meeting_(std::move(meeting)), rank_(rank), issue_ns_(Now()) {}

  void Wait() override { world_->Wait(rank_, *meeting_, issue_ns_); }
  Interval interval() override {
    Wait();
    return world_->IntervalOf(*meeting_);
  }

 private:
  const std::shared_ptr<LocalWorld> world_;
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const int64_t issue_ns_;
};

class LocalProcessGroup : public ProcessGroup {
 public:
  LocalProcessGroup(std::shared_ptr<LocalWorld> world, int rank)
      : ProcessGroup(rank, world->size()), world_(std::move(world)) {}
  ~LocalProcessGroup() override { world_->Leave(rank()); }

  std::string_view backend() const override { return kBackend; }

  // At a barrier earlier collectives are done, because they run in order.
  Work Issue(Request request) override {
    request.sequence = next_sequence_++;
    return Work(std::make_shared<LocalWork>(world_, world_->Arrive(rank(), std::move(request)), rank()));
  }

 private:
  const std::shared_ptr<LocalWorld> world_;
  int64_t next_sequence_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options) {
  Require(size >= 1, "local groups: size is ", size, ", expected at least 1");
  const auto world = std::make_shared<LocalWorld>(size, options.timeout);
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) groups.push_back(std::make_unique<LocalProcessGroup>(world, rank));
  return groups;
}

}  // namespace gradsync::comm
