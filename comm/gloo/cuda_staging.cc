#include "comm/gloo/cuda_staging.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "comm/queue/chunks.h"

namespace gradsync::comm {
namespace {

using model::CudaDevice;
using model::CudaEvent;
using model::Tensor;

class PinnedMemory : public model::MemorySource {
 public:
  explicit PinnedMemory(const CudaDevice& device) : device_(device) {}

  void* Acquire(size_t bytes) override {
    model::PinnedBuffer buffer(device_, bytes);
    void* const data = buffer.data();
    buffers_.emplace(data, std::move(buffer));
    return data;
  }
  void Release(void* memory, size_t) override { buffers_.erase(memory); }

 private:
  const CudaDevice& device_;
  std::unordered_map<void*, model::PinnedBuffer> buffers_;
};

// The host, with memory that the GPU can reach.
class PinnedHost : public model::Device {
 public:
  explicit PinnedHost(const CudaDevice& device)
      : Device(Type::kCpu, 0, 1, std::make_unique<PinnedMemory>(device)) {}

  void Copy(void* target, const void* source, size_t bytes) override {
    if (bytes > 0) std::memmove(target, source, bytes);
  }
  void Zero(void* target, size_t bytes) override {
    if (bytes > 0) std::memset(target, 0, bytes);
  }
  void Synchronize() override {}
};

}  // namespace

void WaitOnHost(const CudaEvent& event, std::chrono::milliseconds timeout) {
  constexpr std::chrono::microseconds kPeriod{20};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!event.done()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      throw std::runtime_error("this rank's GPU made no progress for " + Seconds(timeout));
    }
    std::this_thread::sleep_for(kPeriod);
  }
}

CudaStaging::CudaStaging(std::shared_ptr<CudaDevice> device, std::chrono::milliseconds timeout)
    : device_(std::move(device)),
      timeout_(timeout),
      pinned_host_(std::make_shared<PinnedHost>(*device_)),
      down_(*device_),
      up_(*device_) {
  for (size_t i = 0; i < kSlots; ++i) slots_.push_back({CudaEvent(*device_), CudaEvent(*device_)});
}

void CudaStaging::Run(const Request& request, const std::function<void(const Request&)>& collective) {
  device_->MakeCurrent();
  const bool is_elementwise =
      request.collective == Collective::kAllReduce || request.collective == Collective::kBroadcast;
  try {
    is_elementwise ? RunInChunks(request, collective) : RunWhole(request, collective);
  } catch (...) {
    if (!Drain()) new std::tuple(request, std::exchange(buffer_, Tensor()), pinned_host_, device_);
    throw;
  }
}

bool CudaStaging::Drain() {
  try {
    for (const model::CudaStream* const stream : {&down_, &up_}) {
      const CudaEvent end(*device_);
      end.Record(*stream);
      WaitOnHost(end, timeout_);
    }
    return true;
  } catch (const model::CudaError&) {
    return true;  // nothing runs any more on a GPU that has failed
  } catch (const std::runtime_error&) {
    return false;
  }
}

void CudaStaging::RunInChunks(const Request& request, const std::function<void(const Request&)>& collective) {
  if (!buffer_.defined()) {
    buffer_ = Tensor::Empty(pinned_host_, {static_cast<int64_t>(kSlots * kChunkBytes)}, model::DType::kU8);
  }
  const Tensor tensor = request.output.View({request.output.numel()});
  const auto chunk_numel = static_cast<int64_t>(kChunkBytes / SizeOf(tensor.dtype()));
  const int64_t num_chunks = (tensor.numel() + chunk_numel - 1) / chunk_numel;
  const auto slot_of = [&](int64_t chunk) -> Slot& { return slots_[static_cast<size_t>(chunk) % kSlots]; };
  const auto on_device = [&](int64_t chunk) {
    const int64_t begin = chunk * chunk_numel;
    return tensor.Slice(begin, {std::min(chunk_numel, tensor.numel() - begin)});
  };
  const auto on_host = [&](int64_t chunk) {
    return buffer_.SliceBytes(static_cast<size_t>(chunk) % kSlots * kChunkBytes, on_device(chunk).shape(),
                              tensor.dtype());
  };
  const auto download = [&](int64_t chunk) {
    Slot& slot = slot_of(chunk);
    // The slot's last chunk has to be up before it is overwritten.
    if (chunk >= static_cast<int64_t>(kSlots)) down_.Wait(slot.uploaded);
    down_.Copy(on_host(chunk).raw_data(), on_device(chunk).raw_data(), on_device(chunk).nbytes());
    slot.downloaded.Record(down_);
  };

  Pipeline(num_chunks, kSlots, download, [&](int64_t chunk) {
    Slot& slot = slot_of(chunk);
    WaitOnHost(slot.downloaded, timeout_);
    Request part = request;
    part.chunk = chunk;
    part.input = part.output = on_host(chunk);
    collective(part);
    up_.Copy(on_device(chunk).raw_data(), part.output.raw_data(), part.output.nbytes());
    slot.uploaded.Record(up_);
  });
  if (num_chunks > 0) WaitOnHost(slot_of(num_chunks - 1).uploaded, timeout_);
}

void CudaStaging::RunWhole(const Request& request, const std::function<void(const Request&)>& collective) {
  Request whole = request;
  whole.input = Tensor::Empty(pinned_host_, request.input.shape(), request.input.dtype());
  whole.output = Tensor::Empty(pinned_host_, request.output.shape(), request.output.dtype());
  Slot& slot = slots_.front();
  down_.Copy(whole.input.raw_data(), request.input.raw_data(), request.input.nbytes());
  slot.downloaded.Record(down_);
  WaitOnHost(slot.downloaded, timeout_);
  collective(whole);
  up_.Copy(request.output.raw_data(), whole.output.raw_data(), request.output.nbytes());
  slot.uploaded.Record(up_);
  WaitOnHost(slot.uploaded, timeout_);
}

}  // namespace gradsync::comm
