#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Pads a bucket so that the parts of all ranks have equal size.
void PadToParts(const comm::ProcessGroup& group, Bucket& bucket);
// Returns buckets in reverse forward order, padded so that all ranks have parts of equal size. Reads the
// options small_first and small_last, which `traits` must have.
BucketPlan PlanParts(const Traits& traits, const StrategyContext& context);

// Each rank updates one part of every bucket, and keeps the optimizer's state for this part only: "ZeRO",
// arXiv:1910.02054, section 5. With p ranks, a bucket has p m elements, and rank r has the elements [r m, (r
// + 1) m); parts may divide parameters. During backward each bucket's gradients are reduced to parts; then
// all ranks gather the weights. Buckets are filled in reverse forward order and never change, because an
// element's state cannot move to another rank.
//
// Ranks that share memory (ProcessGroup::AllocateShared) keep one copy of the weights in it, and gather
// nothing. Two barriers replace the gathers: after all ranks have read the old weights, and after all have
// written the new ones.
//
// A strategy of MakeSharded may shard within each host: `group_` then has only the ranks of this host, and
// every host has all parts ("MiCS", arXiv:2205.00119; PyTorch's hybrid sharding). Gradients are reduced to
// parts within each host, and each part is then all-reduced between the hosts. No weights are sent between
// hosts.
class ShardedStrategy : public OverlappedBuckets {
 public:
  // Leaves the weights in the parameters' own memory. If ranks have only parts of the weights, call
  // CompleteValues before the strategy is destroyed.
  ~ShardedStrategy() override;

  void BeginStep() override;
  // Waits for the collectives of this pass, and begins the next pass.
  void EndPass() override;
  // Sums the squares of this rank's part, and adds the sums of all ranks with one all-reduce.
  double SquaredNorm(std::span<model::Parameter* const> params) override;
  void Update(model::Optimizer& optimizer, double grad_scale) override;
  std::vector<model::NamedTensor> State() override;
  void Reset() override;
  double loss_scale() const override { return 1.0 / (group_.size() * group_.num_hosts()); }
  bool places_values() const override { return !values_.empty(); }
  // Returns the plan of a step, without barriers, with as many passes as the last step had.
  BucketPlan plan() const override;

  // Takes ownership of the group that the strategy uses.
  void OwnGroup(std::unique_ptr<comm::ProcessGroup> group) { owned_group_ = std::move(group); }

 protected:
  // `plan` has the buckets in the order in which gradients are reduced, padded so that all parts of a bucket
  // have equal size. If `in_common` is true, ranks that can share memory keep one copy of the weights.
  ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common = true);
  // A derived class calls this at the end of its constructor. `own_grads` and `own_values` become the memory
  // of this rank's parts of gradients and weights, by bucket. If `own_values` is empty, the weights stay in
  // the parameters' memory. Makes the optimizer that updates these parts, with the settings of `like`; if
  // `like` is null, the first update makes it.
  void SetParts(std::vector<model::Tensor> own_grads, const model::Optimizer* like,
                std::vector<model::Tensor> own_values = {});
  const std::vector<model::Tensor>& own_grads() const { return own_grads_; }
  // Returns whether the strategy's memory holds the current values, and not the parameters' own memory.
  bool has_begun() const { return has_begun_; }
  // Returns the number of passes (micro-batches) that have ended in this step.
  size_t num_earlier_passes() const { return num_earlier_passes_; }

  // Returns memory for the whole bucket i. Update gathers the bucket's new weights into it, unless SetParts
  // got `own_values` or ranks share the weights; CompleteGradients may gather gradients into it. Buckets i
  // and i - 2 may share this memory.
  virtual model::Tensor GatherBuffer(size_t i) = 0;
  // Called when the parts `own_values` of SetParts have new weights: after each update, and before the first
  // step. A derived class sends or converts them here.
  virtual void PublishValues() {}
  // Makes every p.grad() the whole mean gradient, with one all-gather for each bucket. Strategies that keep
  // only this rank's part of each gradient call it in CompleteGradients.
  void GatherGradients();

  int64_t part_numel(size_t i) const { return plan_.buckets[i].numel / group_.size(); }
  // Returns this rank's part of `all`, which holds bucket i.
  model::Tensor OwnPart(size_t i, const model::Tensor& all) const {
    return all.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

 private:
  // The part of a parameter that this rank updates.
  struct Own {
    model::Part part;
    int64_t at = 0;  // offset in this rank's part of the bucket
  };

  void MakeOptimizer(const model::Optimizer& like);
  // Copies this rank's parts of the weights from the parameters' own memory to own_values_.
  void TakeOwnValues();
  void ReleaseOwnMemory() const;
  // Copies this rank's part of the weights of bucket i from the parameters to `own`.
  void CopyOwnValues(size_t i, const model::Tensor& own) const;
  void UpdateOwnValues(double grad_scale);
  void UpdateInCommonMemory(double grad_scale);
  void UpdateAndGather(double grad_scale);

  std::unique_ptr<comm::ProcessGroup> owned_group_;
  std::vector<std::vector<Own>> own_;  // by bucket
  // values that all ranks share, by bucket; empty if every rank has its own values
  std::vector<model::Tensor> values_;
  const bool is_alone_;     // see StrategyOptions
  bool has_taken_ = false;  // true if own_values_ have the initial weights
  bool has_begun_ = false;  // true if values_ or own_values_ hold the current values
  size_t num_earlier_passes_ = 0;
  std::vector<model::Tensor> own_grads_, own_values_;
  std::unique_ptr<model::Optimizer> optimizer_;  // set in the first update or earlier
};

// Makes a strategy of class S from the context. If the option of role kWithinHost is set and there are
// several hosts, the ranks of each host divide gradients and state among themselves, and every host has all
// parts.
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
