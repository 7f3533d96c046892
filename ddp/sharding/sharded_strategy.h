#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Prepares `bucket` for a reduce-scatter over the ranks of `group`: rounds its number of elements up to a
// multiple of the number of ranks, so that all ranks have parts of equal size.
void PadToParts(const comm::ProcessGroup& group, Bucket& bucket);
// Packs the parameters into buckets, in the reverse of their order in forward, and pads the buckets so that
// all ranks have parts of equal size. The list traits.options must contain kSmallFirst and kSmallLast, which
// limit the sizes of the first and last buckets.
BucketPlan PlanParts(const Traits& traits, const StrategyContext& context);

// The base class of strategies for gradient synchronisation in which each rank updates one part of every
// bucket of parameters, and keeps the optimizer's state for this part only: "ZeRO", arXiv:1910.02054, section
// 5. If p ranks have parts of m elements, the bucket has p m elements, and rank r's part has the elements
// from r m to (r + 1) m - 1; a parameter may lie in several parts. A reduce-scatter of each bucket gives each
// rank its part of the gradients, summed over the ranks. This sum is the mean gradient, because the caller
// multiplies the loss by loss_scale(), which is 1 / (number of ranks). Unless ranks keep one common copy of
// the weights in shared memory, all-gathers in Update or in the next step give every rank the updated weights
// of all parts. The parameters are in the same buckets in all steps, because the optimizer's state of an
// element cannot move to another rank.
//
// If the constructor's argument `in_common` is true, and the ranks can share memory
// (ProcessGroup::AllocateShared), the ranks keep one common copy of the weights in shared memory, and gather
// no weights. With a common copy, Update waits until no rank reads the old weights any more, and writes this
// rank's part of the new weights. Update then waits until all ranks have written their parts.
//
// MakeSharded can make a strategy that divides each bucket among the ranks of a host, and not among all
// ranks: `group_` is then a comm::HostGroup of this host's ranks, and every host has all parts of the weights
// ("MiCS", arXiv:2205.00119; PyTorch's hybrid sharding). A reduce-scatter within each host reduces the
// gradients, and an all-reduce then adds each part of the gradients over the hosts. No weights are sent
// between hosts, because the ranks of each host together have all parts of the weights.
class ShardedStrategy : public OverlappedBuckets {
 public:
  // The destructor copies weights that are in memory shared by ranks to the parameters' own memory, but no
  // weights that are in own_values_.
  ~ShardedStrategy() override;

  void BeginStep() override;
  // Ends a pass (micro-batch) of the step: waits until the pass's gradients are reduced, and begins the next
  // pass.
  void EndPass() override;
  // Returns the sum of the squares of the mean gradient of all parameters, whatever `params` is: sums the
  // squares of this rank's parts, and adds these sums over the ranks of `group_` with one all-reduce.
  double SquaredNorm(std::span<model::Parameter* const> params) override;
  void Update(model::Optimizer& optimizer, double grad_scale) override;
  std::vector<model::NamedTensor> State() override;
  void Reset() override;
  double loss_scale() const override { return 1.0 / (group_.size() * group_.num_hosts()); }
  bool places_values() const override { return !values_.empty(); }
  // Returns the collectives of the last step: one reduce-scatter of each bucket in each pass (micro-batch),
  // and one all-gather of each bucket after the last pass. If needs_every_pass() is false, only the last pass
  // has reduce-scatters. If ranks keep a common copy of the weights, there are no all-gathers.
  BucketPlan plan() const override;

  // Makes this object the owner of `group`, the process group to which the constructor got a reference.
  void OwnGroup(std::unique_ptr<comm::ProcessGroup> group) { owned_group_ = std::move(group); }

