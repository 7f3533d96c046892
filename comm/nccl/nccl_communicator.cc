#include "comm/nccl/nccl_communicator.h"

#include <unistd.h>

#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "comm/processes/host.h"
#include "comm/rendezvous/rendezvous.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

// Time between two polls of a call that is not done.
constexpr std::chrono::microseconds kPollPeriod{20};
// How long an abort waits for other threads to return from their calls, which usually happens at once.
constexpr std::chrono::milliseconds kLeaveWithin{100};

ncclDataType_t NcclType(model::DType dtype) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat64, ncclBfloat16,
                                       ncclInt32,   ncclInt64,   ncclUint8};
  return kTypes[static_cast<size_t>(dtype)];
}

ncclRedOp_t NcclOp(ReduceOp op) {
  constexpr ncclRedOp_t kOps[] = {ncclSum, ncclAvg, ncclMax, ncclMin};
  return kOps[static_cast<size_t>(op)];
}

// The start of this process's lines in NCCL's log.
std::string LogPrefix() {
  const std::string name = HostName();
  return gradsync::Join(name.substr(0, name.find('.')), ":", getpid());
}

ncclResult_t Call(const Request& request, ncclComm_t comm, cudaStream_t stream) {
  const void* const input = request.input.raw_data();
  void* const output = request.output.raw_data();
  const auto input_numel = static_cast<size_t>(request.input.numel());
  const auto output_numel = static_cast<size_t>(request.output.numel());
  const ncclDataType_t type = NcclType(request.dtype());
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kBarrier:  // a barrier uses the group's own tensor
      return ncclAllReduce(input, output, input_numel, type, NcclOp(request.op), comm, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(input, output, input_numel, type, request.root, comm, stream);
    case Collective::kReduceScatter:
      return ncclReduceScatter(input, output, output_numel, type, NcclOp(request.op), comm, stream);
    case Collective::kAllGather:
      return ncclAllGather(input, output, input_numel, type, comm, stream);
  }
  throw InvalidInput("unknown collective");
}

}  // namespace

NcclCommunicator::NcclCommunicator(const World& world, const model::CudaDevice& device,
                                   std::chrono::milliseconds timeout)
    : timeout_(timeout), log_prefix_(LogPrefix()) {
  device.MakeCurrent();
  try {
    Join(world);
  } catch (const NcclError& error) {
    Abort();
    throw CollectiveError(gradsync::Join("rank ", world.NameOf(world.rank), ": cannot connect ", world.size,
                                         " ranks (nccl): ", error.what()));
  } catch (...) {
    Abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  try {
    Run([](ncclComm_t comm) { return ncclCommFinalize(comm); });
    ncclCommDestroy(std::exchange(comm_, nullptr));
  } catch (const NcclError&) {
    // No caller waits for results, so the error is not needed.
    Abort();
  }
}

void NcclCommunicator::Join(const World& world) {
  ncclUniqueId id{};
  if (world.rank == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) Throw(result);
  }
  if (world.size > 1) {
    // Only the id of rank 0 is used.
    const std::string own(id.internal, world.rank == 0 ? sizeof(id.internal) : 0);
    const std::string received = Rendezvous(world, timeout_).Exchange({own}).front();
    if (received.size() != sizeof(id.internal)) {
      throw NcclError(gradsync::Join("the unique id has ", received.size(), " bytes, expected ",
                                     sizeof(id.internal), ": another version of NCCL on rank 0"));
    }
    std::memcpy(id.internal, received.data(), received.size());
  }

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (const auto result = ncclCommInitRankConfig(&comm_, world.size, id, world.rank, &config);
      result != ncclSuccess && result != ncclInProgress) {
    Throw(result);
  }
  Run([](ncclComm_t) { return ncclInProgress; });
}

void NcclCommunicator::Launch(const Request& request, const model::CudaStream& stream) {
  Run([&](ncclComm_t comm) { return Call(request, comm, stream.get()); });
}

ncclResult_t NcclCommunicator::CallOnce(std::unique_lock<std::mutex>& lock,
                                        const std::function<ncclResult_t(ncclComm_t)>& call) {
  const ncclComm_t comm = comm_;
  if (comm == nullptr) throw NcclError("aborted");
  is_in_call_ = true;
  lock.unlock();
  const ncclResult_t result = call(comm);
  lock.lock();
  is_in_call_ = false;
  call_ended_.notify_all();
  // The communicator cannot be asked for the error after an abort.
  if (comm_ == nullptr) throw NcclError("aborted");
  return result;
}

void NcclCommunicator::Run(const std::function<ncclResult_t(ncclComm_t)>& call) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  // Waits for the call of the other thread, which only queries the error.
  call_ended_.wait(lock, [this] { return !is_in_call_; });
  ncclResult_t result = CallOnce(lock, call);
  while (result == ncclInProgress) {
    lock.unlock();
    std::this_thread::sleep_for(kPollPeriod);
    lock.lock();
    call_ended_.wait(lock, [this] { return !is_in_call_; });
    const ncclResult_t asked =
        CallOnce(lock, [&](ncclComm_t comm) { return ncclCommGetAsyncError(comm, &result); });
    if (asked != ncclSuccess) Throw(asked);
    if (result == ncclInProgress && std::chrono::steady_clock::now() >= deadline)
      throw NcclError(gradsync::Join("no answer from all ranks within ", Seconds(timeout_)));
  }
  if (result != ncclSuccess) Throw(result);
}

void NcclCommunicator::CheckAsyncError() {
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr || is_in_call_) return;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked =
      CallOnce(lock, [&](ncclComm_t comm) { return ncclCommGetAsyncError(comm, &state); });
  if (asked != ncclSuccess) Throw(asked);
  if (state != ncclSuccess && state != ncclInProgress) Throw(state);
}

void NcclCommunicator::Abort() noexcept {
  ncclComm_t comm = nullptr;
  {
    std::unique_lock lock(mutex_);
    std::swap(comm, comm_);
    // A thread that has not returned is stuck, and only the abort itself can release it.
    call_ended_.wait_for(lock, kLeaveWithin, [this] { return !is_in_call_; });
  }
  if (comm != nullptr) ncclCommAbort(comm);
}

void NcclCommunicator::Throw(ncclResult_t result) {
  const std::string_view detail = ncclGetLastError(comm_);
  throw NcclError(gradsync::Join(ncclGetErrorString(result), detail.empty() ? "" : ": ", detail));
}

}  // namespace gradsync::comm
