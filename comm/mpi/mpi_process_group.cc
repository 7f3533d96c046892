#include "comm/mpi/mpi_process_group.h"

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/queue/chunks.h"
#include "comm/queue/first_cause.h"
#include "comm/queue/reduction.h"
#include "comm/queue/request.h"
#include "comm/rendezvous/rendezvous.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

constexpr std::string_view kBackend = "mpi";

// A poll that takes less than this time found no progress. After kLooksBeforeSleep idle polls in a row the
// thread sleeps between polls, so that other threads can use its core.
constexpr int64_t kIdleLookNs = 3000;
constexpr int kLooksBeforeSleep = 100;
constexpr std::chrono::microseconds kSleep{50};
// Seconds after which a process that waits in MPI_Finalize is ended.
constexpr unsigned kFinalizeWithin = 60;

void Check(int code) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw PeerError(kSomebody, Join("Open MPI: ", text.data()));
}

// MPI's types by DType.
const std::array kTypes = {MPI_FLOAT, MPI_DOUBLE, MPI_UINT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T};

template <ReduceOp op>
void Combine(void* in, void* in_out, int* numel, MPI_Datatype* type) {
  const auto dtype = static_cast<DType>(std::ranges::find(kTypes, *type) - kTypes.begin());
  auto* const result = static_cast<std::byte*>(in_out);
  const std::array<const std::byte*, 2> parts = {static_cast<const std::byte*>(in), result};
  Reduce(dtype, op, parts, {&result, 1}, *numel);
}

class Engine;

// One collective. The engine's mutex protects it until it is done.
struct Flight : Work::State {
  Flight(std::shared_ptr<Engine> e, Request r) : engine(std::move(e)), signature(r), request(std::move(r)) {}

  void Wait() override;
  Interval interval() override {
    Wait();
    return moved;
  }
  bool Done() override { return done; }

  void End(std::string cause) {
    error = std::move(cause);
    moved.end_ns = Now();
    done = true;
  }

  const std::shared_ptr<Engine> engine;  // handles may need the engine after the group is destroyed
  const Signature signature;
  const int64_t issue_ns = Now();
  Request request;     // kept until the collective has ended; forever if it was abandoned
  Tensor scattered{};  // data to copy to the output, if the output is inside the input
  Interval moved{};
  std::string error{};  // error; empty unless the collective failed
  // After it is true, nothing changes. It is read without the mutex, because engines may read each other's
  // flights.
  std::atomic<bool> done = false;
};
using FlightPtr = std::shared_ptr<Flight>;

// The state of MPI in this process. There is one object.
class MpiProcess {
 public:
  static MpiProcess& Get() {
    static MpiProcess process;
    return process;
  }

  MPI_Op op(ReduceOp op) const { return ops_[static_cast<size_t>(op)]; }

  // Keeps memory forever to which MPI may still write.
  static void Abandon(std::vector<FlightPtr> flights) {
    is_abandoned = true;
    new auto(std::move(flights));
  }
  // True if a request was started that never ends.
  static inline std::atomic<bool> is_abandoned = false;

 private:
  MpiProcess() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    Require(provided == MPI_THREAD_MULTIPLE, "backend mpi: this MPI does not have MPI_THREAD_MULTIPLE");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    // A mean starts as a sum.
    MPI_User_function* const combine[] = {&Combine<ReduceOp::kSum>, &Combine<ReduceOp::kSum>,
                                          &Combine<ReduceOp::kMax>, &Combine<ReduceOp::kMin>};
    for (size_t i = 0; i < ops_.size(); ++i) MPI_Op_create(combine[i], 1, &ops_[i]);
  }
  // Called at the end of the process.
  ~MpiProcess() {
    if (is_abandoned) return;
    alarm(kFinalizeWithin);
    MPI_Finalize();
    alarm(0);
  }

  std::array<MPI_Op, 4> ops_{};  // operations by ReduceOp
};

