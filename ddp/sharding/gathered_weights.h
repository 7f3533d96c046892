#pragma once

#include <cstddef>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// The buckets of sharded weights: one all-gather gives every rank the whole weights of one bucket. Every
// bucket is padded so that all ranks have parts of equal size. The first `num_in_turn` buckets hold the
// parameters of one unit each (StrategyContext::units), the last unit first: backward reads them in this
// order, and forward in reverse order. One more bucket may follow, which AtAnyTime() returns. This bucket
// holds the parameters that are in no unit, because forward may read these parameters at any time. If some
// parameters have a bf16 copy, this bucket also holds all parameters without a copy, even those of units.
struct PlanOfUnits {
  BucketPlan plan;
  size_t num_in_turn = 0;

  BucketPlan InTurn() const { return {{plan.buckets.begin(), plan.buckets.begin() + Index()}}; }
  BucketPlan AtAnyTime() const { return {{plan.buckets.begin() + Index(), plan.buckets.end()}}; }

 private:
  ptrdiff_t Index() const { return static_cast<ptrdiff_t>(num_in_turn); }
};
// Returns the buckets for `context`: one bucket for each of context.units, and one for the parameters of
// context.params that are in no unit. If `as_one` is true, all units (groups of parameters that are gathered
// together) become one unit.
PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one);

// The weights of a strategy that shards them: every rank keeps one part of each bucket, and gathers a
// bucket's whole weights before they are read ("ZeRO", stage 3, arXiv:1910.02054, section 5.3).
//
// A unit is a group of parameters, such as a layer. In forward, every unit is gathered before it is read. The
// last `window` units of forward stay gathered for backward. Backward gathers each earlier unit of forward
// again, because operations read their weights again to compute gradients. The gathered weights of any
// `window` consecutive units do not overlap in memory. Two units whose numbers differ by `window` or more may
// use the same memory. While forward or backward reads a unit, ranks already gather the `window` - 1 units
// that it reads next. The order of gathers is equal on all ranks and does not depend on what a rank reads.
// Once per step, BeginStep gathers the bucket of the parameters that are in no unit (PlanOfUnits::AtAnyTime).
//
// If parameters have bf16 copies, each rank keeps its parts of the weights (parts()) in f32. With bf16
// copies, the gathered weights of units are bf16, and those of the bucket outside all units
// (PlanOfUnits::AtAnyTime) are f32.
class GatheredWeights {
 public:
  // `spoils` is for tests on the CPU: if true, GatheredWeights overwrites a unit's gathered weights with NaN
  // before the memory of these weights is reused for another unit.
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // If Complete has gathered all weights since the last BeginStep, the destructor copies them to the
  // parameters' own memory. Otherwise the destructor discards the trained weights.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // Returns this rank's parts of the weights, one for each bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Call PublishParts after each update of parts(), before the next step. If the gathered weights are bf16,
  // PublishParts writes bf16 copies of the f32 parts(), which the gathers send. Otherwise PublishParts does
  // nothing.
  void PublishParts();

  // Begins a step: starts to gather the bucket of the parameters outside all units (PlanOfUnits::AtAnyTime).
  // After BeginStep, a read of a parameter (Parameter::ForwardValue) waits for the gather of its bucket.
  void BeginStep();
  // Begins a pass (forward and backward), whose forward gathers each unit anew. Parameter::ForwardValue may
  // be called only in forward, which ends with the call Enter(0).
  void BeginPass();
  // Enter(i) says that backward has computed the gradients of bucket i - 1, and will read bucket i next. With
  // n units, in the buckets 0 to n - 1, call Enter(0), Enter(1), ..., Enter(n) in backward. Enter(0) ends
  // forward. For i > 0, Enter(i) lets other units use the memory of bucket i - 1, and then starts the gather
  // of bucket i + window - 1, if this number is below n. Use(i) waits until the weights of bucket i are
  // gathered.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // Gathers the whole value of every parameter p into new memory, and makes p.value() a view of it. Until the
  // next BeginStep, reads of parameters do not wait for gathers. All ranks must call Complete.
  void Complete();

  // Returns the collectives of a step of `num_passes` passes, in order: the gathers of weights and the
  // reductions of gradients. `reductions` lists the buckets of gradients that the strategy reduces in one
  // pass, in the order of reduction. Bucket i of `reductions` must have the gradients of the parameters in
  // bucket i of the weights.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Parameter::ForwardValue calls Read before it reads `param`, which is in bucket i. If bucket i holds a
  // unit, Read first starts all gathers that have not begun, up to the unit that is `window` - 1 units later
  // in forward order. In every case, Read then waits until the weights of bucket i are gathered. Read throws
  // std::logic_error outside of forward. Forward must read units in decreasing order of i: Read also throws
  // std::logic_error if forward has already read a unit with a smaller i.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Lets other units use the memory of unit `left`'s gathered weights, and then starts the all-gather of the
  // weights of unit `next`. If `left` is the number of units, no memory is given to other units. If `next` is
  // the number of units, nothing is gathered.
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
