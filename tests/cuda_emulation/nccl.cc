#include <cuda_bf16.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

constexpr int kVersion = 22809;
constexpr int kPollsInProgress = 2;  // number of queries that still return "in progress" after a call is done

enum class Kind { kAllReduce, kBroadcast, kReduceScatter, kAllGather };

// The properties on which ranks must agree.
struct Signature {
  Kind kind;
  size_t count;
  ncclDataType_t type;
  int op_or_root;

  bool operator==(const Signature&) const = default;
};

// A rank's part of a collective.
struct Part {
  Signature signature;
  const void* input;
  void* output;
  // A mark after the earlier work of the rank's stream; null if the rank has not issued the collective.
  std::shared_ptr<Mark> before;
};

struct Collective {
  explicit Collective(int num_ranks) : parts(static_cast<size_t>(num_ranks)) {}

  std::vector<Part> parts;
  bool is_done = false;
};

// The state that the ranks of a communicator share.
struct World {
  explicit World(int num_ranks)
      : devices(static_cast<size_t>(num_ranks), -1), has_aborted(static_cast<size_t>(num_ranks)) {}

  // Device of each rank; -1 if the rank has not joined.
  std::vector<int> devices;
  std::vector<bool> has_aborted;                               // whether each rank has aborted
  std::map<int64_t, std::shared_ptr<Collective>> collectives;  // collectives by sequence number
};

size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
T Widen(T x) {
  return x;
}

template <class W>
W Reduce(ncclRedOp_t op, W a, W b) {
  return op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : static_cast<W>(a + b);
}

// Computes results[i], the reduction of all ranks' inputs[i].
template <class T>
std::vector<T> ReduceAll(const std::vector<Part>& parts, size_t numel, ncclRedOp_t op) {
  std::vector<T> results(numel);
  for (size_t i = 0; i < numel; ++i) {
    auto value = Widen(static_cast<const T*>(parts[0].input)[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      value = Reduce(op, value, Widen(static_cast<const T*>(parts[rank].input)[i]));
    }
    if (op == ncclAvg) value /= static_cast<decltype(value)>(parts.size());
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      results[i] = __float2bfloat16_rn(value);
    } else {
      results[i] = value;
    }
  }
  return results;
}

// Runs an all-reduce, or a reduce-scatter in which each rank receives `share` elements of the result.
template <class T>
void RunReduction(const std::vector<Part>& parts, size_t numel, size_t share, ncclRedOp_t op) {
  const std::vector<T> results = ReduceAll<T>(parts, numel, op);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const size_t first = share == numel ? 0 : rank * share;
    std::memcpy(parts[rank].output, results.data() + first, share * sizeof(T));
  }
}

void Run(const std::vector<Part>& parts) {
  const auto& [kind, count, type, op_or_root] = parts[0].signature;
  const size_t bytes = count * BytesOf(type);
  if (kind == Kind::kBroadcast) {
    const void* const from = parts[static_cast<size_t>(op_or_root)].input;
    for (const Part& part : parts) std::memmove(part.output, from, bytes);
    return;
  }
  if (kind == Kind::kAllGather) {
    std::vector<char> all;
    for (const Part& part : parts) {
      const auto* const input = static_cast<const char*>(part.input);
      all.insert(all.end(), input, input + bytes);
    }
    for (const Part& part : parts) std::memcpy(part.output, all.data(), all.size());
    return;
  }
  const size_t numel = kind == Kind::kAllReduce ? count : count * parts.size();
  const auto op = static_cast<ncclRedOp_t>(op_or_root);
  switch (type) {
    case ncclUint8:
      return RunReduction<uint8_t>(parts, numel, count, op);
    case ncclInt32:
      return RunReduction<int32_t>(parts, numel, count, op);
    case ncclInt64:
      return RunReduction<int64_t>(parts, numel, count, op);
    case ncclFloat32:
      return RunReduction<float>(parts, numel, count, op);
    case ncclFloat64:
      return RunReduction<double>(parts, numel, count, op);
    case ncclBfloat16:
      return RunReduction<__nv_bfloat16>(parts, numel, count, op);
  }
}

size_t OutputBytes(const Part& part, size_t num_ranks) {
  const size_t bytes = part.signature.count * BytesOf(part.signature.type);
  return part.signature.kind == Kind::kAllGather ? bytes * num_ranks : bytes;
}

size_t InputBytes(const Part& part, size_t num_ranks) {
  const size_t bytes = part.signature.count * BytesOf(part.signature.type);
  return part.signature.kind == Kind::kReduceScatter ? bytes * num_ranks : bytes;
}

// Returns whether all ranks have issued this collective with equal signatures, and their streams have reached
// it.
bool AllAreThere(const World& world, const Collective& collective) {
  if (std::count(world.has_aborted.begin(), world.has_aborted.end(), true) > 0) return false;
  const Signature& first = collective.parts[0].signature;
  for (const Part& part : collective.parts) {
    if (part.before == nullptr || part.signature != first || !Reach(*part.before)) return false;
  }
  return true;
}

