#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "comm/queue/request.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::comm {

// Waits until the event is done. Sleeps while it waits, so that other threads can use the core. Throws
// std::runtime_error if the event is not done within the timeout.
void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout);

// Runs collectives on tensors of a GPU with a backend that uses only host memory, by copying the tensors
// through pinned host memory, like PyTorch's gloo. Each communication thread has one CudaStaging object.
class CudaStaging {
 public:
  // Allocates pinned memory for the largest request so far. `timeout` limits the time of each copy. Throws
  // CudaError.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Calls `collective` with the request in host memory, and returns when the result is in the GPU's memory.
  // The compute stream must have computed the tensors. If `collective` throws, waits until no copy uses the
  // tensors, and then rethrows the exception. Throws CudaError, CudaOutOfMemory, and std::runtime_error if a
  // copy takes longer than the timeout; memory that this copy may still use is never freed.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  using Buffer = std::shared_ptr<model::PinnedBuffer>;

  // Returns a tensor of the given shape in the buffer, which grows if necessary.
  model::Tensor OnHost(const model::Tensor& tensor, Buffer& buffer) const;
  // Returns when the copies are done. Throws CudaError, std::runtime_error.
  void WaitForCopies() const;
  // Returns whether no copy is in progress.
  bool IsIdle() const;

  const std::shared_ptr<model::CudaDevice> device_;
  const std::chrono::milliseconds timeout_;
  const model::DevicePtr host_ = model::CpuDevice();
  const model::CudaStream stream_;
  const model::CudaEvent copied_;
  Buffer input_;
  Buffer output_;  // used unless the request is in place
};

}  // namespace gradsync::comm
