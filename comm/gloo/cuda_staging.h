#ifndef GRADSYNC_COMM_GLOO_CUDA_STAGING_H_
#define GRADSYNC_COMM_GLOO_CUDA_STAGING_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "comm/queue/request.h"
#include "model/cuda_device.h"

namespace gradsync::comm {

// Returns when the event is done. Sleeps meanwhile, so that the core is free for others. Throws
// std::runtime_error if it is not done within the timeout.
void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout);

// Lets a backend that knows host memory alone serve tensors of a GPU: they travel through pinned host memory.
// Of one communication thread.
//
// All-reduces and broadcasts go in chunks: while one is reduced, the next ones come down and the last one
// goes up, each direction on a stream of its own. A sum is the same whatever the chunks, because every
// element is summed by itself. Reduce-scatters and all-gathers, whose parts lie elsewhere in the result, go
// whole.
class CudaStaging {
 public:
  static constexpr size_t kChunkBytes = size_t{8} << 20;

  // Pinned memory is taken when it is first needed. `timeout`: for each copy. Throws CudaError.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Calls `collective` with requests of host memory that together are `request`, and returns when the results
  // are in the GPU's memory. The compute stream has passed what the tensors are made of. What `collective`
  // throws comes out when nothing uses the tensors any more. Throws CudaError, CudaOutOfMemory, and
  // std::runtime_error if a copy takes longer than the timeout; what it may still use is never let go.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  // How many chunks are on their way at the same time.
  static constexpr size_t kSlots = 3;
  struct Slot {
    model::CudaEvent downloaded;
    model::CudaEvent uploaded;
  };

  void RunInChunks(const Request& request, const std::function<void(const Request&)>& collective);
  void RunWhole(const Request& request, const std::function<void(const Request&)>& collective);

  // Whether both streams became empty within the timeout.
  bool Drain();

  const std::shared_ptr<model::CudaDevice> device_;
  const std::chrono::milliseconds timeout_;
  const model::DevicePtr pinned_host_;
  const model::CudaStream down_;
  const model::CudaStream up_;
  std::vector<Slot> slots_;
  model::Tensor buffer_;  // kSlots chunks, on the host
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_CUDA_STAGING_H_