 protected:
  // The argument `plan` lists the buckets in the order in which gradients are reduced. The caller must have
  // padded each bucket by PadToParts, so that it has one part of equal size for each rank. If `in_common` is
  // true, ranks that can share memory keep one common copy of the weights in shared memory.
  ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common = true);
  // Each direct subclass of ShardedStrategy must call SetParts at the end of its constructor. The strategy
  // keeps this rank's parts of the gradients in the tensors of the argument `own_grads`, one for each bucket.
  // The tensors of the argument `own_values`, also one for each bucket, hold this rank's parts of the
  // weights. If `own_values` is empty, Update writes this rank's parts of the new weights directly to the
  // parameters' values. SetParts makes the optimizer that updates this rank's parts, with the settings of the
  // optimizer `like`; if `like` is null, the first Update makes that optimizer, with the settings of Update's
  // argument `optimizer`.
  void SetParts(std::vector<model::Tensor> own_grads, const model::Optimizer* like,
                std::vector<model::Tensor> own_values = {});
  const std::vector<model::Tensor>& own_grads() const { return own_grads_; }
  // Returns whether BeginStep has been called since the constructor or the last Reset. After BeginStep, the
  // current weights may be outside the parameters' own memory: in values_ (the ranks' common copy) or in
  // own_values_ (this rank's parts). If is_alone_ is true and own_values_ is not empty, own_values_ has the
  // current weights from SetParts until Reset.
  bool has_begun() const { return has_begun_; }
  // Returns the number of passes (micro-batches) that EndPass has ended in this step. The caller does not
  // call EndPass for the last pass of a step.
  size_t num_earlier_passes() const { return num_earlier_passes_; }

  // Returns a tensor that has as many elements as bucket i. Update gathers the bucket's new weights into this
  // tensor, unless SetParts was called with a list `own_values` that is not empty, or ranks keep one common
  // copy of the weights in shared memory. GatherGradients gathers the bucket's mean gradient into
  // GatherBuffer(i): each rank contributes its part, own_grads()[i]. GatherBuffer(i) and GatherBuffer(i - 1)
  // must not overlap, because Update copies weights out of GatherBuffer(i - 1) while it gathers weights into
  // GatherBuffer(i).
  virtual model::Tensor GatherBuffer(size_t i) = 0;
  // Unless own_values_ is empty, ShardedStrategy calls PublishValues in each Update, and in the first
  // BeginStep after the constructor or Reset. PlacedParts::PublishValues begins all-gathers of own_values_.
  // ShardedUnits::PublishValues rounds own_values_ to bf16 for the buckets whose all-gathers send bf16.
  virtual void PublishValues() {}
  // Gathers the mean gradient from the parts of all ranks with one all-gather for each bucket. When
  // GatherGradients returns, p.grad() of every parameter p is the whole gradient on every rank. Strategies in
  // which a rank keeps only its parts of the gradients call GatherGradients in CompleteGradients.
  void GatherGradients();

  int64_t part_numel(size_t i) const { return plan_.buckets[i].numel / group_.size(); }
  // Returns this rank's part of `all`, a tensor with all elements of bucket i, as a view.
  model::Tensor OwnPart(size_t i, const model::Tensor& all) const {
    return all.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

 private:
  // Consecutive elements of one parameter that this rank updates.
  struct Own {
    model::Part part;
    int64_t at = 0;  // offset in this rank's part of the bucket
  };

  void MakeOptimizer(const model::Optimizer& like);
  // Copies this rank's parts of the weights from the parameters' own memory to own_values_, the memory for
  // these parts. If no other strategy trains the parameters (is_alone_), and they are on the CPU,
  // TakeOwnValues then lets the operating system reuse the pages of the parameters' own memory, which stays
  // mapped (MADV_DONTNEED).
  void TakeOwnValues();
  void ReleaseOwnMemory() const;
  // Copies this rank's part of bucket i's weights from the values of the bucket's parameters to `own`.
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

// Makes a strategy of class S from the context. If the option within=host (Option::Role::kWithinHost) is set
// and there are several hosts, the ranks of each host divide what the strategy shards, so every host has all
// parts. With within=host and several hosts, MakeSharded throws InvalidInput unless the backend is
// hierarchical and each host has several ranks (ProcessGroup::host_group).
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
