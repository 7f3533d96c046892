#pragma once

#include <optional>
#include <vector>

#include "ddp/sharding/carried_weights.h"
#include "ddp/sharding/sharded_strategy.h"

namespace gradsync::ddp {

inline constexpr std::string_view kGatherWords[] = {"update", "forward"};
inline constexpr Option kGather = {.name = "gather",
                                   .meaning = "when weights are gathered, in this step or the next",
                                   .role = Option::Role::kCarry,
                                   .words = kGatherWords};

// A sharded strategy in which every p.grad() is a view of a bucket, so that gradients are sent without a
// copy. After the update of a bucket, an all-gather writes the weights over the bucket's gradients, which are
// no longer needed. With gather=forward (kGather) the all-gathers begin when all parts are updated, in the
// order of the layers, and in the next forward each read of a weight waits for its all-gather
// (ddp/sharding/carried_weights.h). Every rank then has its own whole weights, even if ranks could share
// memory.
class PlacedParts : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return carried_.has_value(); }
  // Waits until all weights are gathered, because Update writes them. It does not wait for the reductions of
  // gradients: Update does.
  void Finish() override;
  void Reset() override;
  void CompleteGradients() override;
  void CompleteValues() override;
  // Returns the collectives of a step. With gather=forward, the gathers for which forward waits are the first
  // of them.
  BucketPlan plan() const override;

 protected:
  PlacedParts(const Traits& traits, BucketPlan plan, const StrategyContext& context);

 private:
  comm::Work Send(size_t i) override;
  model::Tensor GatherBuffer(size_t i) override { return buffers_[i]; }
  void PublishValues() override { carried_->Gather(); }

  const std::vector<model::Tensor> buffers_;  // views of one storage, by bucket
  std::optional<CarriedWeights> carried_;     // with gather=forward
};

// An implementation of Traits::more_copies. Returns 1 with gather=forward, because whole weights then have a
// buffer of their own besides the gradients'; else 0.
double WeightsBuffer(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
