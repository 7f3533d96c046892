#ifndef GRADSYNC_DDP_GATHERED_WEIGHTS_H_
#define GRADSYNC_DDP_GATHERED_WEIGHTS_H_

#include <cstddef>
#include <vector>

#include "ddp/bucket.h"
#include "ddp/factory.h"

namespace gradsync::ddp {

// Buckets of parts of the same size for all ranks, padded, to be reduced. Those that are read in turn hold
// the parameters of one unit (model::Model::units) each, the last unit's first: backward reads them in this
// order, forward in the reverse one. Behind them there may be one of parameters that are read at any time: of
// no unit, or without a copy in bf16 if others have one, since a bucket has one dtype.
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

// Weights of which every rank keeps a part, and which are whole only while they are needed ("ZeRO", stage 3,
// arXiv:1910.02054, section 5.3).
//
// What is read at any time is gathered once in a step. A bucket that is read in turn is gathered in forward,
// and again in backward, to the same place: an operation keeps what it has read of a weight for its
// gradients. No `window` buckets in a row have memory in common: when one is read, those up to `window` - 1
// after it are on their way. The last `window` units of forward are still there when backward begins. All
// ranks gather in the same order, whatever they read.
//
// With a copy in bf16, parts stay f32, and what is gathered is bf16.
class GatheredWeights {
 public:
  // With `spoils`, weights become NaN when they are let go (on the CPU).
  GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils, comm::ProcessGroup& group);
  // After Complete leaves the weights in memory of the parameters' own.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  // This rank's parts of the values, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // To be called when they have been written, before the next step.
  void PublishParts();

  // From now on parameters' reads bring their bucket.
  void BeginStep();
  // To be called before each pass, which is forward and backward.
  void BeginPass();
  // Backward is done with bucket i - 1, and comes to bucket i next; i may be the number of units. Called once
  // for each, in this order; Use then waits for the bucket.
  void Enter(size_t i);
  void Use(size_t i) { works_[i].Wait(); }

  // On all ranks: every parameter's value is whole, in memory that lasts until it is taken back, and no read
  // is heard.
  void Complete();

  // The collectives of a step of so many passes, in the order in which they are sent: gatherings, and these
  // reductions, each when backward is done with the bucket.
  BucketPlan PlanWith(const BucketPlan& reductions, size_t num_passes) const;

 private:
  // Before forward reads bucket i. Throws std::logic_error outside of forward, or if it has gone on to a
  // later unit.
  void Read(size_t i, const model::Parameter& param);
  void GatherThrough(size_t i);
  // Gathers bucket `next`, where bucket `left` was; either may be the number of units: none.
  void Replace(size_t left, size_t next);
  void Gather(size_t i);

  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const size_t num_units_, window_;
  const bool spoils_;
  std::vector<model::Tensor> parts_, sent_parts_;  // the same, but for buckets that are sent in bf16
  std::vector<model::Tensor> buffers_;             // by bucket
  std::vector<comm::Work> works_;                  // the last gathering of each
  bool is_complete_ = false;                       // see Complete
  bool in_forward_ = false;
  size_t at_ = 0;             // the bucket that forward reads
  size_t num_to_gather_ = 0;  // those before it are still to be gathered in forward
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_GATHERED_WEIGHTS_H_
