#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "comm/queue/request.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::comm {

// Waits until the GPU has done the work that precedes `event`. The thread sleeps between queries of the
// event, so that other threads can use its CPU core. Throws std::runtime_error if the GPU has not done the
// work that precedes `event` within the timeout, and CudaError if CUDA reports an error.
void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout);

// Runs collectives on tensors of a GPU with a backend that uses only host memory: copies the tensors through
// pinned host memory, like PyTorch's gloo. Each communication thread that runs such a collective has its own
// CudaStaging object.
class CudaStaging {
 public:
  // Run throws an exception if a copy between GPU and host takes longer than `timeout`. The constructor
  // throws CudaError if CUDA reports an error.
  CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout);

  // Runs the collective that `request` describes: copies its input to host memory, calls `collective` with a
  // request on tensors in host memory, copies the output to the GPU, and returns when this copy is done. Does
  // nothing for a request of 0 bytes. Before the call of Run, the GPU must have finished all work on the
  // request's tensors. Rethrows an exception that `collective` throws. Throws CudaOutOfMemory if pinned
  // memory runs out, CudaError if CUDA reports another error, and std::runtime_error if a copy takes longer
  // than the timeout. If this copy still runs when the timeout has passed a second time, the tensors on the
  // GPU and in host memory are never freed, because the GPU may still use them.
  void Run(const Request& request, const std::function<void(const Request&)>& collective);

 private:
  using Buffer = std::shared_ptr<model::PinnedBuffer>;

  // Returns a host tensor with the shape and dtype of `tensor`, but not its values, in the pinned memory
  // `buffer`. If `buffer` is null or too small, replaces it by a new buffer with the size of `tensor`.
  model::Tensor OnHost(const model::Tensor& tensor, Buffer& buffer) const;
  // Returns when all copies between GPU and host that this object has started (on stream_) are done. Throws
  // CudaError if CUDA reports an error, and std::runtime_error if the copies take longer than `timeout` of
  // the constructor.
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
