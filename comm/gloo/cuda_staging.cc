#include "comm/gloo/cuda_staging.h"

#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

namespace gradsync::comm {

using model::Tensor;

void WaitOnHost(const model::CudaEvent& event, std::chrono::milliseconds timeout) {
  constexpr std::chrono::microseconds kPeriod{20};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!event.done()) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw std::runtime_error("this rank's GPU made no progress for " + Seconds(timeout));
    std::this_thread::sleep_for(kPeriod);
  }
}

CudaStaging::CudaStaging(std::shared_ptr<model::CudaDevice> device, std::chrono::milliseconds timeout)
    : device_(std::move(device)), timeout_(timeout), stream_(*device_), copied_(*device_) {}

void CudaStaging::Run(const Request& request, const std::function<void(const Request&)>& collective) {
  if (request.bytes() == 0) return;
  device_->MakeCurrent();
  const bool is_in_place =
      request.collective == Collective::kAllReduce || request.collective == Collective::kBroadcast;
  Request on_host = request;
  on_host.input = OnHost(request.input, input_);
  on_host.output = is_in_place ? on_host.input : OnHost(request.output, output_);
  try {
    stream_.Copy(on_host.input.raw_data(), request.input.raw_data(), request.input.nbytes());
    WaitForCopies();
    collective(on_host);
    stream_.Copy(request.output.raw_data(), on_host.output.raw_data(), request.output.nbytes());
    WaitForCopies();
  } catch (...) {
    if (!IsIdle()) new std::tuple(request, on_host, device_);
    throw;
  }
}

Tensor CudaStaging::OnHost(const Tensor& tensor, Buffer& buffer) const {
  if (buffer == nullptr || buffer->bytes() < tensor.nbytes()) {
    buffer.reset();
    buffer = std::make_shared<model::PinnedBuffer>(*device_, tensor.nbytes());
  }
  return Tensor::Over(host_, {buffer, buffer->data()}, tensor.shape(), tensor.dtype());
}

void CudaStaging::WaitForCopies() const {
  copied_.Record(stream_);
  WaitOnHost(copied_, timeout_);
}

bool CudaStaging::IsIdle() const {
  try {
    WaitForCopies();
    return true;
  } catch (const model::CudaError&) {
    return true;  // after a failure no work runs on the GPU
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace gradsync::comm
