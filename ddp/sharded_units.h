#pragma once

#include <optional>
#include <vector>

#include "ddp/gathered_weights.h"
#include "ddp/sharded_strategy.h"

namespace gradsync::ddp {

// Every rank keeps one part of weights, gradients and state. Weights of a unit are gathered before they are
// read (ddp/gathered_weights.h). A unit's gradients are views of a buffer, and are reduced to parts when
// backward is done with them, in every pass of a step. The second unit after it in backward reuses the
// buffer.
//
// All ranks send the same buckets in the same order, whatever they use: when backward reaches another unit,
// missing gradients of the previous unit are zero.
class ShardedUnits : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return true; }
  // Throws std::logic_error if backward has already reached an earlier unit of the model.
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
  // `window`: see GatheredWeights. With `in_common`, ranks that share memory keep one copy of the weights,
  // and gather nothing.
  ShardedUnits(const PlanOfUnits& units, size_t window, bool in_common, const StrategyContext& context);

 private:
  void BeginPass();
  // Backward has reached unit i.
  void EnterThrough(size_t i);
  void Leave(size_t i);
  comm::Work Send(size_t i) override;
  void Receive(size_t i) override;
  // The memory for this pass's sum of this rank's part.
  model::Tensor Sum(size_t i) const {
    return num_earlier_passes() == 0 ? own_grads()[i] : OwnPart(i, grads_[i]);
  }
  model::Tensor GatherBuffer(size_t i) override { return grads_[i]; }
  void PublishValues() override { weights_->PublishParts(); }

  const size_t num_units_;
  std::vector<model::Tensor> grads_;        // buffers, by bucket
  std::optional<GatheredWeights> weights_;  // none if ranks share weights
  size_t num_entered_ = 0;                  // units that backward has reached in this pass
};

}  // namespace gradsync::ddp
