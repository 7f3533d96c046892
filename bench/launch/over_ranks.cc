#include "bench/launch/over_ranks.h"

#include <algorithm>
#include <functional>

#include "model/tensor/cuda_device.h"

namespace gradsync::bench {

std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device,
                          const std::string& text) {
  const std::vector<int64_t> own_length = {std::ssize(text)};
  const auto length = model::Tensor::From<int64_t>(device, {1}, own_length);
  group.Broadcast(length, 0).Wait();
  // Rank 0's text decides how many bytes every rank sends or receives.
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<size_t>(length.ToVector<int64_t>().front()));
  if (bytes.empty()) return "";
  const auto sent = model::Tensor::From<uint8_t>(device, {std::ssize(bytes)}, bytes);
  group.Broadcast(sent, 0).Wait();
  const std::vector<uint8_t> received = sent.ToVector<uint8_t>();
  return {received.begin(), received.end()};
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