// Makes a communicator of the world's ranks, whose numbers are MPI's ranks. Only these ranks call this.
MPI_Comm MakeCommunicator(const World& world) {
  MpiProcess::Get();
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> members;
  for (int i = 0; i < world.size; ++i) members.push_back(world.NameOf(i));
  Require(rank == world.NameOf(world.rank) && members.back() < size, "backend mpi: to MPI this is rank ",
          rank, " of ", size, ", expected rank ", world.NameOf(world.rank), " of ", members.back() + 1,
          " or more: start the ranks with mpirun, or with an srun that speaks PMIx");
  MPI_Group all, group;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, world.size, members.data(), &group);
  MPI_Comm communicator = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, /*tag=*/0, &communicator);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  Check(code);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

// The state that the group and its handles share.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  Engine(const GroupOptions& options, std::shared_ptr<FirstCause> first_cause)
      : options_(options),
        is_part_(first_cause != nullptr),
        first_cause_(is_part_ ? std::move(first_cause) : std::make_shared<FirstCause>(options.world)) {
    const World& world = options.world;
    if (world.size > 1) Connect();
    thread_ = std::thread([this] { RunThread(); });
    const std::string name = Join("mpi_", world.NameOf(world.rank));
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }

  FlightPtr Issue(Request request) {
    const std::lock_guard lock(mutex_);
    request.sequence = next_sequence_++;
    auto flight = std::make_shared<Flight>(shared_from_this(), std::move(request));
    if (!failure_.empty()) {
      Reject(*flight, failure_);
      return flight;
    }
    waiting_.push_back(flight);
    changed_.notify_all();
    return flight;
  }

  void Wait(Flight& flight) {
    if (flight.done) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return flight.done.load(); });
  }

  // Fails all unfinished and later requests.
  void Abort(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) FailAll(cause, cause);
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      if (!(waiting_.empty() && active_.empty())) {
        const std::string cause = "the group was destroyed before it finished";
        if (failure_.empty()) FailAll(cause, cause);
      }
      is_closed_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (communicator_ != MPI_COMM_NULL && failure_.empty()) MPI_Comm_free(&communicator_);
  }

 private:
  // MPI waits for all ranks without a deadline. All ranks have arrived; if a rank leaves now, this thread is
  // abandoned.
  void Connect() {
    const World& world = options_.world;
    Rendezvous(world, options_.timeout).Exchange({""});
    std::promise<MPI_Comm> made;
    std::future<MPI_Comm> future = made.get_future();
    std::thread([world, promise = std::move(made)]() mutable {
      try {
        promise.set_value(MakeCommunicator(world));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }).detach();
    if (future.wait_for(options_.timeout) != std::future_status::ready) {
      MpiProcess::is_abandoned = true;
      throw CollectiveError(Join("rank ", world.NameOf(world.rank),
                                 ": MPI could not connect the ranks within ", Seconds(options_.timeout)));
    }
    communicator_ = future.get();
  }

  void RunThread() {
    int num_idle_looks = 0;
    std::unique_lock lock(mutex_);
    while (!is_closed_) {
      if (waiting_.empty() && active_.empty()) {
        changed_.wait(lock);
        num_idle_looks = 0;
        continue;
      }
      const int64_t begin_ns = Now();
      const bool is_idle = !Drive(lock) && Now() - begin_ns < kIdleLookNs;
      num_idle_looks = is_idle ? num_idle_looks + 1 : 0;
      lock.unlock();
      num_idle_looks < kLooksBeforeSleep ? std::this_thread::yield() : std::this_thread::sleep_for(kSleep);
      lock.lock();
    }
  }

  // Starts requests that can start and completes those that have ended. Returns whether anything has changed.
  bool Drive(std::unique_lock<std::mutex>& lock) {
    bool has_changed = StartWaiting(lock);
    if (active_.empty() || !failure_.empty()) return has_changed;
    int index = MPI_UNDEFINED;
    int has_ended = 0;
    FlightPtr culprit = active_.front();
    try {
      Check(MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &index, &has_ended,
                        MPI_STATUS_IGNORE));
      if (has_ended != 0 && index != MPI_UNDEFINED) {
        progress_ns_ = Now();
        culprit = active_[static_cast<size_t>(index)];
        Conclude(*culprit);
        requests_.erase(requests_.begin() + index);
        active_.erase(active_.begin() + index);
        changed_.notify_all();
        return true;
      }
      if (std::chrono::nanoseconds(Now() - progress_ns_) > options_.timeout)
        throw PeerError(kSomebody, Join(kAnotherRank, " made no progress for ", Seconds(options_.timeout)));
    } catch (const std::exception& error) {
      Fail(lock, *culprit, error);
      has_changed = true;
    }
    return has_changed;
  }

  // Starts requests in the order of issue, which is equal on all ranks. A barrier waits for all started
  // requests.
  bool StartWaiting(std::unique_lock<std::mutex>& lock) {
    bool has_started = false;
    while (!waiting_.empty() && std::ssize(active_) < options_.num_threads && failure_.empty()) {
      const FlightPtr flight = waiting_.front();
      Request& request = flight->request;
      if (request.collective == Collective::kBarrier && !active_.empty()) break;
      try {
        if (!request.after.Done()) {
          // Active requests need this thread.
          if (!active_.empty()) break;
          Work after = request.after;
          lock.unlock();
          after.Wait();
          lock.lock();
          continue;
        }
        request.after.Wait();
        if (request.prepare) request.prepare();
        flight->moved.start_ns = Now();
        if (active_.empty()) progress_ns_ = flight->moved.start_ns;
        const MPI_Request started = Start(*flight);
        if (started == MPI_REQUEST_NULL) {
          Conclude(*flight);
          changed_.notify_all();
        } else {
          active_.push_back(flight);
          requests_.push_back(started);
        }
        waiting_.pop_front();
        has_started = true;
      } catch (const std::exception& error) {
        if (!lock.owns_lock()) lock.lock();
        Fail(lock, *flight, error);
        break;
      }
    }
    return has_started;
  }

  // Starts a request. Returns MPI_REQUEST_NULL if there is nothing to wait for.
  MPI_Request Start(Flight& flight) const {
    const Request& request = flight.request;
    MPI_Request started = MPI_REQUEST_NULL;
    if (communicator_ == MPI_COMM_NULL) {
      RunAlone(request);
    } else if (request.collective == Collective::kBarrier) {
      Check(MPI_Ibarrier(communicator_, &started));
    } else if (request.bytes() > 0) {
      StartTransfer(request, flight, started);
    }
    return started;
  }

  void StartTransfer(const Request& request, Flight& flight, MPI_Request& started) const {
    constexpr int64_t kMaxNumel = std::numeric_limits<int>::max();
    if (std::max(request.input.numel(), request.output.numel()) > kMaxNumel)
      throw std::runtime_error(Join("Open MPI takes at most ", kMaxNumel, " elements"));
    const MPI_Datatype type = kTypes[static_cast<size_t>(request.dtype())];
    const MPI_Op op = MpiProcess::Get().op(request.op);
    const Tensor& to = request.output;
    const int input_numel = static_cast<int>(request.input.numel()),
              output_numel = static_cast<int>(to.numel());
    const std::byte* const input = Bytes(request.input);
    std::byte* const output = Bytes(to);
    if (request.collective == Collective::kAllReduce) {
      Check(MPI_Iallreduce(MPI_IN_PLACE, output, output_numel, type, op, communicator_, &started));
    } else if (request.collective == Collective::kBroadcast) {
      Check(MPI_Ibcast(output, output_numel, type, request.root, communicator_, &started));
    } else if (request.collective == Collective::kReduceScatter) {
      const bool overlaps = output >= input && output < input + request.input.nbytes();
      flight.scattered = overlaps ? Tensor::Empty(to.device(), to.shape(), to.dtype()) : to;
      Check(MPI_Ireduce_scatter_block(input, flight.scattered.raw_data(), output_numel, type, op,
                                      communicator_, &started));
    } else {
      const auto own_begin = static_cast<size_t>(options_.world.rank) * request.input.nbytes();
      Check(MPI_Iallgather(input == output + own_begin ? MPI_IN_PLACE : input, input_numel, type, output,
                           input_numel, type, communicator_, &started));
    }
  }

  // Does the rest of a request after MPI has done its part.
  void Conclude(Flight& flight) const {
    const Request& request = flight.request;
    const bool is_reduction =
        request.collective == Collective::kAllReduce || request.collective == Collective::kReduceScatter;
    const Tensor& sum = flight.scattered.defined() ? flight.scattered : request.output;
    if (is_reduction && request.op == ReduceOp::kMean && request.bytes() > 0) {
      std::byte* const bytes = Bytes(sum);
      const std::byte* const part = bytes;
      Reduce(request.dtype(), ReduceOp::kMean, {&part, 1}, {&bytes, 1}, sum.numel(), options_.world.size);
    }
    const Tensor& to = request.output;
    // Copies by the device: a collective does not count a write.
    if (sum.defined() && sum.raw_data() != to.raw_data())
      to.device()->Copy(to.raw_data(), sum.raw_data(), to.nbytes());
    if (request.conclude) request.conclude();
    flight.scattered = Tensor();
    flight.request = Request();
    flight.End("");
  }

  // Writes the failure for the other ranks, and finds the first cause.
  void Fail(std::unique_lock<std::mutex>& lock, const Flight& first, const std::exception& error) {
    if (!failure_.empty()) return;
    const Signature signature = first.signature;
    lock.unlock();
    first_cause_->Write(error);
    const std::string cause = is_part_ ? error.what() : first_cause_->Read();
    lock.lock();
    const std::string operation = Join(Name(signature.collective), " #", signature.sequence);
    FailAll(cause, Join(operation, " had failed: ", cause));
  }

  // The first unfinished request fails with the cause.
  void FailAll(const std::string& cause, const std::string& cause_of_others) {
    failure_ = cause_of_others;
    std::vector<FlightPtr> unfinished = active_;
    if (!active_.empty()) MpiProcess::Abandon(std::exchange(active_, {}));
    requests_.clear();
    for (const FlightPtr& flight : std::exchange(waiting_, {})) {
      flight->request = Request();
      unfinished.push_back(flight);
    }
    for (const FlightPtr& flight : unfinished) Reject(*flight, flight == unfinished[0] ? cause : failure_);
    changed_.notify_all();
  }

  void Reject(Flight& flight, const std::string& cause) const {
    const World& world = options_.world;
    flight.End(Failure(world.NameOf(world.rank), flight.signature, kBackend, Now() - flight.issue_ns, cause));
  }

  const GroupOptions options_;
  const bool is_part_;
  const std::shared_ptr<FirstCause> first_cause_;
  MPI_Comm communicator_ = MPI_COMM_NULL;  // MPI_COMM_NULL in a world of one
  std::mutex mutex_;                       // protects the following members
  std::condition_variable changed_;
  std::deque<FlightPtr> waiting_;  // requests that have not started, in the order of issue
  std::vector<FlightPtr> active_;
  std::vector<MPI_Request> requests_;  // the MPI requests of active_
  int64_t next_sequence_ = 0;
  int64_t progress_ns_ = 0;  // time when the last request ended, or when the first request was started
  bool is_closed_ = false;
  std::string failure_;  // cause of the first failure; empty if there is none
  std::thread thread_;
};

