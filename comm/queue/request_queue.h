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
  // A process group that is made of other groups sets `divide`; its queue then has no communication threads
  // and does not call `run`. The queue calls `divide` when a request is issued. `divide` issues requests to
  // the other groups, and returns the Work that ends when the whole collective has ended.
  std::function<Work(const Request& request)> divide = {};
  // Number of communication threads, which is the number of requests that run concurrently.
  int num_threads = 1;
  // Runs a request to its end, or throws. `thread` is the number of the communication thread that runs it,
  // from 0, or kCaller for any other thread.
  std::function<void(const Request& request, int thread)> run;
  // A function of the backend that closes this rank's connections, so that all running requests fail, on this
  // rank and on the other ranks.
  std::function<void()> abort;
  // Writes a note about this rank's failure for the other ranks, and finds the rank that failed first. If
  // is_part is true, this group is inside a larger group: its queue only writes the note, and the queue of
  // the larger group finds that rank.
  std::shared_ptr<FirstCause> first_cause;
  bool is_part = false;
  // A backend sets `begin` if it can run short requests in less time than waking another thread takes; else
  // `begin` is empty. The queue calls `begin` when a request is issued and no other request is unfinished.
  // `begin` may do the part of the request for which other ranks wait, such as sending this rank's data. If
  // it returns true, the queue wakes no communication thread: the thread that calls Work::Wait does the rest,
  // unless a communication thread has started it.
  std::function<bool(const Request& request)> begin = {};
  // If true, a thread in Work::Wait runs all requests that no communication thread has started, up to the one
  // for which it waits. If false, a thread in Work::Wait runs these requests only if `begin` returned true
  // for the request for which it waits, or if `divide` is set.
  bool waiters_help = false;
};

// Returns options for the queue of a backend; the caller must still set the functions, such as `run` and
// `abort`, in these options. `first_cause` is null, or the FirstCause that the group shares with the larger
// group of which it is a part. If `first_cause` is null, the options get a new FirstCause.
RequestQueueOptions MakeQueueOptions(std::string_view backend, const GroupOptions& options,
                                     std::shared_ptr<FirstCause> first_cause);

// A queue of one rank's collectives, in the order of issue, and the threads that run them. When a collective
// fails, all unfinished and all later collectives fail immediately, with its cause.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueOptions options);
  // Drops requests that have not been started, makes running requests fail, and never waits for another rank.
  // Waits until no thread runs a request any more, neither a communication thread nor a thread in Work::Wait.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Appends the request, and sets its sequence number. A barrier, and a request whose caller waits
  // immediately (Waits::kAtOnce), start only after all earlier requests of this queue are done.
  Work Issue(Request request);
  // Closes this rank's connections, so that all unfinished and later requests fail, on this rank and on the
  // other ranks. The errors of these requests give `cause` as the cause, or, if a request had failed before,
  // the cause of that failure.
  void Abort(std::string_view cause);
  // Makes all unfinished and later requests fail because `operation` failed with `exception`, in the queue or
  // outside it. Writes a note about the failure for the other ranks (FirstCause::Write), and then closes this
  // rank's connections. Returns the text of the cause for error messages: the failure of the rank that failed
  // first, or, if is_part is set, `exception`. After an earlier failure of this queue, returns the cause of
  // that failure.
  std::string Fail(std::string_view operation, const std::exception& exception);

 private:
  class Item;

  bool CanRun() const { return !items_.empty() && std::ssize(running_) < options_.num_threads; }
  void RunThread(int index);
  // Runs the first request of the queue on the calling thread. `lock` holds mutex_ before and after the call,
  // but not while the request runs.
  void RunNext(std::unique_lock<std::mutex>& lock, int thread);
  // Runs queued requests on the calling thread until `item` is done, or, in a queue with communication
  // threads, until no further request can start. Communication threads may run some of the requests. The
  // caller must add 1 to num_helpers_ before the call; this function subtracts 1 when it ends.
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

// A process group whose collectives a queue runs. The destructor of a derived class must first reset queue_,
// because the queue's threads use the derived object.
class QueueGroup : public ProcessGroup {
 public:
  Work Issue(Request request) override { return queue_->Issue(std::move(request)); }
  void Abort() override { queue_->Abort("the group was given up"); }

 protected:
  using ProcessGroup::ProcessGroup;

  std::optional<RequestQueue> queue_;
};

}  // namespace gradsync::comm
