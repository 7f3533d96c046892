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

// A sharded strategy whose gradients are views of buckets, as in `core`. All-gathers write the updated
// weights of a bucket over its gradients, which are no longer needed. With gather=forward (kGather) the
// all-gathers begin when all parts are updated, in the order of the layers, and in the next forward each read
// of a weight waits for the all-gather of this weight (ddp/sharding/carried_weights.h). Then every rank has
// whole weights, also over shm.
class PlacedParts : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return carried_.has_value(); }
  // Waits for all gathers of weights, because the update, which waits for each bucket, writes the weights.
  void Finish() override;
  void Reset() override;
  void CompleteGradients() override;
  void CompleteValues() override;
  // The gathers for which forward waits come first.
  BucketPlan plan() const override;

 protected:
  // `traits` must have the option kGather. `plan` is as in ShardedStrategy.
  PlacedParts(const Traits& traits, BucketPlan plan, const StrategyContext& context);

 private:
  comm::Work Send(size_t i) override;
  model::Tensor GatherBuffer(size_t i) override { return buffers_[i]; }
  void PublishValues() override { carried_->Gather(); }

  const std::vector<model::Tensor> buffers_;  // views of one storage, by bucket
  std::optional<CarriedWeights> carried_;     // with gather=forward
};

// The function Traits::more_copies of a strategy with kGather.
double WeightsBuffer(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
