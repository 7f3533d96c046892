#ifndef GRADSYNC_DDP_READY_ORDER_H_
#define GRADSYNC_DDP_READY_ORDER_H_

#include <optional>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// The order in which gradients become ready in the first step, on rank 0, for every rank. Other ranks may
// have another order, if they use other parameters, but all ranks must issue collectives in one order.
class ReadyOrder {
 public:
  // Every rank passes the same parameters in the same order.
  explicit ReadyOrder(std::span<model::Parameter* const> params) : params_(params.begin(), params.end()) {}

  // Call this in each step, once per parameter.
  void Mark(model::Parameter& param) {
    if (!agreed_) order_.push_back(&param);
  }

  // Call this at the end of each step, on all ranks. Returns the order after the first step; later nullopt.
  // Throws CollectiveError.
  std::optional<std::vector<model::Parameter*>> Agree(comm::ProcessGroup& group);

 private:
  const std::vector<model::Parameter*> params_;
  std::vector<model::Parameter*> order_;  // of the first step
  bool agreed_ = false;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_READY_ORDER_H_