void Flight::Wait() {
  engine->Wait(*this);
  if (!error.empty()) throw CollectiveError(error);
}

class MpiProcessGroup : public ProcessGroup {
 public:
  MpiProcessGroup(const GroupOptions& options, std::shared_ptr<FirstCause> first_cause)
      : ProcessGroup(options.world.rank, options.world.size),
        num_in_flight_(options.num_threads),
        engine_(std::make_shared<Engine>(options, std::move(first_cause))) {}
  ~MpiProcessGroup() override { engine_->Close(); }

  std::string_view backend() const override { return kBackend; }
  GroupFacts facts() const override { return {.channels = num_in_flight_}; }
  void Abort() override { engine_->Abort("the group was given up"); }
  Work Issue(Request request) override { return Work(engine_->Issue(std::move(request))); }

 private:
  const int num_in_flight_;
  const std::shared_ptr<Engine> engine_;
};

}  // namespace

std::string MpiVersion() {
  return Join("Open MPI ", OMPI_MAJOR_VERSION, ".", OMPI_MINOR_VERSION, ".", OMPI_RELEASE_VERSION);
}

std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions& options, const model::DevicePtr& /*device*/,
                                           std::shared_ptr<FirstCause> first_cause) {
  CheckOptions(kBackend, options);
  return std::make_unique<MpiProcessGroup>(options, std::move(first_cause));
}

}  // namespace gradsync::comm
