#include "comm/nccl/nccl_process_group.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "comm/queue/request.h"
#include "model/base/error.h"
#include "model/tensor/cuda_clock.h"

namespace gradsync::comm {
namespace {

using model::CudaDevice;
using model::CudaEvent;
using model::CudaStream;
using model::Tensor;

constexpr std::string_view kBackend = "nccl";
// Time between two checks of the watching thread. A waiting host thread checks by itself.
constexpr std::chrono::milliseconds kWatchPeriod{10};
constexpr std::chrono::microseconds kHostWaitPeriod{20};

// The times of one collective on the communication stream.
struct EventPair {
  CudaEvent start;
  CudaEvent end;
};

// One collective. Once it is in flight, the engine's mutex protects everything except the signature.
struct Flight {
  Flight(Request r, EventPair e, std::shared_ptr<const model::CudaAnchor> a)
      : signature(r), request(std::move(r)), events(std::move(e)), anchor(std::move(a)) {}

  void DropTensors() { request.input = request.output = Tensor(); }

  const Signature signature;
  Request request;
  EventPair events;
  std::shared_ptr<const model::CudaAnchor> anchor;
  const int64_t issue_ns = Now();
  bool done = false;  // true if the GPU has passed the collective's end
  std::string error;  // error; empty unless the collective failed
};

// The state that the group and its Works share: handles may outlive the group.
class Engine {
 public:
  Engine(const GroupOptions& options, std::shared_ptr<CudaDevice> device)
      : options_(options),
        device_(std::move(device)),
        clock_(device_->Resource<model::CudaClock>()),
        stream_(*device_, CudaStream::Priority::kHigh),
        issued_(*device_),
        barrier_(Tensor::Zeros(device_, {1}, model::DType::kF32)),
        communicator_(std::in_place, options.world, *device_, options.timeout),
        watcher_([this] { Watch(); }) {}
  ~Engine() = default;  // Close was called
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::shared_ptr<Flight> Issue(Request request) {
    const std::lock_guard issuing(issue_mutex_);
    device_->MakeCurrent();
    std::shared_ptr<Flight> flight = Prepare(std::move(request));
    if (!flight->error.empty()) return flight;
    const std::string cause = Launch(*flight);
    std::unique_lock lock(mutex_);
    launching_.reset();
    if (in_flight_.empty()) progress_ns_ = Now();
    if (!cause.empty() || !failure_.empty()) Reject(*flight, failure_.empty() ? cause : failure_);
    if (!cause.empty()) Fail(lock, flight->signature, cause);
    in_flight_.push_back(flight);
    issued_something_.notify_one();
    return flight;
  }

  void Wait(Flight& flight) {
    if (flight.signature.collective == Collective::kBarrier) return WaitForBarrier(flight);
    {
      const std::lock_guard lock(mutex_);
      ThrowIfFailed(flight);
      if (flight.done) return;
    }
    // May block if the queue is full.
    device_->MakeCurrent();
    device_->compute_stream().Wait(flight.events.end);
    const std::lock_guard lock(mutex_);
    flight.DropTensors();
  }

  // Returns when the GPU has passed the barrier and everything before it.
  void WaitForBarrier(Flight& flight) {
    {
      std::unique_lock lock(mutex_);
      WaitOnHost(lock, flight);
    }
    clock_.Anchor();
  }

  Interval IntervalOf(Flight& flight) {
    std::unique_lock lock(mutex_);
    WaitOnHost(lock, flight);
    return {.start_ns = flight.anchor->TimeOf(flight.events.start),
            .end_ns = flight.anchor->TimeOf(flight.events.end)};
  }

  bool IsDone(const Flight& flight) {
    const std::lock_guard lock(mutex_);
    device_->MakeCurrent();
    Reap();
    return flight.done || !flight.error.empty();
  }

  void Recycle(Flight& flight) {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) free_events_.push_back(std::move(flight.events));
  }

  void Close() {
    {
      std::unique_lock lock(mutex_);
      is_closed_ = true;
      try {
        Reap();
        if (!in_flight_.empty())
          Fail(lock, in_flight_.front()->signature, "the group was destroyed before it finished");
      } catch (const model::CudaError&) {
        // The error is reported elsewhere, because every CUDA call returns it.
      }
    }
    issued_something_.notify_one();
    watcher_.join();
    communicator_.reset();
    const std::lock_guard lock(mutex_);
    // Memory that the GPU may still use, if it ever continues, is never freed.
    if (!WaitUntilEmpty()) new std::deque<std::shared_ptr<Flight>>(in_flight_);
    in_flight_.clear();
  }

