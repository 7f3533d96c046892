#pragma once

#include <cstddef>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// The buckets of sharded weights; one all-gather gives every rank the whole weights of one bucket. Each of
// the first `num_in_turn` buckets has parameters of one unit (a group, such as a layer). The first bucket has
// the unit that forward reads last. Parameters that are in none of the first `num_in_turn` buckets, if there
// are any, are in one last bucket. AtAnyTime() returns the buckets after the first `num_in_turn`: one, which
// forward may read at any time, or none. Each bucket is padded to parts of equal size, one for each rank.
struct PlanOfUnits {
  BucketPlan plan;
  size_t num_in_turn = 0;

  BucketPlan InTurn() const { return {{plan.buckets.begin(), plan.buckets.begin() + Index()}}; }
  BucketPlan AtAnyTime() const { return {{plan.buckets.begin() + Index(), plan.buckets.end()}}; }

 private:
  ptrdiff_t Index() const { return static_cast<ptrdiff_t>(num_in_turn); }
};
// Returns the buckets for context.params: at most one for each unit in context.units, and at most one for all
// other parameters. If some parameters have a copy in bf16, those without a copy count as other parameters.
// If `as_one` is true, all units are merged into one unit.
PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one);

// The weights of a strategy that shards them, as in "ZeRO", stage 3 (arXiv:1910.02054, section 5.3). Each
// rank keeps one part of every bucket.
//
// A unit is a group of parameters, such as a layer. All-gathers give every rank a unit's whole weights before
// forward or backward reads the unit. The whole weights of any `window` consecutive units can be in memory at
// once. While a unit is read, the ranks already gather or have the `window` - 1 units that are read next.
class GatheredWeights {
 public:
  // `spoils` is for tests on the CPU: if true, a unit's gathered weights are overwritten with NaN before
  // their memory is reused.
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // If Complete was called after the last BeginStep, the destructor copies the weights to the parameters' own
  // memory. Otherwise the trained weights are lost.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // Returns this rank's parts of the weights, one for each bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Call PublishParts after each update of parts(). If units are gathered in bf16, PublishParts rounds the
  // f32 parts() to bf16 for the next gathers.
  void PublishParts();

  // Begins a step, and starts the gather of the parameters that are in no unit's bucket. From BeginStep until
  // Complete, each read of a parameter (Parameter::ForwardValue) waits for the gather of the parameter's
  // bucket.
  void BeginStep();
  // Begins a pass (forward and backward). In a step, Parameter::ForwardValue may be called only from
  // BeginPass until Enter(0), at the end of forward.
  void BeginPass();
  // Call Enter(0) at the end of forward; Enter(0) starts the gathers of the units that forward has not
  // gathered. With n units, call Enter(i) for i = 1, ..., n in backward, after the gradients of unit i - 1
  // are computed. If i > 0, Enter(i) may overwrite the gathered weights of unit i - 1 with another unit's
  // weights.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // Gathers the whole value of every parameter p into new memory, and makes p.value() a view of it. All ranks
  // must call Complete.
  void Complete();

  // Returns the collectives of a step of `num_passes` passes, in order: the gathers of weights and the
  // reductions of gradients. `reductions` lists the buckets of gradients in the order of reduction in one
  // pass. Bucket i of `reductions` must have the same parameters as bucket i of the weights.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Waits until bucket i, which has the parameter `param`, is gathered. For a unit, Read first starts the
  // missing gathers of this unit, units that forward skipped, and the next `window` - 1 units. Throws
  // std::logic_error outside of forward, or if forward goes back to an earlier unit.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Lets the memory of unit `left` be reused, and starts the gather of unit `next`. The value num_units_ of
  // `left` or `next` stands for no unit.
  void Replace(size_t left, size_t next);
  void Gather(size_t i);

  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const size_t num_units_, window_;
  const bool spoils_;
  // sent_parts_[i] is the bf16 copy of parts_[i] if bucket i is gathered in bf16, else parts_[i] itself.
  std::vector<model::Tensor> parts_, sent_parts_;
  std::vector<model::Tensor> buffers_;  // the gathered weights of each bucket
  std::vector<comm::Work> works_;       // the last gather of each bucket
  bool is_complete_ = false;            // true from Complete until the next BeginStep
  bool in_forward_ = false;
  size_t at_ = 0;             // number of the unit that forward reads
  size_t num_to_gather_ = 0;  // number of units that forward must still gather
};

}  // namespace gradsync::ddp
