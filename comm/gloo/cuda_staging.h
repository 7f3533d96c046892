#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "comm/queue/request.h"
#include "model/cuda_device.h"

namespace gradsync::comm {

// Returns when the event is done. Sleeps meanwhile, so that other threads can use the core. Throws
// std::runtime_error if the event is not done within the timeout.
void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout);

// Serves tensors of a GPU for a backend that knows only host memory: copies them through pinned host memory,
// like PyTorch's gloo. Each communication thread has one object.
class CudaStaging {
 public:
  // Allocates pinned memory for the largest request so far. `timeout`: for each copy. Throws CudaError.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Calls `collective` with the request in host memory, and returns when the result is in the GPU's memory.
  // The compute stream must have computed the tensors. Rethrows an exception of `collective` when nothing
  // uses the tensors any more. Throws CudaError, CudaOutOfMemory, and std::runtime_error if a copy takes
  // longer than the timeout; memory that this copy may still use is never freed.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  using Buffer = std::shared_ptr<model::PinnedBuffer>;

  // A tensor of the given shape in the buffer, which grows if necessary.
  model::Tensor OnHost(const model::Tensor& tensor, Buffer& buffer) const;
  // Returns when the copies are done. Throws CudaError, std::runtime_error.
  void WaitForCopies() const;
  // Whether no copy is in progress.
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
