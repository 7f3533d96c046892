#include "comm/queue/request_queue.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "model/base/error.h"

namespace gradsync::comm {

// One collective, shared by the caller's handles and the thread that runs it.
class RequestQueue::Item : public Work::State {
 public:
  Item(Request request, bool is_divided)
      : request_(std::move(request)), signature_(request_), is_divided_(is_divided) {}

  // Makes waiting threads run the next request of the queue. Call this before any thread waits.
  void LetWaitersHelp(RequestQueue* queue) { helped_ = queue; }

  void Wait() override {
    std::unique_lock lock(mutex_);
    // A finished item may outlive its queue.
    if (helped_ != nullptr && !done_) {
      ++helped_->num_helpers_;
      lock.unlock();
      helped_->RunUpTo(*this);
      lock.lock();
    }
    changed_.wait(lock, [&] { return done_; });
    if (!error_.empty()) throw CollectiveError(error_);
  }
  Interval interval() override {
    Wait();
    return interval_;
  }

  bool Done() override {
    const std::lock_guard lock(mutex_);
    // Perhaps no thread ever waits.
    if (helped_ != nullptr && !is_divided_ && !done_) helped_->issued_.notify_one();
    return done_ || (is_divided_ && request_.after.Done());
  }

  bool IsComplete() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  Request& request() { return request_; }
  const Signature& signature() const { return signature_; }

  // Completes the item. `error` is empty if the request succeeded. Releases the tensors first, so that a
  // caller that waited is their only owner.
  void Complete(Interval interval, std::string error) {
    const std::lock_guard lock(mutex_);
    request_ = Request();
    interval_ = interval;
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }

 private:
  Request request_;  // used by the thread that runs it
  const Signature signature_;
  RequestQueue* helped_ = nullptr;
  const bool is_divided_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Interval interval_;
  std::string error_;
};

RequestQueueOptions MakeQueueOptions(std::string_view backend, const GroupOptions& options,
                                     std::shared_ptr<FirstCause> first_cause) {
  const bool is_part = first_cause != nullptr;
  return {.rank = options.world.NameOf(options.world.rank),
          .backend = backend,
          .num_threads = options.num_threads,
          .run = {},
          .abort = {},
          .first_cause = is_part ? std::move(first_cause) : std::make_shared<FirstCause>(options.world),
          .is_part = is_part};
}

RequestQueue::RequestQueue(RequestQueueOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.num_threads && !options_.divide; ++i)
    threads_.emplace_back([this, i] { RunThread(i); });
}

RequestQueue::~RequestQueue() {
  std::unique_lock lock(mutex_);
  const bool is_busy = num_unfinished_ > std::ssize(items_) ||
                       !std::ranges::all_of(items_, [](const auto& item) { return item->Done(); });
  lock.unlock();
  if (is_busy) Abort("the group was destroyed before it finished");
  lock.lock();
  is_stopping_ = true;
  while (threads_.empty() && !items_.empty()) {
    if (CanRun()) {
      RunNext(lock, RequestQueueOptions::kCaller);
    } else {
      finished_.wait(lock);
    }
  }
  lock.unlock();
  issued_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  lock.lock();
  finished_.wait(lock, [&] { return num_helpers_ == 0; });
}

void RequestQueue::Abort(std::string_view cause) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = cause;
  }
  failed_.notify_all();
  // Running requests lose their connections, and waiting requests fail when a thread starts them.
  options_.abort();
}

Work RequestQueue::Issue(Request request) {
  const std::lock_guard lock(mutex_);
  request.sequence = next_sequence_++;
  const bool is_divided = static_cast<bool>(options_.divide);
  if (is_divided && failure_.empty()) request.after = options_.divide(request);
  auto item = std::make_shared<Item>(std::move(request), is_divided);
  const bool is_first = num_unfinished_++ == 0;
  items_.push_back(item);
  const Request& issued = item->request();
  const bool can_wait = options_.begin && is_first && failure_.empty() && issued.after.Done() &&
                        !issued.prepare && options_.begin(issued);
  if (can_wait || is_divided || options_.waiters_help) item->LetWaitersHelp(this);
  if (!can_wait) issued_.notify_one();
  return Work(item);
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
  while (!item.IsComplete() && (CanRun() || threads_.empty())) {
    if (CanRun()) {
      RunNext(lock, RequestQueueOptions::kCaller);
    } else {
      finished_.wait(lock);
    }
  }
  if (CanRun()) issued_.notify_one();
  --num_helpers_;
  finished_.notify_all();
}

void RequestQueue::RunNext(std::unique_lock<std::mutex>& lock, int thread) {
  const auto item = std::move(items_.front());
  items_.pop_front();
  const int64_t place = num_taken_++;
  running_.insert(place);
  if (item->signature().collective == Collective::kBarrier || item->request().waits == Waits::kAtOnce)
    finished_.wait(lock, [&] { return *running_.begin() == place; });
  lock.unlock();
  const int64_t start_ns = Now();
  Interval interval;
  std::string error;
  try {
    ThrowIfFailed();
    Request& request = item->request();
    interval = request.after.interval();
    if (request.prepare) request.prepare();
    if (!options_.divide) {
      interval.start_ns = Now();
      options_.run(request, thread);
      interval.end_ns = Now();
    }
    if (request.conclude) request.conclude();
  } catch (const std::exception& exception) {
    const Signature& signature = item->signature();
    const std::string cause = Fail(Join(Name(signature.collective), " #", signature.sequence), exception);
    error = DescribeFailure(options_.rank, signature, options_.backend, Now() - start_ns, cause);
  }
  item->Complete(interval, std::move(error));
  lock.lock();
  running_.erase(place);
  --num_unfinished_;
  finished_.notify_all();
}

void RequestQueue::ThrowIfFailed() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw PeerError(kNobody, failure_);
}

std::string RequestQueue::Fail(std::string_view operation, const std::exception& exception) {
  const auto* const peer_error = dynamic_cast<const PeerError*>(&exception);
  const bool is_consequence = peer_error != nullptr && peer_error->suspect() == kNobody;
  std::unique_lock lock(mutex_);
  // The thread that found the cause is about to report it.
  if (is_consequence && !is_failing_)
    failed_.wait_for(lock, std::chrono::seconds(1), [&] { return is_failing_ || !failure_.empty(); });
  if (is_failing_) failed_.wait(lock, [&] { return !failure_.empty(); });
  if (!failure_.empty()) return failure_;
  is_failing_ = true;
  lock.unlock();
  options_.first_cause->Write(exception);
  options_.abort();
  std::string cause = options_.is_part ? exception.what() : options_.first_cause->Read();
  lock.lock();
  if (failure_.empty()) failure_ = Join(operation, " had failed: ", cause);
  failed_.notify_all();
  return cause;
}

}  // namespace gradsync::comm
