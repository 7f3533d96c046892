#ifndef GRADSYNC_DDP_SHARDS_H_
#define GRADSYNC_DDP_SHARDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ddp/bucket.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

// Every rank updates one part of every bucket, and keeps the optimizer's state of that part alone: "ZeRO",
// arXiv:1910.02054, section 5. Rank r has elements [r m, (r + 1) m) of a bucket of p m elements, wherever
// parameters begin and end. Then all ranks gather everyone's weights, bucket by bucket.
//
// Ranks that have memory in common (ProcessGroup::AllocateShared) keep one copy of the weights there, and
// gather nothing: they meet when all have read the old weights, and when all have written the new ones.
class Shards {
 public:
  // Of a plan's buckets, each of which is padded so that all parts have the same number of elements.
  Shards(BucketPlan plan, comm::ProcessGroup& group);
  // Leaves the weights in memory of the parameters' own.
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  // To be called in each step before forward: puts weights to where all ranks have them in common. The first
  // time, and after Reset, they are what the parameters hold.
  void PlaceValues();

  // The buckets, padded, in the order in which gradients are reduced.
  const BucketPlan& reduced() const { return reduced_; }
  // All collectives of a step, but for meetings.
  BucketPlan plan() const;
  int64_t part_numel(size_t i) const { return reduced_.buckets[i].numel / group_.size(); }
  // This rank's part of what holds bucket i.
  model::Tensor OwnPart(size_t i, const model::Tensor& storage) const {
    return storage.Slice(group_.rank() * part_numel(i), {part_numel(i)});
  }

  // Before the first of these, and the same each time: where this rank's parts of the gradients will be.
  void SetGradients(std::vector<model::Tensor> own_grads) { own_grads_ = std::move(own_grads); }
  // Makes the optimizer of this rank's parts. The first update does, unless it is there already.
  void MakeOptimizer(const model::Optimizer& like);
  // The sum of squares of all ranks' parts; one all-reduce.
  double SquaredNorm() const;
  // Updates this rank's parts, by an optimizer like that one, and brings all weights to all ranks. `wait(i)`
  // returns when this rank's part of the gradients of bucket i is there. `room(i)` is for all weights of
  // bucket i, and may be that of bucket i - 2. While weights of a bucket travel the next is updated.
  // Counts a step of `like` too, whose number of steps counts.
  void Update(model::Optimizer& like, double grad_scale, const std::function<void(size_t)>& wait,
              const std::function<model::Tensor(size_t)>& room);

  std::vector<model::NamedTensor> State() const;
  void Reset();

 private:
  bool has_common_values() const { return !values_.empty(); }

  // What this rank has of a parameter.
  struct Own {
    model::Part part;
    int64_t at = 0;  // in this rank's part of the bucket
  };

  comm::ProcessGroup& group_;
  BucketPlan reduced_;
  std::vector<std::vector<Own>> own_;  // by bucket
  std::vector<model::Tensor> values_;  // of all ranks, by bucket; empty: every rank has its own
  bool has_begun_ = false;             // values_ are this training's
  std::vector<model::Tensor> own_grads_;
  std::unique_ptr<model::Optimizer> optimizer_;  // from the first update on
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_SHARDS_H_
