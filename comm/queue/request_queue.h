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
  // Only backend hierarchical sets the function `divide`; other backends leave it empty. `divide` divides a
  // request into requests to the group within a host, the group between hosts, or both. `divide` returns the
  // Work that ends when these requests have ended. A queue with `divide` has no communication threads
  // (threads that run requests), and never calls `run`.
  std::function<Work(const Request& request)> divide = {};
  // If the function `divide` is empty, the queue has `num_threads` communication threads, which run its
  // requests. At most num_threads requests run at one time, on communication threads and on callers' threads
  // in Work::Wait together.
  int num_threads = 1;
  // `run` is the backend's function that runs a request to its end; it throws an exception if the request
  // fails. `thread` is the number, from 0, of the communication thread that calls this function, or kCaller
  // (-1) for any other thread.
  std::function<void(const Request& request, int thread)> run;
  // `abort` is the backend's function that makes the requests that run in this process group fail on this
  // rank. In backends gloo and shm, `abort` closes the group's connections, so requests of other ranks that
  // still need this rank fail too.
  std::function<void()> abort;
  // `first_cause` is the object that writes a note about this rank's failure for the other ranks, and finds
  // the rank that failed first. `is_part` is true if backend hierarchical made both an inner and an outer
  // group, and this group is one of these. The queue of such a part only writes the note; the queue of the
  // hierarchical group finds the rank that failed first.
  std::shared_ptr<FirstCause> first_cause;
  bool is_part = false;
  // `begin` is a function that a backend may set to choose the thread that runs `request`. If `begin` returns
  // false, RequestQueue::Issue wakes a communication thread to run the request. If `begin` returns true,
  // Issue wakes no communication thread: the thread that calls Work::Wait runs the request, unless a
  // communication thread starts it earlier. Issue calls `begin` only if no other request is unfinished, the
  // queue has not failed, and the request can start at once: its function Request::prepare is empty, and the
  // collective Request::after has ended. `begin` may itself run the first part of the request, such as
  // copying this rank's input to memory that other ranks read.
  std::function<bool(const Request& request)> begin = {};
  // If waiters_help is true, a thread in Work::Wait runs queued requests, in order, until the request for
  // which it waits is done or no further request can start (none is queued, or num_threads requests are
  // running). If waiters_help is false, a thread in Work::Wait runs queued requests only if the queue has no
  // communication threads, or if `begin` left the awaited request to this thread (returned true).
  bool waiters_help = false;
};

// Returns options for the queue of a backend; the caller must still set the functions `run` and `abort`, and
// may set `begin`, `num_threads` and `waiters_help`. `first_cause` is the object that finds the rank that
// failed first. If `first_cause` is null, the options get a new FirstCause, and RequestQueueOptions::is_part
// is false. If `first_cause` is not null, the options get `first_cause`, and RequestQueueOptions::is_part is
// true.
RequestQueueOptions MakeQueueOptions(std::string_view backend, const GroupOptions& options,
                                     std::shared_ptr<FirstCause> first_cause);

// A RequestQueue holds the collectives of one rank in one process group, in the order of issue, with the
// threads that run them. When a collective fails, all unfinished and later collectives of this queue also
// fail, and their errors name the failed collective and its cause.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueOptions options);
  // If a collective has not ended, the destructor calls Abort, so that unfinished requests fail. The
  // destructor waits until no thread runs a request any more, neither a communication thread nor a thread in
  // Work::Wait.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Appends `request` to the queue, and sets request.sequence to the number of requests that were issued to
  // this queue before. The queue runs a barrier, and a request whose caller waits immediately
  // (Waits::kAtOnce), only after all earlier requests of this queue are done.
  Work Issue(Request request);
  // Makes all unfinished and later requests of this queue fail. The errors of these requests give `cause` as
  // the cause, or, if this queue had failed or had been aborted before, the earlier cause. Also calls
  // RequestQueueOptions::abort, which makes running requests fail.
  void Abort(std::string_view cause);
  // Makes all unfinished and later requests fail because `operation`, a collective or an allocation, failed
  // with `exception`. Writes a note about the failure for the other ranks (FirstCause::Write), and then calls
  // RequestQueueOptions::abort. Returns the cause for error messages: the failure of the rank that failed
  // first. But if RequestQueueOptions::is_part is true, Fail returns exception.what(). If this queue failed
  // or was aborted before, Fail only returns that earlier cause.
  std::string Fail(std::string_view operation, const std::exception& exception);

 private:
  class Item;

  bool CanRun() const { return !items_.empty() && std::ssize(running_) < options_.num_threads; }
  void RunThread(int index);
  // Takes the first request from the queue, and runs it on the calling thread. `thread` is the number of the
  // calling communication thread, or kCaller; RunNext passes it to RequestQueueOptions::run. `lock` holds
  // mutex_ before and after the call, but not while the request runs.
  void RunNext(std::unique_lock<std::mutex>& lock, int thread);
  // Runs queued requests on the calling thread until the request `item` is done, or, in a queue with
  // communication threads, until no request can start because none is queued or num_threads requests are
  // running. While RunUpTo runs, other threads may run requests of the queue too. The caller must add 1 to
  // num_helpers_, the number of threads in RunUpTo, before the call; RunUpTo subtracts 1 when it ends.
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

// Base class of the process groups that run their collectives in a RequestQueue, the member queue_. The
// destructor of a derived class must first reset queue_, because the queue's threads use the derived object.
class QueueGroup : public ProcessGroup {
 public:
  Work Issue(Request request) override { return queue_->Issue(std::move(request)); }
  void Abort() override { queue_->Abort("the group was given up"); }

 protected:
  using ProcessGroup::ProcessGroup;

  std::optional<RequestQueue> queue_;
};

}  // namespace gradsync::comm
