#pragma once

#include <cstddef>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// A plan of padded buckets, with parts of equal size for all ranks, for reduce-scatters. The first buckets
// hold the parameters of one unit each (model::Model::units), beginning with the last unit. Backward reads
// these buckets in this order, and forward in reverse order. One more bucket may follow, for parameters that
// are read at any time. These are parameters of no unit, and, because a bucket has one dtype, parameters
// without a bf16 copy if other parameters have a bf16 copy.
struct PlanOfUnits {
  BucketPlan plan;
  size_t num_in_turn = 0;

  BucketPlan InTurn() const { return {{plan.buckets.begin(), plan.buckets.begin() + Index()}}; }
  BucketPlan AtAnyTime() const { return {{plan.buckets.begin() + Index(), plan.buckets.end()}}; }

 private:
  ptrdiff_t Index() const { return static_cast<ptrdiff_t>(num_in_turn); }
};
// If `as_one` is true, all units are combined into one unit.
PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one);

// Weights of which every rank keeps one part. Weights are gathered only while they are needed ("ZeRO", stage
// 3, arXiv:1910.02054, section 5.3).
//
// Parameters that are read at any time are gathered once per step. A bucket of a unit is gathered in forward,
// and gathered to the same memory again in backward, because an operation reads its weight again to compute
// gradients. `window` consecutive buckets share no memory: while one bucket is read, the next `window` - 1
// buckets are being gathered. The last `window` units of forward are still gathered when backward begins. The
// order of gathers is equal on all ranks and does not depend on what a rank reads.
//
// If parameters have bf16 copies, parts are f32, and the gathered weights are bf16.
class GatheredWeights {
 public:
  // If `spoils` is true, weights become NaN when they are freed (on the CPU).
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // After Complete, leaves the weights in the parameters' own memory.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // Returns this rank's parts of the values, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Call this after parts have been written, before the next step.
  void PublishParts();

  // Begins a step: a read of a parameter now gathers the bucket of this parameter.
  void BeginStep();
  // Call this before each pass (forward and backward).
  void BeginPass();
  // Call this when backward has finished with bucket i - 1 and will read bucket i next, once for each i in
  // increasing order. i may be the number of units. After this call, Use(i) waits for bucket i.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // Gathers the whole value of every parameter, into memory that is valid until TakeBack. All ranks must call
  // this function. Later reads gather nothing.
  void Complete();

  // Returns the collectives of a step of `num_passes` passes, in the order in which they are sent: gathers,
  // and `reductions`, each of which is sent when backward has finished with its bucket.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Called before forward reads bucket i. Throws std::logic_error outside of forward, or if forward has
  // reached a later unit.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Gathers bucket `next` into the memory of bucket `left`. If an argument is the number of units, it means
  // no bucket.
  void Replace(size_t left, size_t next);
  void Gather(size_t i);

  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const size_t num_units_, window_;
  const bool spoils_;
  // parts_ and sent_parts_ differ only for buckets that are sent in bf16
  std::vector<model::Tensor> parts_, sent_parts_;
  std::vector<model::Tensor> buffers_;  // by bucket
  std::vector<comm::Work> works_;       // the last gather of each bucket
  bool is_complete_ = false;            // see Complete
  bool in_forward_ = false;
  size_t at_ = 0;             // the bucket that forward reads
  size_t num_to_gather_ = 0;  // number of buckets that forward must still gather
};

}  // namespace gradsync::ddp
