#include "comm/nccl_communicator.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "comm/rendezvous.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using model::DType;

// Between two looks at a call that is not done.
constexpr std::chrono::microseconds kPollPeriod{20};

ncclDataType_t NcclType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
      return ncclUint8;
  }
  throw InvalidInput("unknown dtype");
}

ncclRedOp_t NcclOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMean:
      return ncclAvg;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  throw InvalidInput("unknown reduction");
}

// How NCCL begins the lines of this process in its log.
std::string LogPrefix() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return gradsync::Join("unknown:", getpid());
  const std::string name = host.data();
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
    case Collective::kBarrier:  // of the group's own tensor
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
    throw CollectiveError(gradsync::Join("rank ", world.rank, ": cannot connect ", world.size,
                                         " ranks (nccl): ", error.what()));
  } catch (...) {
    Abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr) return;
  try {
    Settle(lock, ncclCommFinalize(comm_));
    ncclCommDestroy(std::exchange(comm_, nullptr));
  } catch (const NcclError&) {
    // Nobody waits for results any more, so there is nobody to tell.
    lock.unlock();
    Abort();
  }
}

void NcclCommunicator::Join(const World& world) {
  constexpr char kKey[] = "nccl_unique_id";
  std::optional<Rendezvous> rendezvous;
  if (world.size > 1) rendezvous.emplace(world, timeout_);

  std::unique_lock lock(mutex_);
  ncclUniqueId id{};
  if (world.rank == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) Throw(result);
    if (rendezvous) rendezvous->Set(kKey, std::string_view(id.internal, sizeof(id.internal)));
  } else {
    const std::string received = rendezvous->Get(kKey);
    if (received.size() != sizeof(id.internal)) {
      throw NcclError(gradsync::Join("the unique id has ", received.size(), " bytes, expected ",
                                     sizeof(id.internal), ": another version of NCCL on rank 0"));
    }
    std::memcpy(id.internal, received.data(), received.size());
  }

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Settle(lock, ncclCommInitRankConfig(&comm_, world.size, id, world.rank, &config));
  if (rendezvous) rendezvous->Finish();
}

void NcclCommunicator::Launch(const Request& request, const model::CudaStream& stream) {
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr) throw NcclError("aborted");
  Settle(lock, Call(request, comm_, stream.get()));
}

void NcclCommunicator::CheckAsyncError() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t result = ncclCommGetAsyncError(comm_, &state); result != ncclSuccess) Throw(result);
  if (state != ncclSuccess && state != ncclInProgress) Throw(state);
}

void NcclCommunicator::Abort() noexcept {
  ncclComm_t comm = nullptr;
  {
    // All other calls are made under the lock, so none is under way when it is taken from them.
    const std::lock_guard lock(mutex_);
    std::swap(comm, comm_);
  }
  if (comm != nullptr) ncclCommAbort(comm);
}

void NcclCommunicator::Settle(std::unique_lock<std::mutex>& lock, ncclResult_t result) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (result == ncclInProgress) {
    lock.unlock();
    std::this_thread::sleep_for(kPollPeriod);
    lock.lock();
    if (comm_ == nullptr) throw NcclError("aborted");
    if (const ncclResult_t call = ncclCommGetAsyncError(comm_, &result); call != ncclSuccess) Throw(call);
    if (result == ncclInProgress && std::chrono::steady_clock::now() >= deadline) {
      throw NcclError(gradsync::Join("no answer from all ranks within ", Seconds(timeout_)));
    }
  }
  if (result != ncclSuccess) Throw(result);
}

void NcclCommunicator::Throw(ncclResult_t result) {
  const std::string_view detail = ncclGetLastError(comm_);
  throw NcclError(gradsync::Join(ncclGetErrorString(result), detail.empty() ? "" : ": ", detail));
}

}  // namespace gradsync::comm
