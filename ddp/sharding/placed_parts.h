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

// Sharded updates whose gradients are views of buckets, as in `core`; weights travel through the same
// storage. With gather=forward (kGather) all-gathers begin when all parts are updated, the first layers'
// first, and each read of the next forward waits for its own (ddp/sharding/carried_weights.h). Over shm, too,
// every rank then has whole weights.
class PlacedParts : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return carried_.has_value(); }
  // The update waits for each bucket, and writes weights, of which nothing may be on its way any more.
  void Finish() override;
  void Reset() override;
  void CompleteGradients() override;
  void CompleteValues() override;
  // What forward waits for comes first.
  BucketPlan plan() const override;

 protected:
  // `traits` have kGather. `plan`: see ShardedStrategy.
  PlacedParts(const Traits& traits, BucketPlan plan, const StrategyContext& context);

 private:
  comm::Work Send(size_t i) override;
  model::Tensor GatherBuffer(size_t i) override { return buffers_[i]; }
  void PublishValues() override { carried_->Gather(); }

  const std::vector<model::Tensor> buffers_;  // views of one storage, by bucket
  std::optional<CarriedWeights> carried_;     // with gather=forward
};

// Traits::more_copies of a strategy with kGather.
double WeightsBuffer(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
