#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/group_options.h"
#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/tensor/device.h"

namespace gradsync::comm {

std::vector<std::string> BackendNames();

// Throws InvalidInput for an unknown backend, option or value of an option, and for a backend that is not in
// this build. Also throws InvalidInput if the backend does not support devices of type `device`, or the
// launcher (such as torchrun) in `world`. If world.job is not null, throws InvalidInput if the backend does
// not support the distribution of the ranks over hosts. For backend nccl, also throws InvalidInput if
// CheckRanksPerGpu does, or if the value of GRADSYNC_NCCL_SHARE_GPU is neither empty nor 0 nor 1.
// MakeProcessGroup makes the checks of CheckBackend too.
void CheckBackend(const std::string& backend, const BackendOptions& options, model::Device::Type device,
                  const World& world);
// Checks only that the backend with the name `backend` exists, and that it accepts `options`. Unlike
// CheckBackend, does not check whether this build has the backend. Also does not check whether the backend
// supports a type of device, a launcher or several hosts. Throws InvalidInput with a text such as "backend
// gloo has no option 'x'" or "backend hierarchical: inner is 'x', expected one of: shm, gloo, mpi".
void CheckBackendOptions(const std::string& backend, const BackendOptions& options);
// Checks that this host has at least as many GPUs as ranks that run on it, as backend nccl needs. Throws
// InvalidInput if the host has fewer GPUs (`num_gpus`) than ranks (world.local_size). The text of the
// exception has both numbers. Checks nothing if `share_gpu` is true, or if a launcher such as torchrun
// started the ranks and this process sees only one GPU: the launcher may show a different GPU to each rank.
void CheckRanksPerGpu(const World& world, int num_gpus, bool share_gpu);

// Properties of a backend of collectives, such as "gloo", that are known before it makes a process group.
struct BackendTraits {
  // If the member reduces_in_rank_order is true, the backend's collectives add the ranks' values of an
  // element in the order of the ranks. If it is true, they also compute sums of bf16 elements in f32, and
  // round the sums to bf16. If reduces_in_rank_order is true, a mean of f32 or bf16 elements is rounded to
  // this type only after the division. If reduces_in_rank_order is true, means of f32 elements are computed
  // in f64. For a sum, backend hierarchical first adds the elements of each host's ranks, and then adds the
  // hosts' sums. For a mean, it first computes the mean over each host's ranks, and then the mean of these
  // means.
  //
  // reduces_in_rank_order is false for backends gloo_own, mpi and nccl, and for backend hierarchical if it
  // uses one of them. In all-reduces of gloo_own, mpi and nccl, a library (gloo, Open MPI or NCCL) chooses
  // the order of the additions, and may round after each addition. In an all-reduce of gloo_own or mpi, a
  // mean is the rounded sum divided by the number of ranks. NCCL instead multiplies each element by the
  // rounded reciprocal of the number of ranks before it adds.
  bool reduces_in_rank_order = true;
  bool needs_mpirun = false;     // mpirun or srun must start the ranks
  bool shares_memory = false;    // the ranks of a host can share tensors (AllocateShared)
  bool is_within_host = false;   // all ranks must be on one host
  bool has_host_groups = false;  // with several hosts there is a ProcessGroup::host_group
  bool has_threads = true;       // GroupOptions::num_threads has an effect
  // The torch.distributed backend for PyTorch's strategies in benchmarks that compare them with gradsync's.
  // It is "nccl" for gradsync's backend nccl, and "gloo" for all other backends of gradsync.
  std::string_view pytorch_backend = "gloo";
};
// Throws InvalidInput if `backend`, or the backend that an option such as "inner" names, is unknown.
BackendTraits TraitsOf(const std::string& backend, const BackendOptions& options = {});

// Returns pairs of name and version of the communication libraries (NCCL, Open MPI) in this build.
std::vector<std::pair<std::string, std::string>> BackendLibraries();

// Connects the ranks of options.world, and makes their process group. All these ranks must call
// MakeProcessGroup, which returns when they are connected. If the environment variable
// GRADSYNC_NCCL_SHARE_GPU is 1, backend nccl accepts more ranks than GPUs. With this setting NCCL sends over
// the network even within a host, so use the setting only for tests, not to measure speed. Throws
// InvalidInput if `device` is null, if CheckBackend would throw InvalidInput, and for other wrong values in
// `options`. Throws CollectiveError, which names the missing ranks, if ranks do not arrive at the rendezvous
// within the timeout. Also throws CollectiveError if World::size is not equal on all ranks.
std::unique_ptr<ProcessGroup> MakeProcessGroup(const GroupOptions& options, const model::DevicePtr& device);

}  // namespace gradsync::comm
