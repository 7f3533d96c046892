#include "comm/testing/local_process_group.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "comm/queue/chunks.h"
#include "comm/queue/request.h"
#include "comm/queue/request_queue.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

// Works on copies of the inputs, because outputs may overlap inputs.
void RunForAll(const std::vector<Request>& requests) {
  if (requests[0].bytes() == 0) return;
  std::vector<Tensor> copies;
  std::vector<std::byte*> inputs;
  for (const Request& request : requests) {
    copies.push_back(request.input.Clone());
    inputs.push_back(Bytes(copies.back()));
  }
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    RunFromInputs(requests[rank], static_cast<int>(rank), inputs);
  }
}

// Runs one collective after the other for all ranks. One mutex protects all members, because the reference
// must be correct, not fast.
class LocalWorld {
 public:
  LocalWorld(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout), requests_(static_cast<size_t>(size)), state_(requests_.size(), State::kMissing) {}

  int size() const { return static_cast<int>(requests_.size()); }

  // Returns when all ranks have called this, and the last of them has run the collective. Throws PeerError,
  // std::runtime_error.
  void Meet(int rank, const Request& request) {
    std::unique_lock lock(mutex_);
    const int64_t round = num_rounds_;
    requests_[static_cast<size_t>(rank)] = request;
    state_[static_cast<size_t>(rank)] = State::kHere;
    const auto first = std::ranges::find(state_, State::kHere) - state_.begin();
    const Signature signature(request);
    const Signature other(requests_[static_cast<size_t>(first)]);
    if (signature != other) difference_ = DescribeMismatch(rank, signature, static_cast<int>(first), other);
    if (difference_.empty() && std::ranges::count(state_, State::kHere) == size()) {
      RunForAll(requests_);
      requests_.assign(requests_.size(), {});
      state_.assign(state_.size(), State::kMissing);
      ++num_rounds_;
      changed_.notify_all();
      return;
    }
    const auto has_left = [&] { return std::ranges::find(state_, State::kLeft) != state_.end(); };
    changed_.notify_all();
    changed_.wait_for(lock, timeout_,
                      [&] { return num_rounds_ > round || !difference_.empty() || has_left(); });
    if (num_rounds_ > round) return;
    if (!difference_.empty()) throw std::runtime_error(difference_);
    const bool is_late = !has_left();
    const auto peer = std::ranges::find(state_, is_late ? State::kMissing : State::kLeft) - state_.begin();
    if (is_late) {
      throw PeerError(static_cast<int>(peer),
                      Join("rank ", peer, " made no progress for ", Seconds(timeout_)));
    }
    throw PeerClosed(static_cast<int>(peer), Join("rank ", peer, " closed the connection"));
  }

  // The rank issues no more collectives.
  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    requests_[static_cast<size_t>(rank)] = {};
    state_[static_cast<size_t>(rank)] = State::kLeft;
    changed_.notify_all();
  }

 private:
  enum class State { kMissing, kHere, kLeft };

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request> requests_;  // requests of the ranks that have called Meet
  std::vector<State> state_;       // state of each rank
  std::string difference_;         // difference between requests; empty if there is none
  int64_t num_rounds_ = 0;
};

class LocalProcessGroup : public QueueGroup {
 public:
  LocalProcessGroup(std::shared_ptr<LocalWorld> world, int rank)
      : QueueGroup(rank, world->size()), leave_([world, rank] { world->Leave(rank); }) {
    queue_.emplace(RequestQueueOptions{
        .rank = rank,
        .backend = "local",
        .run = [world, rank](const Request& request, int) { world->Meet(rank, request); },
        .abort = leave_,
        .first_cause = std::make_shared<FirstCause>(World{.rank = rank, .size = world->size()}),
        // The waiting thread may run it.
        .begin = [](const Request&) { return false; }});
  }
  ~LocalProcessGroup() override {
    queue_.reset();
    leave_();
  }

  std::string_view backend() const override { return "local"; }
  GroupFacts facts() const override { return {.link = "none"}; }

 private:
  const std::function<void()> leave_;
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