  std::string log_prefix() const { return communicator_->log_prefix(); }

 private:
  // Returns whether the GPU has passed the end of all collectives. It does this within the timeout unless it
  // hangs.
  bool WaitUntilEmpty() {
    const int64_t begin_ns = Now();
    try {
      while (!in_flight_.empty() && !in_flight_.back()->events.end.done()) {
        if (std::chrono::nanoseconds(Now() - begin_ns) >= options_.timeout) return false;
        std::this_thread::sleep_for(kHostWaitPeriod);
      }
    } catch (const model::CudaError&) {
      // After a failure no work runs on the GPU.
    }
    return true;
  }

  // Assigns a sequence number. Sets an error if the request must not be started.
  std::shared_ptr<Flight> Prepare(Request request) {
    const std::lock_guard lock(mutex_);
    request.sequence = next_sequence_++;
    auto flight = std::make_shared<Flight>(std::move(request), TakeEvents(), clock_.anchor());
    if (flight->signature.collective == Collective::kBarrier)
      flight->request.input = flight->request.output = barrier_;
    if (!failure_.empty()) Reject(*flight, failure_);
    if (flight->error.empty()) launching_ = flight;
    issued_something_.notify_one();
    return flight;
  }

  // Enqueues the collective on the stream. Returns the error; empty if there is none. Any of these calls may
  // block while the GPU's queue is full, and the first collective of a kind waits for the other ranks. So the
  // watcher's mutex is not held.
  std::string Launch(const Flight& flight) {
    std::string cause;
    issued_.Record(device_->compute_stream());
    stream_.Wait(issued_);
    flight.events.start.Record(stream_);
    try {
      if (flight.request.output.numel() > 0) communicator_->Launch(flight.request, stream_);
    } catch (const NcclError& error) {
      cause = error.what();
    }
    // The event is recorded after the enqueued work, even if enqueuing failed, because the tensors are kept
    // until the GPU reaches this event.
    flight.events.end.Record(stream_);
    return cause;
  }

  EventPair TakeEvents() {
    if (free_events_.empty())
      return {CudaEvent(*device_, CudaEvent::Timing::kOn), CudaEvent(*device_, CudaEvent::Timing::kOn)};
    EventPair events = std::move(free_events_.back());
    free_events_.pop_back();
    return events;
  }

  static void ThrowIfFailed(const Flight& flight) {
    if (!flight.error.empty()) throw CollectiveError(flight.error);
  }

  // Blocks the host until the GPU has passed the collective's end. Throws CollectiveError.
  void WaitOnHost(std::unique_lock<std::mutex>& lock, Flight& flight) {
    device_->MakeCurrent();
    while (true) {
      Reap();
      ThrowIfFailed(flight);
      if (flight.done) return;
      lock.unlock();
      std::this_thread::sleep_for(kHostWaitPeriod);
      lock.lock();
    }
  }

  // Releases the tensors of collectives that the GPU has finished.
  void Reap() {
    while (!in_flight_.empty() && in_flight_.front()->events.end.done()) {
      Flight& flight = *in_flight_.front();
      flight.done = true;
      flight.DropTensors();
      progress_ns_ = Now();
      in_flight_.pop_front();
    }
  }

  void Reject(Flight& flight, const std::string& cause) {
    const int name = options_.world.NameOf(options_.world.rank);
    flight.error = DescribeFailure(name, flight.signature, kBackend, Now() - flight.issue_ns, cause);
  }

  // Fails all unfinished and later collectives with this failure, unless there was an earlier failure.
  void Fail(std::unique_lock<std::mutex>& lock, const Signature& first, const std::string& cause) {
    if (!failure_.empty()) return;
    failure_ = Join(Name(first.collective), " #", first.sequence, " had failed: ", cause);
    for (const auto& flight : in_flight_) Reject(*flight, flight->signature == first ? cause : failure_);
    lock.unlock();
    communicator_->Abort();
    lock.lock();
  }

  void Watch() {
    pthread_setname_np(pthread_self(), Join("nccl_", options_.world.rank).substr(0, 15).c_str());
    std::unique_lock lock(mutex_);
    while (!is_closed_) {
      const auto is_idle = [this] { return in_flight_.empty() && launching_ == nullptr; };
      if (is_idle()) {
        issued_something_.wait(lock, [&] { return is_closed_ || !is_idle(); });
      } else {
        issued_something_.wait_for(lock, kWatchPeriod, [this] { return is_closed_; });
      }
      if (is_closed_ || is_idle()) continue;
      try {
        LookForBlockedLaunch(lock);
        device_->MakeCurrent();
        Look(lock);
      } catch (const std::exception& error) {
        if (!in_flight_.empty()) Fail(lock, in_flight_.front()->signature, error.what());
      }
    }
  }

