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

// A sharded strategy in which every p.grad() is a view of a bucket's buffer, so the strategy copies no
// gradients to send them. With the option gather=update (kGather), unless ranks share the weights, an
// all-gather writes a bucket's updated weights over its gradients, which are no longer needed. With
// gather=forward, the all-gathers begin when all parts are updated, in the order of the layers, and in the
// next forward each read of a weight waits for its all-gather (ddp/sharding/carried_weights.h). With
// gather=forward every rank keeps its own copy of the whole weights, also where ranks could share memory.
class PlacedParts : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return carried_.has_value(); }
  // With gather=forward, Finish waits for the all-gathers of weights that are still running, because Update
  // writes the parts that they send. Finish does not wait for the reduce-scatters of gradients: Update waits
  // for them.
  void Finish() override;
  void Reset() override;
  void CompleteGradients() override;
  void CompleteValues() override;
  // Returns the collectives of a step, in order. With gather=forward, the all-gathers for which the step's
  // forward waits come first, although the step before has begun them.
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

// Implements Traits::more_copies for strategies derived from PlacedParts: returns 1, the size of all
// gradients, with gather=forward, because the whole weights then have a buffer besides that of the gradients;
// else 0.
double WeightsBuffer(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
