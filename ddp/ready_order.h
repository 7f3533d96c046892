#ifndef GRADSYNC_DDP_READY_ORDER_H_
#define GRADSYNC_DDP_READY_ORDER_H_

#include <optional>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Records the order in which gradients become ready on rank 0 in the first step, and sends this order to
// every rank. Gradients may become ready in another order on other ranks, if these use other parameters, but
// all ranks must issue collectives in one order.
class ReadyOrder {
 public:
  // Every rank must pass equal parameters in one order.
  explicit ReadyOrder(std::span<model::Parameter* const> params) : params_(params.begin(), params.end()) {}

  // Call this in each step, once per parameter.
  void Mark(model::Parameter& param) {
    if (!agreed_) order_.push_back(&param);
  }

  // Call this at the end of each step, on all ranks. Returns the order after the first step, and nullopt
  // after later steps. Throws CollectiveError.
  std::optional<std::vector<model::Parameter*>> Agree(comm::ProcessGroup& group);

 private:
  const std::vector<model::Parameter*> params_;
  std::vector<model::Parameter*> order_;  // the order of the first step
  bool agreed_ = false;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_READY_ORDER_H_
