#include "bench/launch/over_ranks.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/cuda_device.h"

namespace gradsync::bench {
namespace {

constexpr size_t kTextBytes = 64;

std::vector<uint8_t> Padded(const std::string& text) {
  Require(text.size() < kTextBytes, "text to send: found ", text.size(), " bytes, expected fewer than ",
          kTextBytes);
  std::vector<uint8_t> bytes(kTextBytes);
  std::ranges::copy(text, bytes.begin());
  return bytes;
}

}  // namespace

std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device,
                          const std::string& text) {
  const auto tensor = model::Tensor::From<uint8_t>(device, {kTextBytes}, Padded(text));
  group.Broadcast(tensor, 0).Wait();
  const std::vector<uint8_t> received = tensor.ToVector<uint8_t>();
  return reinterpret_cast<const char*>(received.data());  // ends at the first zero
}

int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text) {
  const std::vector<uint8_t> own = Padded(text), all = GatherOverRanks(own, group, device);
  int64_t count = 0;
  for (auto begin = all.begin(); begin != all.end(); begin += kTextBytes)
    count += std::equal(own.begin(), own.end(), begin) ? 1 : 0;
  return count;
}

int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device) {
  if (device->is_cpu()) return 0;
  return CountRanksWith(group, device, model::CudaDevice::Of(*device, "ranks of a GPU").uuid());
}

}  // namespace gradsync::bench
