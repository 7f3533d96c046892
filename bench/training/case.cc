#include "bench/training/case.h"

#include <algorithm>

#include "bench/peers/pytorch.h"
#include "model/error.h"

namespace gradsync::bench {

model::Batch BatchShape::NewBatch(const model::DevicePtr& device) const {
  return {model::Tensor::Empty(device, inputs, inputs_dtype),
          model::Tensor::Empty(device, targets, targets_dtype)};
}

std::string Case::name() const {
  std::string name;
  for (const auto& [what, value] : labels) name += Join(name.empty() ? "" : ", ", what, " ", value);
  return name;
}

void AddPeers(const std::vector<std::string>& modes, Case& the_case) {
  const std::vector<VariantSpec> own = the_case.variants;
  for (const VariantSpec& variant : own) {
    for (const std::string& peer : PeerStrategies({variant.name}, modes)) {
      if (std::ranges::find(the_case.variants, peer, &VariantSpec::peer) != the_case.variants.end()) continue;
      the_case.variants.push_back({PeerName(peer), variant.bucket_bytes, peer});
    }
  }
}

}  // namespace gradsync::bench
