#ifndef GRADSYNC_DDP_SHARDED_STRATEGY_H_
#define GRADSYNC_DDP_SHARDED_STRATEGY_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/factory.h"
#include "ddp/overlapped_buckets.h"

namespace gradsync::ddp {

// Pads a bucket so that all ranks' parts have equal size.
void PadToParts(const comm::ProcessGroup& group, Bucket& bucket);
// Buckets in reverse forward order, padded. `traits` have small_first and small_last.
BucketPlan PlanParts(const Traits& traits, const StrategyContext& context);

// Every rank updates one part of every bucket, and keeps the optimizer's state of this part only: "ZeRO",
// arXiv:1910.02054, section 5. Rank r has elements [r m, (r + 1) m) of a bucket of p m elements, whatever the
// limits of parameters. During backward each bucket's gradients are reduced to parts; then all ranks gather
// the weights. Buckets are filled in reverse forward order and never change, because an element's state
// cannot move to another rank.
//
// Ranks that share memory (ProcessGroup::AllocateShared) keep one copy of the weights there, and gather
// nothing. They wait for each other when all have read the old weights, and when all have written the new
// ones.
//
// The group may be one host's ranks (MakeSharded): then every host has all parts ("MiCS", arXiv:2205.00119;
// PyTorch's hybrid sharding). Gradients are reduced to parts within each host; each part is then all-reduced
// between the hosts. The link carries only these all-reduces, and never weights.
class ShardedStrategy : public OverlappedBuckets {
 public:
  // Leaves the weights in the parameters' own memory, unless no rank has whole weights: then call
  // CompleteValues before.
  ~ShardedStrategy() override;

  void BeginStep() override;
  // Receives this pass's collectives, and begins another pass.
  void EndPass() override;
  // Takes one all-reduce.
  double SquaredNorm(std::span<model::Parameter* const> params) override;
  void Update(model::Optimizer& optimizer, double grad_scale) override;
  std::vector<model::NamedTensor> State() override;
  void Reset() override;
  double loss_scale() const override { return 1.0 / (group_.size() * group_.num_hosts()); }
  bool places_values() const override { return !values_.empty(); }
  // Without the two barriers. Gradients are sent as often as in the last step.
  BucketPlan plan() const override;

  // Keeps the group that the strategy was made with.
  void OwnGroup(std::unique_ptr<comm::ProcessGroup> group) { owned_group_ = std::move(group); }

 protected:
  // `plan`: the buckets in the order in which gradients are reduced, padded so that all parts of a bucket
  // have equal size. With `in_common` ranks keep one copy of the weights if they share memory.
  ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common = true);
  // Call this at the end of the constructor. Sets the memory of this rank's parts of the gradients, by
  // bucket, and of the values; without values, they are in the parameters. Makes the optimizer of these parts
  // like `like`; if `like` is null, the first update makes it.
  void SetParts(std::vector<model::Tensor> own_grads, const model::Optimizer* like,
                std::vector<model::Tensor> own_values = {});
  const std::vector<model::Tensor>& own_grads() const { return own_grads_; }
  // Whether its values belong to this training; if not, the parameters' own values do.
  bool has_begun() const { return has_begun_; }
  // Passes that have ended in this step.
  size_t num_earlier_passes() const { return num_earlier_passes_; }

  // Memory for all weights of bucket i, during the update. It may equal that of bucket i - 2. If the strategy
  // has its own values, this is only for checks: memory for a bucket.
  virtual model::Tensor GatherBuffer(size_t i) = 0;
  // Called when its own values have been written.
  virtual void PublishValues() {}
  // CompleteGradients for parts that are not inside whole gradients.
  void GatherGradients();

  int64_t part_numel(size_t i) const { return plan_.buckets[i].numel / group_.size(); }
  // This rank's part of `all`, which holds bucket i.
  model::Tensor OwnPart(size_t i, const model::Tensor& all) const {
    return all.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

 private:
  // This rank's part of a parameter.
  struct Own {
    model::Part part;
    int64_t at = 0;  // offset in this rank's part of the bucket
  };

  void MakeOptimizer(const model::Optimizer& like);
  // Copies this rank's weights from the parameters' own memory to own_values_.
  void TakeOwnValues();
  // Frees the parameters' own memory.
  void ReleaseOwnMemory() const;
  // Copies this rank's weights of bucket i to their places in its part.
  void CopyOwnValues(size_t i, const model::Tensor& own) const;
  void UpdateOwnValues(double grad_scale);
  void UpdateInCommonMemory(double grad_scale);
  void UpdateAndGather(double grad_scale);

  std::unique_ptr<comm::ProcessGroup> owned_group_;
  std::vector<std::vector<Own>> own_;  // by bucket
  std::vector<model::Tensor> values_;  // shared by all ranks, by bucket; empty: every rank has its own
  const bool is_alone_;                // see StrategyOptions
  bool has_taken_ = false;             // own_values_ have the initial weights
  bool has_begun_ = false;             // values_, or own_values_, belong to this training
  size_t num_earlier_passes_ = 0;
  std::vector<model::Tensor> own_grads_, own_values_;
  std::unique_ptr<model::Optimizer> optimizer_;  // set in the first update, at the latest
};

// Makes a strategy of class S from the context. With kWithin, and if there are several hosts, it works within
// each host's ranks.
template <class S>
std::unique_ptr<Strategy> MakeSharded(const Traits& traits, const StrategyContext& context) {
  if (ValueOf(traits, Option::Role::kWithinHost, context.options) == 0 ||
      context.group.host_group() == nullptr)
    return std::make_unique<S>(context);
  auto group = std::make_unique<comm::HostGroup>(context.group);
  auto strategy = std::make_unique<S>(
      StrategyContext{context.params, *group, context.options, context.optimizer, context.units});
  strategy->OwnGroup(std::move(group));
  return strategy;
}

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_SHARDED_STRATEGY_H_
