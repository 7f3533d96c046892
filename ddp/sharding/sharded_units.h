#pragma once

#include <optional>
#include <vector>

#include "ddp/sharding/gathered_weights.h"
#include "ddp/sharding/sharded_strategy.h"

namespace gradsync::ddp {

// A strategy for gradient synchronisation in which each rank keeps one part of the gradients and of the
// optimizer's state. Each rank also keeps only one part of the weights, unless ranks keep a common copy of
// them in shared memory. A unit is a group of parameters, such as those of a layer (StrategyContext::units).
// If each rank keeps only one part of the weights, the ranks of StrategyContext::group gather a unit's
// weights before the model reads them (GatheredWeights). While backward computes the gradients of a unit's
// parameters, these gradients are views of one buffer. When backward has finished with the unit, a
// reduce-scatter of this buffer gives each rank its part of the gradients, summed over all ranks. These
// reduce-scatters run in every pass (micro-batch) of a step. The gradient buffers of two consecutive units do
// not overlap; the buffers of units that are not consecutive may overlap.
//
// All ranks reduce the gradients of all units in the same order, even if a rank's forward does not use some
// parameters. Before a unit's reduce-scatter, a rank sets to zero the gradients of the unit that its backward
// has not computed.
class ShardedUnits : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return true; }
  // The function model::Backward calls OnUse before it reads `param`. OnUse ignores a frozen parameter.
  // Unless ranks share the weights, OnUse waits until the weights of the parameter's bucket are gathered.
  // Throws std::logic_error if backward has already gone on from the parameter's unit (group of parameters)
  // to the next unit.
  void OnUse(const model::Parameter& param) override;
  void OnGradReady(model::Parameter& param) override;
  bool needs_every_pass() const override { return true; }
  void EndPass() override;
  void Finish() override;
  void CompleteGradients() override { GatherGradients(); }
  void CompleteValues() override {
    if (weights_ && has_begun()) weights_->Complete();
  }
  Parts parts() const override {
    return {weights_ ? weights_->parts() : std::vector<model::Tensor>(), own_grads()};
  }
  BucketPlan plan() const override;

 protected:
  // `window` is the largest number of units (groups of parameters) whose gathered weights are in memory at
  // one time (see GatheredWeights). If `in_common` is true, and all ranks of context.group can share memory,
  // these ranks keep one common copy of the weights. With a common copy, ranks gather no weights, and
  // `window` has no effect.
  ShardedUnits(const PlanOfUnits& units, size_t window, bool in_common, const StrategyContext& context);

 private:
  void BeginPass();
  // EnterThrough is called when backward has reached unit i, a group of parameters; units are counted from 0
  // in the order of backward. With i = num_units_, EnterThrough is called when backward has ended.
  // EnterThrough(i) starts the reduce-scatters of units 0 to i - 1, whose gradients backward has computed,
  // unless they have started. If i < num_units_, EnterThrough(i) also makes the gradients of unit i's
  // parameters views of unit i's buffer.
  void EnterThrough(size_t i);
  void Leave(size_t i);
  comm::Work Send(size_t i) override;
  void Receive(size_t i) override;
  // Returns the tensor to which the reduce-scatter of bucket i writes this rank's part of the gradients of
  // the current pass (micro-batch).
  model::Tensor Sum(size_t i) const {
    return num_earlier_passes() == 0 ? own_grads()[i] : OwnPart(i, grads_[i]);
  }
  model::Tensor GatherBuffer(size_t i) override { return grads_[i]; }
  void PublishValues() override { weights_->PublishParts(); }

  const size_t num_units_;
  std::vector<model::Tensor> grads_;        // gradient buffers, by bucket
  std::optional<GatheredWeights> weights_;  // empty if ranks share weights
  size_t num_entered_ = 0;                  // units that backward has reached in this pass
};

}  // namespace gradsync::ddp
