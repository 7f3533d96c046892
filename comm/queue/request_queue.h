#ifndef GRADSYNC_COMM_QUEUE_REQUEST_QUEUE_H_
#define GRADSYNC_COMM_QUEUE_REQUEST_QUEUE_H_

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
  // For a group that is made of others, in place of `run` and of threads: gives them a request, when it is
  // issued, and returns what the thread that calls Work::Wait waits for.
  std::function<Work(const Request& request)> divide = {};
  // So many requests run at the same time, each on a communication thread of its own.
  int num_threads = 1;
  // Runs a request to its end, or throws. `thread`: on which of the threads; kCaller on that of a caller.
  std::function<void(const Request& request, int thread)> run;
  // Makes all that run fail, here and, since the connections are closed, on the other ranks.
  std::function<void()> abort;
  // Where this rank notes its failure and finds the first cause. A group that is a part of a larger one only
  // notes; the larger one reads.
  std::shared_ptr<FirstCause> first_cause;
  bool is_part = false;
  // For a backend whose requests are not all worth a change of thread; else empty. Called when a request is
  // issued and the queue is empty: does what the other ranks wait for, and returns true if the rest need not
  // begin before the caller waits. The rest then runs on the thread that calls Work::Wait, unless a
  // communication thread has taken it.
  std::function<bool(const Request& request)> begin = {};
  // Whether a thread that waits also runs what was not left to it, if no communication thread has taken it.
  bool waiters_help = false;
};

// The collectives of one rank, between the caller and the threads that run them, in the order of issue. When
// one fails, all unfinished and all later ones fail at once, with its cause.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueOptions options);
  // Drops what has not been started, lets the rest fail, and never waits for another rank.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Puts the request at the end, and numbers it unless it has a number. A barrier, and what its caller waits
  // for at once, run when all before them are done.
  Work Issue(Request request);
  // Lets all unfinished and all later requests fail with this cause, if none has failed yet. The connections
  // are closed, so the other ranks fail too.
  void Abort(std::string_view cause);
  // Likewise after a failure outside the queue, which is noted for the other ranks. Returns the first cause.
  std::string Fail(std::string_view operation, const std::exception& exception);

 private:
  class Item;

  bool CanRun() const { return !items_.empty() && std::ssize(running_) < options_.num_threads; }
  void RunThread(int index);
  // Runs the first of the queue; `lock` holds mutex_ before and after.
  void RunNext(std::unique_lock<std::mutex>& lock, int thread);
  // Runs the caller's requests up to this one, as far as no thread of the queue does.
  void RunUpTo(const Item& item);
  void ThrowIfFailed();

  const RequestQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable issued_;
  std::condition_variable finished_;  // one that ran
  std::condition_variable failed_;
  std::deque<std::shared_ptr<Item>> items_;  // that nobody has begun to run
  std::set<int64_t> running_;                // their places in the order of issue
  int64_t num_taken_ = 0;
  int64_t next_sequence_ = 0;
  int num_unfinished_ = 0;
  bool is_stopping_ = false;
  bool is_failing_ = false;
  std::string failure_;  // the first one's cause; empty while all is well
  std::vector<std::thread> threads_;
};

// A group whose collectives go through a queue. Its destructor has to reset the queue first.
class QueueGroup : public ProcessGroup {
 public:
  Work Issue(Request request) override { return queue_->Issue(std::move(request)); }
  void Abort() override { queue_->Abort("the group was given up"); }

 protected:
  using ProcessGroup::ProcessGroup;

  std::optional<RequestQueue> queue_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_REQUEST_QUEUE_H_
