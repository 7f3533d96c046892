#ifndef GRADSYNC_COMM_GLOO_CUDA_STAGING_H_
#define GRADSYNC_COMM_GLOO_CUDA_STAGING_H_

#include <chrono>
#include <functional>
#include <memory>

#include "comm/queue/request.h"
#include "model/cuda_device.h"

namespace gradsync::comm {

// Returns when the event is done. Sleeps meanwhile, so that the core is free for others. Throws
// std::runtime_error if it is not done within the timeout.
void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout);

// Lets a backend that knows only host memory serve tensors of a GPU: they travel whole through pinned host
// memory, as in PyTorch's gloo. Each communication thread has one.
class CudaStaging {
 public:
  // Takes as much pinned memory as the largest request needs. `timeout`: for each copy. Throws CudaError.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Calls `collective` with the request in host memory, and returns when the result is in the GPU's memory.
  // The compute stream has passed what the tensors are made of. What `collective` throws comes out when
  // nothing uses the tensors any more. Throws CudaError, CudaOutOfMemory, and std::runtime_error if a copy
  // takes longer than the timeout; what it may still use is never let go.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  using Buffer = std::shared_ptr<model::PinnedBuffer>;

  // A tensor of that shape in the buffer, which grows if it has to.
  model::Tensor OnHost(const model::Tensor& tensor, Buffer& buffer) const;
  // Returns when the copies are done. Throws CudaError, std::runtime_error.
  void WaitForCopies() const;
  // Whether nothing is copied any more.
  bool IsIdle() const;

  const std::shared_ptr<model::CudaDevice> device_;
  const std::chrono::milliseconds timeout_;
  const model::DevicePtr host_ = model::CpuDevice();
  const model::CudaStream stream_;
  const model::CudaEvent copied_;
  Buffer input_;
  Buffer output_;  // unless the request is in place
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_CUDA_STAGING_H_