  // Uses only the clock, because a call of CUDA might also block.
  void LookForBlockedLaunch(std::unique_lock<std::mutex>& lock) {
    if (launching_ == nullptr || !failure_.empty()) return;
    if (std::chrono::nanoseconds(Now() - launching_->issue_ns) < options_.timeout) return;
    Fail(lock, (in_flight_.empty() ? *launching_ : *in_flight_.front()).signature, NoProgress());
  }

  std::string NoProgress() const {
    return Join("no progress for ", options_.timeout.count(), " ms: a rank is missing, late or stuck");
  }

  void Look(std::unique_lock<std::mutex>& lock) {
    Reap();
    if (in_flight_.empty() || !failure_.empty()) return;
    communicator_->CheckAsyncError();
    const Flight& first = *in_flight_.front();
    // While the collective waits for this rank's own computation, no rank is late.
    if (!first.events.start.done()) progress_ns_ = Now();
    const std::chrono::nanoseconds idle(Now() - progress_ns_);
    if (idle < options_.timeout) return;
    Fail(lock, first.signature, NoProgress());
  }

  const GroupOptions options_;
  const std::shared_ptr<CudaDevice> device_;
  model::CudaClock& clock_;
  const CudaStream stream_;
  const CudaEvent issued_;  // recorded and immediately waited for, so one event serves all collectives
  const Tensor barrier_;
  std::optional<NcclCommunicator> communicator_;  // empty after Close

  std::mutex issue_mutex_;  // held while a collective is enqueued, which may block; never held by the watcher
  // Protects the following members; locked second, and never held during a call that may block.
  std::mutex mutex_;
  std::condition_variable issued_something_;
  std::shared_ptr<Flight> launching_;              // collective that is being enqueued; null if there is none
  std::deque<std::shared_ptr<Flight>> in_flight_;  // collectives in order of issue
  std::vector<EventPair> free_events_;
  int64_t next_sequence_ = 0;
  int64_t progress_ns_ = 0;  // earliest time when the turn of the first collective in flight came
  bool is_closed_ = false;
  std::string failure_;  // the first one's cause; empty while all is well
  std::thread watcher_;  // the last member, because it uses the other members
};

class NcclWork : public Work::State {
 public:
  NcclWork(std::shared_ptr<Engine> engine, std::shared_ptr<Flight> flight)
      : engine_(std::move(engine)), flight_(std::move(flight)) {}
  ~NcclWork() override {
    if (flight_.use_count() == 1) engine_->Recycle(*flight_);
  }
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  void Wait() override { engine_->Wait(*flight_); }
  Interval interval() override { return engine_->IntervalOf(*flight_); }
  bool Done() override { return engine_->IsDone(*flight_); }

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Flight> flight_;
};

// Peak bytes per second into one GPU from its peers, with a margin for reduction inside the switch.
double LimitPerSecond(std::string_view gpu) {
  const auto is = [gpu](std::string_view name) { return gpu.find(name) != std::string_view::npos; };
  if (is("H100") || is("H200") || is("GH200")) return 500e9;
  if (is("A100")) return 330e9;
  if (is("V100")) return 165e9;
  return 1000e9;
}

class NcclProcessGroup : public ProcessGroup {
 public:
  NcclProcessGroup(const GroupOptions& options, std::shared_ptr<CudaDevice> device)
      : ProcessGroup(options.world.rank, options.world.size, device->name()),
        limit_per_second_(LimitPerSecond(device->product_name())),
        engine_(std::make_shared<Engine>(options, std::move(device))) {}
  ~NcclProcessGroup() override { engine_->Close(); }

  std::string_view backend() const override { return kBackend; }
  GroupFacts facts() const override {
    return {.limit_per_second = limit_per_second_, .more = {{"nccl_log_prefix", engine_->log_prefix()}}};
  }

  Work Issue(Request request) override {
    return Work(std::make_shared<NcclWork>(engine_, engine_->Issue(std::move(request))));
  }

 private:
  const double limit_per_second_;
  const std::shared_ptr<Engine> engine_;
};

}  // namespace

std::string NcclVersion() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return Join(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> /*first_cause*/) {
  Require(device != nullptr && !device->is_cpu(), "backend nccl: device is ",
          device == nullptr ? "none" : device->name(), ", expected a CUDA device");
  CheckOptions(kBackend, options);
  return std::make_unique<NcclProcessGroup>(options, std::static_pointer_cast<CudaDevice>(device));
}

}  // namespace gradsync::comm
