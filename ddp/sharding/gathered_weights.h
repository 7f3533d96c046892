#pragma once

#include <cstddef>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// A plan for sharded weights: every bucket is padded so that each rank has a part of equal size. The first
// buckets hold the parameters of one unit each (StrategyContext::units), the last unit first: backward reads
// them in this order, and forward in reverse order. One more bucket may follow. It holds the parameters that
// forward may read at any time: those of no unit. If some parameters have a bf16 copy, it also holds those
// without one.
struct PlanOfUnits {
  BucketPlan plan;
  size_t num_in_turn = 0;

  BucketPlan InTurn() const { return {{plan.buckets.begin(), plan.buckets.begin() + Index()}}; }
  BucketPlan AtAnyTime() const { return {{plan.buckets.begin() + Index(), plan.buckets.end()}}; }

 private:
  ptrdiff_t Index() const { return static_cast<ptrdiff_t>(num_in_turn); }
};
// If `as_one` is true, all units (groups of parameters that are gathered together) become one unit.
PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one);

// Sharded weights: every rank keeps one part, and whole weights are gathered only while they are needed
// ("ZeRO", stage 3, arXiv:1910.02054, section 5.3).
//
// The weights of a unit are gathered in forward, and again in backward, because an operation reads its weight
// again to compute gradients. Units share memory, except that `window` consecutive units do not: while one is
// read, the next `window` - 1 units are being gathered. The last `window` units of forward stay gathered for
// backward. The order of gathers is equal on all ranks and does not depend on what a rank reads. The
// parameters that are in no unit of the plan (PlanOfUnits::AtAnyTime) are gathered once per step.
//
// If parameters have bf16 copies, parts are f32. The gathered weights of units are then bf16, and those of
// PlanOfUnits::AtAnyTime are f32.
class GatheredWeights {
 public:
  // If `spoils` is true, weights become NaN when they are freed (on the CPU).
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // If Complete has been called, leaves the weights in the parameters' own memory; else they are lost.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // Returns this rank's parts of the values, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Call this after each update of parts(), before the next step. If the gathered weights are bf16, it rounds
  // the f32 parts() to separate bf16 parts, which the gathers send; otherwise it does nothing.
  void PublishParts();

  // Begins a step: from now on, a read of a parameter waits for the gather of its bucket.
  void BeginStep();
  // Begins a pass (forward and backward): until backward begins, reads of parameters are allowed. Forward
  // then gathers each unit anew.
  void BeginPass();
  // Call this in backward for i = 0, 1, ... up to the number of units, when backward has finished with bucket
  // i - 1 and will next read bucket i. If i > 0, it frees bucket i - 1 and starts the gather of a later
  // bucket. Then Use(i) waits for the weights of bucket i.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // Gathers the whole value of every parameter into new memory, and makes p.value() a view of it until
  // Parameter::TakeBack. Later reads gather nothing, until BeginStep. All ranks must call this.
  void Complete();

  // Returns the collectives of a step of `num_passes` passes, in order: the gathers, and in backward the
  // buckets of `reductions`. The strategy reduces each of these when backward has finished with it.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Called before forward reads a parameter of bucket i. Throws std::logic_error outside of forward, or if
  // forward has already reached a later unit.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Frees the memory of bucket `left`, and then starts to gather bucket `next`. If `left` or `next` equals
  // the number of units, it stands for no bucket, and its half of the work is left out.
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
