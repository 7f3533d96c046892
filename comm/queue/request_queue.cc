#include "comm/queue/request_queue.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "model/error.h"

namespace gradsync::comm {

// One collective, shared by the caller's handles and the thread that runs it.
class RequestQueue::Item : public Work::State {
 public:
  // `helped`: the queue, if those who wait run what is next.
  Item(Request request, std::function<void()> wait_until_computed, RequestQueue* helped)
      : request_(std::move(request)),
        signature_(request_),
        wait_until_computed_(std::move(wait_until_computed)),
        helped_(helped) {}

  void Wait() override {
    // What is done may have outlived its queue.
    if (helped_ != nullptr && !IsDone()) helped_->RunUpTo(*this);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    if (!error_.empty()) throw CollectiveError(error_);
  }
  Interval interval() override {
    Wait();
    return interval_;
  }

  bool IsDone() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  const Request& request() const { return request_; }
  const Signature& signature() const { return signature_; }
  void WaitUntilComputed() const {
    if (wait_until_computed_) wait_until_computed_();
  }

  // With an error if it failed. The tensors are let go first, so that a caller who waited is their only
  // owner.
  void Complete(Interval interval, std::string error) {
    request_.input = model::Tensor();
    request_.output = model::Tensor();
    const std::lock_guard lock(mutex_);
    interval_ = interval;
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }

 private:
  Request request_;  // of the thread that runs it
  const Signature signature_;
  const std::function<void()> wait_until_computed_;
  RequestQueue* const helped_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Interval interval_;
  std::string error_;
};

RequestQueue::RequestQueue(RequestQueueOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.num_threads; ++i) threads_.emplace_back([this, i] { RunThread(i); });
}

RequestQueue::~RequestQueue() {
  std::unique_lock lock(mutex_);
  const bool is_busy = num_unfinished_ > 0;
  lock.unlock();
  if (is_busy) Abort("the group was destroyed before it finished");
  lock.lock();
  is_stopping_ = true;
  lock.unlock();
  issued_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RequestQueue::Abort(std::string_view cause) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = cause;
  }
  failed_.notify_all();
  // Those that run lose their connections; those that wait fail when they are taken.
  options_.abort();
}

Work RequestQueue::Issue(Request request, std::function<void()> wait_until_computed) {
  const std::lock_guard lock(mutex_);
  request.sequence = next_sequence_++;
  auto item = std::make_shared<Item>(std::move(request), std::move(wait_until_computed),
                                     options_.begin ? this : nullptr);
  const bool is_first = num_unfinished_++ == 0;
  items_.push_back(item);
  const bool can_wait = options_.begin && is_first && failure_.empty() && options_.begin(item->request());
  if (!can_wait) issued_.notify_one();
  return Work(item);
}

void RequestQueue::Barrier() {
  Issue(Request{}).Wait();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return num_unfinished_ == 0; });
  if (!failure_.empty()) {
    throw CollectiveError(
        Join("rank ", options_.rank, ": barrier (", options_.backend, ") failed: ", failure_));
  }
}

void RequestQueue::RunThread(int index) {
  pthread_setname_np(pthread_self(), Join("comm_", options_.rank, "_", index).substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    issued_.wait(lock, [&] { return is_stopping_ || CanRun(); });
    if (items_.empty()) return;
    RunNext(lock, index);
  }
}

void RequestQueue::RunUpTo(const Item& item) {
  std::unique_lock lock(mutex_);
  while (!item.IsDone() && CanRun()) RunNext(lock, RequestQueueOptions::kCaller);
  if (CanRun()) issued_.notify_one();
}

void RequestQueue::RunNext(std::unique_lock<std::mutex>& lock, int thread) {
  const auto item = std::move(items_.front());
  items_.pop_front();
  ++num_running_;
  lock.unlock();
  int64_t start_ns = Now();
  std::string error;
  try {
    ThrowIfFailed();
    item->WaitUntilComputed();
    start_ns = Now();
    options_.run(item->request(), thread);
  } catch (const std::exception& exception) {
    error = Fail(*item, exception, start_ns);
  }
  item->Complete({.start_ns = start_ns, .end_ns = Now()}, std::move(error));
  lock.lock();
  --num_running_;
  if (--num_unfinished_ == 0) finished_.notify_all();
}

void RequestQueue::ThrowIfFailed() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw PeerError(failure_, /*is_consequence=*/true);
}

std::string RequestQueue::Fail(const Item& item, const std::exception& exception, int64_t start_ns) {
  const auto* peer_error = dynamic_cast<const PeerError*>(&exception);
  std::unique_lock lock(mutex_);
  if (peer_error != nullptr && peer_error->is_consequence()) {
    // Whoever ran into the cause is about to say so.
    failed_.wait_for(lock, std::chrono::seconds(1), [&] { return !failure_.empty(); });
  }
  std::string cause = failure_;
  if (failure_.empty()) {
    cause = exception.what();
    failure_ =
        Join(Name(item.signature().collective), " #", item.signature().sequence, " had failed: ", cause);
    failed_.notify_all();
    lock.unlock();
    options_.abort();
  }
  return Failure(options_.rank, item.signature(), options_.backend, Now() - start_ns, cause);
}

}  // namespace gradsync::comm
