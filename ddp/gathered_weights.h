#pragma once

#include <cstddef>
#include <vector>

#include "ddp/bucket.h"
#include "ddp/factory.h"

namespace gradsync::ddp {

// Padded buckets with equal parts for all ranks, for reduce-scatters. Each bucket that is read in turn holds
// the parameters of one unit (model::Model::units), the last unit's bucket first: backward reads them in this
// order, forward in reverse. After them there may be a bucket of parameters that are read at any time:
// parameters of no unit, or without a bf16 copy if others have one, because a bucket has one dtype.
struct PlanOfUnits {
  BucketPlan plan;
  size_t num_in_turn = 0;

  BucketPlan InTurn() const { return {{plan.buckets.begin(), plan.buckets.begin() + Index()}}; }
  BucketPlan AtAnyTime() const { return {{plan.buckets.begin() + Index(), plan.buckets.end()}}; }

 private:
  ptrdiff_t Index() const { return static_cast<ptrdiff_t>(num_in_turn); }
};
// `as_one`: all units are one.
PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one);

// Weights of which every rank keeps a part. They are whole only while they are needed ("ZeRO", stage 3,
// arXiv:1910.02054, section 5.3).
//
// Parameters that are read at any time are gathered once per step. A bucket that is read in turn is gathered
// in forward, and again in backward to the same memory, because an operation keeps the weight that it has
// read for its gradients. `window` consecutive buckets share no memory: when one is read, the next `window` -
// 1 are being gathered. The last `window` units of forward are still gathered when backward begins. All ranks
// gather in one order, whatever they read.
//
// With a copy in bf16, parts are f32, and bf16 is gathered.
class GatheredWeights {
 public:
  // With `spoils`, weights become NaN when they are freed (on the CPU).
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // After Complete, leaves the weights in the parameters' own memory.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // This rank's parts of the values, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Call this after parts have been written, before the next step.
  void PublishParts();

  // From now on a read of a parameter gathers its bucket.
  void BeginStep();
  // Call this before each pass (forward and backward).
  void BeginPass();
  // Backward is done with bucket i - 1 and reaches bucket i next; i may be the number of units. Called once
  // for each i in this order; Use(i) then waits for the bucket.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // On all ranks: makes every parameter's value whole, in memory that is valid until TakeBack. Reads gather
  // nothing any more.
  void Complete();

  // The collectives of a step of `num_passes` passes, in the order in which they are sent: gathers, and
  // `reductions`, each when backward is done with its bucket.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Called before forward reads bucket i. Throws std::logic_error outside of forward, or if forward has
  // reached a later unit.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Gathers bucket `next` into the memory of bucket `left`; either may be the number of units: none.
  void Replace(size_t left, size_t next);
  void Gather(size_t i);

  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const size_t num_units_, window_;
  const bool spoils_;
  std::vector<model::Tensor> parts_, sent_parts_;  // equal, except for buckets that are sent in bf16
  std::vector<model::Tensor> buffers_;             // by bucket
  std::vector<comm::Work> works_;                  // the last gather of each
  bool is_complete_ = false;                       // see Complete
  bool in_forward_ = false;
  size_t at_ = 0;             // the bucket that forward reads
  size_t num_to_gather_ = 0;  // buckets before it are still to be gathered in forward
};

}  // namespace gradsync::ddp
