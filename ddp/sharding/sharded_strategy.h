#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Prepares `bucket` for a reduce-scatter over `group`: pads it so that all ranks have parts of equal size.
void PadToParts(const comm::ProcessGroup& group, Bucket& bucket);
// Returns buckets that are filled in reverse forward order, and padded so that all ranks have parts of equal
// size. Reads the options small_first and small_last, which `traits` must have.
BucketPlan PlanParts(const Traits& traits, const StrategyContext& context);

// Each rank updates one part of every bucket, and keeps the optimizer's state for this part only: "ZeRO",
// arXiv:1910.02054, section 5. With p ranks, a bucket has p m elements, and rank r has the elements [r m, (r
// + 1) m); parts may divide parameters. During backward a reduce-scatter of each bucket gives each rank its
// part of the summed gradients. Ranks gather the updated weights of a bucket at once, or for the next
// forward. All steps have the same buckets, because the optimizer's state of an element cannot move to
// another rank.
//
// If `in_common` is true, ranks that share memory (ProcessGroup::AllocateShared) keep one copy of the weights
// in it, and gather no weights. Two barriers in Update replace the gathers: the first when all ranks have
// read the old weights, the second when all have written the new ones.
//
// A strategy of MakeSharded may shard within each host: `group_` is then a comm::HostGroup of this host's
// ranks, and every host has all parts ("MiCS", arXiv:2205.00119; PyTorch's hybrid sharding). Gradients are
// reduced to parts within each host, and each part is then all-reduced between the hosts. No weights are sent
// between hosts.
class ShardedStrategy : public OverlappedBuckets {
 public:
  // Copies weights that are in memory shared by ranks to the parameters' own memory. If each rank keeps only
  // a part of the weights, call CompleteValues before the strategy is destroyed; else the weights are lost.
  ~ShardedStrategy() override;

  void BeginStep() override;
  // Waits for the reductions of this pass's gradients, and begins the next pass (micro-batch) of the step.
  void EndPass() override;
  // Returns the sum of the squares of the whole mean gradient, not only of `params`: sums the squares of this
  // rank's parts, and adds these sums over the ranks of `group_` with one all-reduce.
  double SquaredNorm(std::span<model::Parameter* const> params) override;
  void Update(model::Optimizer& optimizer, double grad_scale) override;
  std::vector<model::NamedTensor> State() override;
  void Reset() override;
  double loss_scale() const override { return 1.0 / (group_.size() * group_.num_hosts()); }
  bool places_values() const override { return !values_.empty(); }
  // Returns the collectives of the last step: a reduce-scatter of each bucket in each pass (micro-batch) and,
  // unless ranks share the weights, an all-gather of each bucket. Barriers are not listed.
  BucketPlan plan() const override;

  // Takes ownership of `group`, the group that the strategy was made with.
  void OwnGroup(std::unique_ptr<comm::ProcessGroup> group) { owned_group_ = std::move(group); }

 protected:
  // `plan` has the buckets in the order in which gradients are reduced, padded so that all parts of a bucket
  // have equal size. If `in_common` is true, ranks that can share memory keep one copy of the weights.
  ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common = true);
  // A derived class calls this at the end of its constructor. `own_grads` and `own_values` become the memory
  // of this rank's parts of gradients and weights, with one tensor for each bucket. If `own_values` is empty,
  // Update writes this rank's parts directly to each p.value(). SetParts makes the optimizer that updates
  // these parts, with the settings of `like`; if `like` is null, the first Update makes it with the settings
  // of Update's optimizer.
  void SetParts(std::vector<model::Tensor> own_grads, const model::Optimizer* like,
                std::vector<model::Tensor> own_values = {});
  const std::vector<model::Tensor>& own_grads() const { return own_grads_; }
  // Returns whether BeginStep has been called since the strategy was made, or since Reset. From then on
  // values_ or own_values_, if not empty, hold the current weights; the parameters' own memory does not.
  bool has_begun() const { return has_begun_; }
  // Returns the number of passes (micro-batches) that EndPass has ended in this step. EndPass is not called
  // for the last pass of a step.
  size_t num_earlier_passes() const { return num_earlier_passes_; }

  // Returns memory of the size of bucket i. Update gathers the bucket's new weights into this memory, unless
  // SetParts got `own_values` or ranks share the weights. GatherGradients gathers the bucket's gradients into
  // it. The memory of bucket i must not overlap that of bucket i - 1.
  virtual model::Tensor GatherBuffer(size_t i) = 0;
  // Called when own_values_, the parts that SetParts got, have new weights: in the first BeginStep, and after
  // each update. A derived class begins to gather the parts here, or rounds them to bf16 for later gathers.
  virtual void PublishValues() {}
  // Gathers the parts of the mean gradient with one all-gather for each bucket. Then p.grad() of every
  // parameter is whole on every rank. Strategies that keep only this rank's parts of the gradients call this
  // in CompleteGradients.
  void GatherGradients();

  int64_t part_numel(size_t i) const { return plan_.buckets[i].numel / group_.size(); }
  // Returns this rank's part of `all`, a tensor with all elements of bucket i, as a view.
  model::Tensor OwnPart(size_t i, const model::Tensor& all) const {
    return all.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

 private:
  // A part of a parameter that this rank updates.
  struct Own {
    model::Part part;
    int64_t at = 0;  // offset in this rank's part of the bucket
  };

  void MakeOptimizer(const model::Optimizer& like);
  // Copies this rank's parts of the weights from the parameters' own memory to own_values_. If no other
  // strategy trains the parameters (is_alone_), it then returns their own memory to the system (on the CPU).
  void TakeOwnValues();
  void ReleaseOwnMemory() const;
  // Copies this rank's part of bucket i's weights from p.value() of its parameters p to `own`.
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

// Makes a strategy of class S from the context. If the strategy's option of role kWithinHost is not 0
// (within=host) and there are several hosts, the ranks of each host divide among themselves what the strategy
// shards, so every host has all parts. With this option and several hosts, throws InvalidInput if the backend
// has no group of one host's ranks (ProcessGroup::host_group).
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
