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

// Runs collectives on tensors of a GPU with a backend that uses only host memory: copies the tensors through
// pinned host memory, like PyTorch's gloo. Each communication thread has its own CudaStaging object.
class CudaStaging {
 public:
  // `timeout` limits the time of each copy. Throws CudaError.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Copies the request's tensors to host memory, calls `collective` on the copies, and returns when the
  // result is in the GPU's memory. The compute stream must have finished the tensors before this call. If
  // `collective` throws, waits until no copy uses the tensors, and then rethrows the exception. Throws
  // CudaError, CudaOutOfMemory, and std::runtime_error if a copy takes longer than the timeout; the memory of
  // such a copy is never freed, because the GPU may still use it.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  using Buffer = std::shared_ptr<model::PinnedBuffer>;

  // Returns a host tensor of the same shape in the pinned memory `buffer`, which grows if necessary.
  model::Tensor OnHost(const model::Tensor& tensor, Buffer& buffer) const;
  // Returns when the copies are done. Throws CudaError, or std::runtime_error at the timeout.
  void WaitForCopies() const;
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
