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

// Returns the names that MakeProcessGroup takes.
std::vector<std::string> BackendNames();

// Throws InvalidInput for an unknown backend or option, and for a backend that does not support this type of
// device or this world, as far as this is known without making a device. MakeProcessGroup also makes these
// checks.
void CheckBackend(const std::string& backend, const BackendOptions& options, model::Device::Type device,
                  const World& world);
// Checks only the options of a backend. Throws InvalidInput: "backend gloo has no option 'x'", "backend
// hierarchical: inner is 'x', expected one of: shm, gloo, mpi".
void CheckBackendOptions(const std::string& backend, const BackendOptions& options);
// Checks only the GPUs of a host. Throws InvalidInput, with both numbers, if nccl would have more ranks on a
// host than the host has GPUs. If a launcher makes one GPU visible to each rank, the GPUs of ranks may
// differ, and NCCL checks them.
void CheckRanksPerGpu(const World& world, int num_gpus, bool share_gpu);

// Properties of a backend that are known without a group. A backend that combines other backends has the
// common properties of these backends.
struct BackendTraits {
  // If true, a sum adds the ranks' elements in rank order and rounds once. (hierarchical adds the ranks of a
  // host, then the hosts.) A mean is this sum divided by the number of ranks, and means of f32 are computed
  // in f64. If false, the library chooses the order of additions, and rounds after each addition, also in
  // bf16. A mean is then this sum divided by the number of ranks; NCCL instead multiplies each addend by the
  // rounded reciprocal of this number.
  bool reduces_in_rank_order = true;
  bool needs_mpirun = false;     // mpirun or srun must start the ranks
  bool shares_memory = false;    // the ranks of a host can share tensors (AllocateShared)
  bool is_within_host = false;   // all ranks must be on one host
  bool has_host_groups = false;  // with several hosts there is a ProcessGroup::host_group
  bool has_threads = true;       // GroupOptions::num_threads has an effect
  // The backend of torch.distributed with which this backend is compared.
  std::string_view pytorch_backend = "gloo";
};
// Throws InvalidInput for an unknown backend.
BackendTraits TraitsOf(const std::string& backend, const BackendOptions& options = {});

// Returns the versions of the backends' libraries, by name. Omits libraries that do not report a version at
// run time.
std::vector<std::pair<std::string, std::string>> BackendLibraries();

// Joins the world and makes the group. Returns when all ranks have joined. With GRADSYNC_NCCL_SHARE_GPU=1 in
// the environment, nccl accepts more ranks (processes) than GPUs. These ranks exchange data over sockets,
// which tests function and not speed. Throws InvalidInput for an unknown backend, or one that does not
// support the device. Throws CollectiveError, which names the missing ranks, if ranks did not arrive within
// the timeout or disagree on the size of the world.
std::unique_ptr<ProcessGroup> MakeProcessGroup(const GroupOptions& options, const model::DevicePtr& device);

}  // namespace gradsync::comm
