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
  // For a group that is made of other groups; replaces `run` and the threads. This function is called when a
  // request is issued, issues requests to the parts, and returns the work for which Work::Wait waits.
  std::function<Work(const Request& request)> divide = {};
  // Number of communication threads, which is the number of requests that run concurrently.
  int num_threads = 1;
  // Runs a request to its end, or throws. `thread` is the number of the calling thread, or kCaller for the
  // caller's thread.
  std::function<void(const Request& request, int thread)> run;
  // Makes all running requests fail, here and, because connections are closed, on the other ranks.
  std::function<void()> abort;
  // Stores this rank's failure and finds the first cause. A part of a larger group only stores the failure;
  // the larger group finds the first cause.
  std::shared_ptr<FirstCause> first_cause;
  bool is_part = false;
  // For a backend whose requests may be shorter than the switch to another thread; else empty. This function
  // is called when a request is issued and the queue is empty. It does the part of the work for which other
  // ranks wait. It returns true if the rest of the work may wait until the caller calls Work::Wait; then that
  // thread does the rest, unless a communication thread has started it.
  std::function<bool(const Request& request)> begin = {};
  // If true, a waiting thread also runs requests for which `begin` did not return true and which no
  // communication thread has started.
  bool waiters_help = false;
};

// Returns the options of a backend's queue, without its functions. `first_cause` is an argument of the
// GroupMaker: if it is null, the group is no part of a larger group, and makes its own.
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

  // Appends the request, and sets its sequence number unless it has one. A barrier, and a request whose
  // caller waits immediately, run after all earlier requests are done.
  Work Issue(Request request);
  // Makes all unfinished and later requests fail with this cause, if no request has failed yet. Closes the
  // connections, so the other ranks also fail.
  void Abort(std::string_view cause);
  // Like Abort, after a failure outside the queue. Writes the failure for the other ranks. Returns the first
  // cause.
  std::string Fail(std::string_view operation, const std::exception& exception);

 private:
  class Item;

  bool CanRun() const { return !items_.empty() && std::ssize(running_) < options_.num_threads; }
  void RunThread(int index);
  // Runs the first request of the queue; `lock` holds mutex_ before and after.
  void RunNext(std::unique_lock<std::mutex>& lock, int thread);
  // Runs the caller's requests up to this request, except requests that threads of the queue run. The caller
  // is one of num_helpers_ from before this request was done.
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

// A group whose collectives are run by a queue. The destructor of a derived class must reset the queue first.
class QueueGroup : public ProcessGroup {
 public:
  Work Issue(Request request) override { return queue_->Issue(std::move(request)); }
  void Abort() override { queue_->Abort("the group was given up"); }

 protected:
  using ProcessGroup::ProcessGroup;

  std::optional<RequestQueue> queue_;
};

}  // namespace gradsync::comm
