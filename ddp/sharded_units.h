#ifndef GRADSYNC_DDP_SHARDED_UNITS_H_
#define GRADSYNC_DDP_SHARDED_UNITS_H_

#include <optional>
#include <vector>

#include "ddp/gathered_weights.h"
#include "ddp/sharded_strategy.h"

namespace gradsync::ddp {

// Every rank keeps one part of weights, gradients and state. Weights of a unit are gathered before they are
// read (ddp/gathered_weights.h); its gradients are views of a buffer, which the second unit after it in
// backward uses again, and are reduced to parts when backward is done with them, in every pass of a step.
//
// All ranks send the same in the same order, whatever they use: when backward comes to another unit,
// gradients of the one before it that are not there are zero.
class ShardedUnits : public ShardedStrategy {
 public:
  void BeginStep() override;
  bool needs_use_hook() const override { return true; }
  // Throws std::logic_error if backward has gone on to an earlier unit of the model.
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
  // `window`: of GatheredWeights. With `in_common` weights exist once and are not gathered, where ranks have
  // memory in common.
  ShardedUnits(const PlanOfUnits& units, size_t window, bool in_common, const StrategyContext& context);

 private:
  void BeginPass();
  // Backward has come to unit i.
  void EnterThrough(size_t i);
  void Leave(size_t i);
  comm::Work Send(size_t i) override;
  void Receive(size_t i) override;
  // Where this pass's sum of this rank's part is.
  model::Tensor Sum(size_t i) const {
    return num_earlier_passes() == 0 ? own_grads()[i] : OwnPart(i, grads_[i]);
  }
  model::Tensor GatherBuffer(size_t i) override { return grads_[i]; }
  void PublishValues() override { weights_->PublishParts(); }

  const size_t num_units_;
  std::vector<model::Tensor> grads_;        // buffers, by bucket
  std::optional<GatheredWeights> weights_;  // none where ranks have weights in common
  size_t num_entered_ = 0;                  // units, by backward in this pass
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_SHARDED_UNITS_H_
