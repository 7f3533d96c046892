#include "comm/mpi/mpi_process_group.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
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
#include "comm/queue/request_queue.h"
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

void CheckCode(int code) {
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

// The state of MPI in this process. There is one object.
class MpiProcess {
 public:
  static MpiProcess& Get() {
    static MpiProcess process;
    return process;
  }

  MPI_Op op(ReduceOp op) const { return ops_[static_cast<size_t>(op)]; }

  // Keeps memory forever to which MPI may still write.
  static void Abandon(const Request& request, const Tensor& scattered) {
    is_abandoned = true;
    new std::pair(request, scattered);
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
  CheckCode(code);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

class MpiProcessGroup : public QueueGroup {
 public:
  MpiProcessGroup(const GroupOptions& options, std::shared_ptr<FirstCause> first_cause)
      : QueueGroup(options.world.rank, options.world.size), options_(options) {
    RequestQueueOptions queue = MakeQueueOptions(kBackend, options, std::move(first_cause));
    queue.run = [this](const Request& request, int) { Run(request); };
    queue.abort = [this] { GiveUp(); };
    if (size() > 1) Connect();
    queue_.emplace(std::move(queue));
  }
  ~MpiProcessGroup() override {
    queue_.reset();
    if (communicator_ != MPI_COMM_NULL && !is_given_up_) MPI_Comm_free(&communicator_);
  }

  std::string_view backend() const override { return kBackend; }
  GroupFacts facts() const override { return {.channels = options_.num_threads}; }

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

  void GiveUp() {
    {
      const std::lock_guard lock(mutex_);
      is_given_up_ = true;
    }
    started_.notify_all();
  }

  void ThrowIfGivenUp() const {
    if (is_given_up_) throw PeerError(kNobody, "the group was given up");
  }

  void Run(const Request& request) {
    if (communicator_ == MPI_COMM_NULL) return RunAlone(request);
    Tensor scattered;  // data to copy to the output, if the output is inside the input
    MPI_Request transfer = StartInOrder(request, scattered);
    try {
      WaitFor(transfer);
    } catch (...) {
      MpiProcess::Abandon(request, scattered);
      throw;
    }
    if (request.bytes() == 0) return;
    const Tensor& to = request.output;
    const Tensor& result = scattered.defined() ? scattered : to;
    const bool is_reduction =
        request.collective == Collective::kAllReduce || request.collective == Collective::kReduceScatter;
    if (is_reduction && request.op == ReduceOp::kMean) {
      std::byte* const bytes = Bytes(result);
      const std::byte* const part = bytes;
      Reduce(request.dtype(), ReduceOp::kMean, {&part, 1}, {&bytes, 1}, result.numel(), size());
    }
    // Copies by the device: a collective does not count a write.
    if (result.raw_data() != to.raw_data()) to.device()->Copy(to.raw_data(), result.raw_data(), to.nbytes());
  }

  // Starts the requests in the order of issue, which is equal on all ranks.
  MPI_Request StartInOrder(const Request& request, Tensor& scattered) {
    std::unique_lock lock(mutex_);
    started_.wait(lock, [&] { return is_given_up_ || num_started_ == request.sequence; });
    ThrowIfGivenUp();
    const MPI_Request transfer = Start(request, scattered);
    ++num_started_;
    if (num_active_++ == 0) progress_ns_ = Now();
    started_.notify_all();
    return transfer;
  }

  // Returns MPI_REQUEST_NULL if there is nothing to wait for.
  MPI_Request Start(const Request& request, Tensor& scattered) const {
    MPI_Request transfer = MPI_REQUEST_NULL;
    if (request.collective == Collective::kBarrier) CheckCode(MPI_Ibarrier(communicator_, &transfer));
    if (request.bytes() == 0) return transfer;
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
      CheckCode(MPI_Iallreduce(MPI_IN_PLACE, output, output_numel, type, op, communicator_, &transfer));
    } else if (request.collective == Collective::kBroadcast) {
      CheckCode(MPI_Ibcast(output, output_numel, type, request.root, communicator_, &transfer));
    } else if (request.collective == Collective::kReduceScatter) {
      const bool overlaps = output >= input && output < input + request.input.nbytes();
      scattered = overlaps ? Tensor::Empty(to.device(), to.shape(), to.dtype()) : to;
      CheckCode(MPI_Ireduce_scatter_block(input, scattered.raw_data(), output_numel, type, op, communicator_,
                                          &transfer));
    } else {
      const auto own_begin = static_cast<size_t>(rank()) * request.input.nbytes();
      CheckCode(MPI_Iallgather(input == output + own_begin ? MPI_IN_PLACE : input, input_numel, type, output,
                               input_numel, type, communicator_, &transfer));
    }
    return transfer;
  }

  // Moves data until the transfer has ended.
  void WaitFor(MPI_Request transfer) {
    int num_idle_looks = 0;
    for (;;) {
      const int64_t begin_ns = Now();
      int has_ended = 0;
      CheckCode(MPI_Test(&transfer, &has_ended, MPI_STATUS_IGNORE));
      const int64_t end_ns = Now();
      if (has_ended != 0) {
        progress_ns_ = end_ns;
        --num_active_;
        return;
      }
      ThrowIfGivenUp();
      if (std::chrono::nanoseconds(end_ns - progress_ns_) > options_.timeout)
        throw PeerError(kSomebody, Join(kAnotherRank, " made no progress for ", Seconds(options_.timeout)));
      num_idle_looks = end_ns - begin_ns < kIdleLookNs ? num_idle_looks + 1 : 0;
      if (num_idle_looks < kLooksBeforeSleep) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
    }
  }

  const GroupOptions options_;
  MPI_Comm communicator_ = MPI_COMM_NULL;  // MPI_COMM_NULL in a world of one
  std::mutex mutex_;
  std::condition_variable started_;  // notified when a request was started, and when the group is given up
  int64_t num_started_ = 0;
  std::atomic<int> num_active_ = 0;  // number of requests that have started and not ended
  // Time when the last request ended, or when the first request was started.
  std::atomic<int64_t> progress_ns_ = 0;
  std::atomic<bool> is_given_up_ = false;
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
