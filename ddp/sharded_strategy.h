#ifndef GRADSYNC_DDP_SHARDED_STRATEGY_H_
#define GRADSYNC_DDP_SHARDED_STRATEGY_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/factory.h"
#include "ddp/overlapped_buckets.h"

namespace gradsync::ddp {

// Makes all ranks' parts of a bucket that is to be reduced the same size.
void PadToParts(const comm::ProcessGroup& group, Bucket& bucket);

// Every rank updates one part of every bucket, and keeps the optimizer's state of that part alone: "ZeRO",
// arXiv:1910.02054, section 5. Rank r has elements [r m, (r + 1) m) of a bucket of p m elements, wherever
// parameters begin and end. Gradients are reduced to parts during backward, bucket by bucket; then all ranks
// gather everyone's weights. Buckets are filled in reverse forward order, and stay: an element's state cannot
// move to another rank.
//
// Ranks that have memory in common (ProcessGroup::AllocateShared) keep one copy of the weights there, and
// gather nothing: they meet when all have read the old weights, and when all have written the new ones.
//
// The group may be one host's ranks (MakeSharded): then every host has all parts ("MiCS", arXiv:2205.00119;
// PyTorch's hybrid sharding). Gradients are reduced to parts within each host; each part is then all-reduced
// between the hosts, so that the link carries what an all-reduce of one part takes, and weights never.
class ShardedStrategy : public OverlappedBuckets {
 public:
  // Leaves the weights in memory of the parameters' own, unless no rank has them whole: then CompleteValues
  // has to come before.
  ~ShardedStrategy() override;

  void BeginStep() override;
  // Receives the pass, and begins another.
  void EndPass() override;
  // By one all-reduce.
  double SquaredNorm(std::span<model::Parameter* const> params) override;
  void Update(model::Optimizer& optimizer, double grad_scale) override;
  std::vector<model::NamedTensor> State() override;
  void Reset() override;
  double loss_scale() const override { return 1.0 / (group_.size() * group_.num_hosts()); }
  bool places_values() const override { return !values_.empty(); }
  // Without the two barriers. Gradients travel as often as in the last step.
  BucketPlan plan() const override;

  // To keep, if the strategy was made with it.
  void OwnGroup(std::unique_ptr<comm::ProcessGroup> group) { owned_group_ = std::move(group); }

 protected:
  // plan_ has the buckets in the order in which gradients are reduced, padded so that all parts of one have
  // the same number of elements.
  // `traits` have small_first and small_last.
  // With `in_common` ranks keep one copy of the weights if they have memory in common.
  ShardedStrategy(const Traits& traits, const StrategyContext& context, bool in_common = true);
  // `plan`: such a one.
  ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common);
  // At the end of the constructor: where this rank's parts of the gradients will be, by bucket, and those of
  // the values; without any, they are in the parameters. Makes the optimizer of these parts, like that one;
  // if it is null, the first update does.
  void SetParts(std::vector<model::Tensor> own_grads, const model::Optimizer* like,
                std::vector<model::Tensor> own_values = {});
  const std::vector<model::Tensor>& own_grads() const { return own_grads_; }
  // Whether its values are this training's; if not, the parameters' own are.
  bool has_begun() const { return has_begun_; }
  // Passes that have ended in this step.
  size_t num_earlier_passes() const { return num_earlier_passes_; }

  // Memory for all weights of bucket i, during the update. It may be that of bucket i - 2. If the strategy
  // has values of its own, this is only for checks: memory for a bucket.
  virtual model::Tensor GatherBuffer(size_t i) = 0;
  // Called when values of its own have been written.
  virtual void PublishValues() {}
  // CompleteGradients for parts that are not where whole gradients are.
  void GatherGradients();

  int64_t part_numel(size_t i) const { return plan_.buckets[i].numel / group_.size(); }
  // This rank's part of what holds bucket i.
  model::Tensor OwnPart(size_t i, const model::Tensor& all) const {
    return all.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

 private:
  // What this rank has of a parameter.
  struct Own {
    model::Part part;
    int64_t at = 0;  // in this rank's part of the bucket
  };

  void MakeOptimizer(const model::Optimizer& like);
  // Copies this rank's weights from the parameters' own memory to own_values_.
  void TakeOwnValues();
  // The parameters' own memory is not needed any more.
  void ReleaseOwnMemory() const;
  // Copies this rank's weights of bucket i to their places in its part.
  void CopyOwnValues(size_t i, const model::Tensor& own) const;
  void UpdateOwnValues(double grad_scale);
  void UpdateInCommonMemory(double grad_scale);
  void UpdateAndGather(double grad_scale);

  std::unique_ptr<comm::ProcessGroup> owned_group_;
  std::vector<std::vector<Own>> own_;  // by bucket
  std::vector<model::Tensor> values_;  // of all ranks, by bucket; empty: every rank has its own
  const bool is_alone_;                // see StrategyOptions
  bool has_taken_ = false;             // own_values_ are the weights that training begins with
  bool has_begun_ = false;             // values_, or own_values_, are this training's
  size_t num_earlier_passes_ = 0;
  std::vector<model::Tensor> own_grads_, own_values_;
  std::unique_ptr<model::Optimizer> optimizer_;  // from the first update on, at the latest
};

// One of class S, which a context makes; with kWithin in each host's ranks, if there are several hosts.
template <class S>
std::unique_ptr<Strategy> MakeSharded(const Traits& traits, const StrategyContext& context) {
  if (!IsWithinHost(traits, context.options) || context.group.host_group() == nullptr)
    return std::make_unique<S>(context);
  auto group = std::make_unique<comm::HostGroup>(context.group);
  auto strategy = std::make_unique<S>(
      StrategyContext{context.params, *group, context.options, context.optimizer, context.units});
  strategy->OwnGroup(std::move(group));
  return strategy;
}

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_SHARDED_STRATEGY_H_
