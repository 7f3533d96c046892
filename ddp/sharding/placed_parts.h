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

// A strategy for gradient synchronisation in which each parameter's gradient is a view of a bucket's buffer,
// so the strategy sends gradients without copying them. With the strategy's option gather=update, an
// all-gather in Update writes a bucket's updated weights over the bucket's gradients, which are no longer
// needed. Ranks that keep one common copy of the weights in shared memory need no all-gather. With
// gather=forward, Update begins the all-gathers of the weights when the rank has updated its parts of all
// buckets. With gather=forward, the first BeginStep after the constructor or Reset also begins all-gathers of
// the weights. The all-gather of the first layers' bucket begins first. With gather=forward, each call of
// Parameter::ForwardValue in the next step's forward waits until the all-gather of the parameter's bucket is
// done (ddp/sharding/carried_weights.h). With gather=forward every rank keeps its own copy of the whole
// weights, even if ranks could share memory.
class PlacedParts : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return carried_.has_value(); }
  // With gather=forward, Finish waits for running all-gathers of weights, because Update writes the parts
  // that these all-gathers send. Finish does not wait for the reduce-scatters of gradients: SquaredNorm,
  // CompleteGradients and Update wait for them.
  void Finish() override;
  void Reset() override;
  void CompleteGradients() override;
  void CompleteValues() override;
  // Returns the collectives of the last step, in the order in which they began. With gather=forward, the list
  // begins with the all-gathers of weights for which the last step's forward waited.
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

// Strategies derived from PlacedParts set Traits::more_copies to WeightsBuffer. WeightsBuffer returns the
// memory of CarriedWeights, the buffers for the whole weights, divided by the memory of all gradients: 1 with
// gather=forward, else 0.
double WeightsBuffer(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
