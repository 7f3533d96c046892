#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "comm/queue/first_cause.h"
#include "comm/queue/request.h"

namespace gradsync::comm {

struct RequestQueueOptions {
  static constexpr int kCaller = -1;

  int rank = 0;
  std::string_view backend;
  // Replaces `run` and the threads in a process group that is made of other groups. Called when a request is
  // issued, it issues requests to these groups, and returns the Work for which the caller waits.
  std::function<Work(const Request& request)> divide = {};
  // Number of communication threads, which is the number of requests that run concurrently.
  int num_threads = 1;
  // Runs a request to its end, or throws. `thread` is the communication thread's number, or kCaller.
  std::function<void(const Request& request, int thread)> run;
  // Closes the connections, so that all running requests fail, here and on the other ranks.
  std::function<void()> abort;
  // Stores this rank's failure and finds the first cause. If is_part is true, this group is inside a larger
  // group: it only stores the failure, and the larger group finds the first cause.
  std::shared_ptr<FirstCause> first_cause;
  bool is_part = false;
  // For a backend that can run short requests in less time than waking another thread takes; else empty.
  // Called when a request is issued and the queue is empty. It does the part of the request for which other
  // ranks wait. It returns true if the rest may wait until the caller calls Work::Wait; the caller's thread
  // then does the rest, unless a communication thread has started it.
  std::function<bool(const Request& request)> begin = {};
  // If true, a waiting thread also runs requests for which `begin` did not return true and which no
  // communication thread has started.
  bool waiters_help = false;
};

// Returns the options of a backend's queue, without its functions. `first_cause` is the argument of the
// GroupMaker: null unless the group is inside a larger group. If it is null, this function makes one.
RequestQueueOptions MakeQueueOptions(std::string_view backend, const GroupOptions& options,
                                     std::shared_ptr<FirstCause> first_cause);

// Queues the collectives of one rank in the order of issue for the threads that run them. When a collective
// fails, all unfinished and all later collectives fail immediately, with its cause.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueOptions options);
  // Drops requests that have not been started, makes running requests fail, and never waits for another rank.
  // Waits for threads that run requests, also for those that call Work::Wait.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Appends the request, and sets its sequence number. A barrier, and a request whose caller waits
  // immediately (Waits::kAtOnce), start after all earlier requests are done.
  Work Issue(Request request);
  // Closes the connections, so that all unfinished and later requests fail, here and on the other ranks.
  // `cause` is their cause, unless an earlier request has failed.
  void Abort(std::string_view cause);
  // Like Abort, for a failure outside the queue, which it also publishes to the other ranks
  // (FirstCause::Write). Returns the first cause.
  std::string Fail(std::string_view operation, const std::exception& exception);

 private:
  class Item;

  bool CanRun() const { return !items_.empty() && std::ssize(running_) < options_.num_threads; }
  void RunThread(int index);
  // Runs the first request of the queue; `lock` holds mutex_ before and after.
  void RunNext(std::unique_lock<std::mutex>& lock, int thread);
  // Runs queued requests on the calling thread until `item` is done. Communication threads may run some of
  // them. The caller has added 1 to num_helpers_; this function subtracts it.
  void RunUpTo(const Item& item);
  void ThrowIfFailed();

  const RequestQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable issued_;
  std::condition_variable finished_;  // notified when a running request has finished
  std::condition_variable failed_;
  std::deque<std::shared_ptr<Item>> items_;  // requests that have not been started
  std::set<int64_t> running_;                // positions of running requests in the order of issue
  int64_t num_taken_ = 0;
  int64_t next_sequence_ = 0;
  int num_unfinished_ = 0;
  std::atomic<int> num_helpers_ = 0;  // threads in RunUpTo, or on their way into it
  bool is_stopping_ = false;
  bool is_failing_ = false;
  std::string failure_;  // cause of the first failure; empty if there is none
  std::vector<std::thread> threads_;
};

// A process group whose collectives a queue runs. The destructor of a derived class must reset queue_ first.
class QueueGroup : public ProcessGroup {
 public:
  Work Issue(Request request) override { return queue_->Issue(std::move(request)); }
  void Abort() override { queue_->Abort("the group was given up"); }

 protected:
  using ProcessGroup::ProcessGroup;

  std::optional<RequestQueue> queue_;
};

}  // namespace gradsync::comm