std::map<std::string, std::weak_ptr<World>>& Worlds() {
  static auto* const worlds = new std::map<std::string, std::weak_ptr<World>>;
  return *worlds;
}

}  // namespace
}  // namespace cuda_emulation

struct ncclComm {
  std::shared_ptr<cuda_emulation::World> world;
  size_t rank = 0;
  int device = 0;
  int64_t next_sequence = 0;
  int polls_in_progress = cuda_emulation::kPollsInProgress;
  bool is_refused = false;  // ncclCommInitRankConfig has rejected the communicator

  bool IsInProgress() {
    const auto has_joined = [](int of_rank) { return of_rank >= 0; };
    if (!std::all_of(world->devices.begin(), world->devices.end(), has_joined)) return true;
    if (next_sequence == 1) {
      for (const auto& part : world->collectives.at(0)->parts) {
        if (part.before == nullptr) return true;
      }
    }
    if (polls_in_progress == 0) return false;
    --polls_in_progress;
    return true;
  }
};

namespace {

using cuda_emulation::Collective;
using cuda_emulation::Kind;
using cuda_emulation::Mutex;
using cuda_emulation::Part;
using cuda_emulation::World;

ncclResult_t Issue(ncclComm_t comm, cudaStream_t stream, Part part) {
  std::unique_lock lock(Mutex());
  const size_t num_ranks = comm->world->devices.size();
  if (comm->polls_in_progress > 0) return ncclInvalidUsage;  // the caller has not queried whether it is done
  if (stream->device != comm->device || part.signature.count == 0 ||
      !cuda_emulation::IsDeviceMemory(part.input, InputBytes(part, num_ranks)) ||
      !cuda_emulation::IsDeviceMemory(part.output, OutputBytes(part, num_ranks))) {
    return ncclInvalidArgument;
  }
  // Another thread may abort and delete the communicator during this call.
  const std::shared_ptr<World> world = comm->world;
  const size_t own_rank = comm->rank;
  cuda_emulation::WaitForRoom(lock, stream);
  if (world->has_aborted[own_rank]) return ncclInternalError;
  std::shared_ptr<Collective>& collective = comm->world->collectives[comm->next_sequence++];
  if (collective == nullptr) collective = std::make_shared<Collective>(static_cast<int>(num_ranks));
  part.before = cuda_emulation::PutMark(stream);
  collective->parts[comm->rank] = part;
  const auto prepare = [world = comm->world, collective, rank = comm->rank] {
    return world->has_aborted[rank] || collective->is_done || AllAreThere(*world, *collective);
  };
  const auto run = [world = comm->world, collective, part, num_ranks, rank = comm->rank] {
    if (world->has_aborted[rank] && !collective->is_done) {
      std::memset(part.output, 0xff, OutputBytes(part, num_ranks));
    } else if (!std::exchange(collective->is_done, true)) {
      Run(collective->parts);
    }
  };
  cuda_emulation::Put(stream, {.prepare = prepare, .run = run});
  comm->polls_in_progress = cuda_emulation::kPollsInProgress;
  return ncclInProgress;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kNames[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "NCCL operation in progress"};
  return kNames[result];
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  *version = cuda_emulation::kVersion;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count = 0;
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "%d", ++count);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) cuda_emulation::Fail("NCCL: a communicator that blocks is not emulated");
  const std::lock_guard lock(Mutex());
  std::weak_ptr<World>& known = cuda_emulation::Worlds()[id.internal];
  std::shared_ptr<World> world = known.lock();
  if (world == nullptr) known = world = std::make_shared<World>(num_ranks);
  const int device = cuda_emulation::CurrentDevice();
  const bool is_refused = std::count(world->devices.begin(), world->devices.end(), device) > 0;
  world->devices[static_cast<size_t>(rank)] = device;
  *comm = new ncclComm{world, static_cast<size_t>(rank), device};
  (*comm)->is_refused = is_refused;  // two ranks on one GPU are rejected
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(Mutex());
  *error = comm->is_refused ? ncclInvalidUsage : comm->IsInProgress() ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(Mutex());
  if (comm->polls_in_progress > 0) return ncclInvalidUsage;
  comm->polls_in_progress = cuda_emulation::kPollsInProgress;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(Mutex());
  if (comm->polls_in_progress > 0) return ncclInvalidUsage;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(Mutex());
  comm->world->has_aborted[comm->rank] = true;
  cuda_emulation::Notify();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Issue(comm, stream, {{Kind::kAllReduce, count, type, op}, input, output, nullptr});
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Issue(comm, stream, {{Kind::kBroadcast, count, type, root}, input, output, nullptr});
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t output_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Issue(comm, stream, {{Kind::kReduceScatter, output_count, type, op}, input, output, nullptr});
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t input_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Issue(comm, stream, {{Kind::kAllGather, input_count, type, 0}, input, output, nullptr});
}
