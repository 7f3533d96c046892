#ifndef GRADSYNC_DDP_READY_ORDER_H_
#define GRADSYNC_DDP_READY_ORDER_H_

#include <optional>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// The order in which gradients become ready, found in the first step: rank 0's, on every rank. Other ranks'
// may be another, where they use other parameters, and collectives must be issued in one order by all.
class ReadyOrder {
 public:
  // Every rank with the same parameters in the same order.
  explicit ReadyOrder(std::span<model::Parameter* const> params) : params_(params.begin(), params.end()) {}

  // In each step, for every parameter once.
  void Mark(model::Parameter& param) {
    if (!agreed_) order_.push_back(&param);
  }

  // At the end of each step, on all ranks. The order, after the first one; later nullopt. Throws
  // CollectiveError.
  std::optional<std::vector<model::Parameter*>> Agree(comm::ProcessGroup& group);

 private:
  const std::vector<model::Parameter*> params_;
  std::vector<model::Parameter*> order_;  // of the first step
  bool agreed_ = false;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_READY_ORDER_H_
