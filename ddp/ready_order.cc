#include "ddp/ready_order.h"

#include <algorithm>
#include <cstdint>

namespace gradsync::ddp {

std::optional<std::vector<model::Parameter*>> ReadyOrder::Agree(comm::ProcessGroup& group) {
  if (agreed_) return std::nullopt;
  std::vector<int32_t> order;
  for (const model::Parameter* param : order_) {
    order.push_back(static_cast<int32_t>(std::ranges::find(params_, param) - params_.begin()));
  }
  const model::Tensor agreed = model::Tensor::From<int32_t>(
      params_.front()->device(), {static_cast<int64_t>(order.size())}, std::span<const int32_t>(order));
  group.Broadcast(agreed, 0).Wait();
  std::vector<model::Parameter*> params;
  for (const int32_t i : agreed.ToVector<int32_t>()) params.push_back(params_.at(static_cast<size_t>(i)));
  agreed_ = true;
  return params;
}

}  // namespace gradsync::ddp
