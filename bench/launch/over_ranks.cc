#include "bench/launch/over_ranks.h"

#include <algorithm>
#include <functional>

#include "model/base/error.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {

std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device,
                          const std::string& text) {
  constexpr size_t kTextBytes = 64;
  Require(text.size() < kTextBytes, "text to send: found ", text.size(), " bytes, expected fewer than ",
          kTextBytes);
  std::vector<uint8_t> bytes(kTextBytes);  // zeros behind it
  std::ranges::copy(text, bytes.begin());
  const auto tensor = model::Tensor::From<uint8_t>(device, {kTextBytes}, bytes);
  group.Broadcast(tensor, 0).Wait();
  const std::vector<uint8_t> received = tensor.ToVector<uint8_t>();
  return reinterpret_cast<const char*>(received.data());  // the text ends at the first zero
}

int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text) {
  const auto own = static_cast<int64_t>(std::hash<std::string>()(text));
  return std::ranges::count(GatherOverRanks(std::vector{own}, group, device), own);
}

int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device) {
  if (device->is_cpu()) return 0;
  return CountRanksWith(group, device, model::CudaDevice::Of(*device, "ranks of a GPU").uuid());
}

}  // namespace gradsync::bench
