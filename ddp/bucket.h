#ifndef GRADSYNC_DDP_BUCKET_H_
#define GRADSYNC_DDP_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// What lies side by side begins at multiples of this, a cache line: kernels store whole vectors, and ranks
// write lines of their own.
inline constexpr size_t kLineBytes = 64;

// Parameters whose gradients travel together. All have the same dtype.
struct Bucket {
  std::vector<model::Parameter*> params;
  std::vector<int64_t> offsets;  // element at which each parameter's gradient starts
  int64_t numel = 0;             // with padding
  // If not 0: what is sent in their stead, a message of each rank with rows of the only gradient.
  size_t messages_bytes = 0;
  // How it travels.
  comm::Collective collective = comm::Collective::kAllReduce;
  // More than one: the ranks of each of so many hosts do, as comm::HostGroup says.
  int num_hosts = 1;
  // Holds what operations read of the parameters (Parameter::ForwardValue), of which all have a copy or none.
  bool is_read = false;

  model::DType dtype() const {
    return is_read && params.front()->has_copy() ? model::DType::kBF16 : params.front()->dtype();
  }
  const model::DevicePtr& device() const { return params.front()->device(); }
  size_t bytes() const { return static_cast<size_t>(numel) * SizeOf(dtype()); }
  // The bytes of the whole vector of its collective: what an all-reduce sums, or what an all-gather brings
  // together.
  size_t sent_bytes() const { return messages_bytes > 0 ? messages_bytes : bytes(); }
  // The place of parameter i's gradient in `storage`, which holds the bucket.
  model::Tensor View(const model::Tensor& storage, size_t i) const {
    return storage.Slice(offsets[i], params[i]->shape());
  }
};

// The least that each of p ranks sends, on average, in a collective on a whole vector of so many bytes: (p -
// 1) / p of them when it is reduced to parts, gathered from parts or broadcast, and twice that for an
// all-reduce. With several hosts p is the number of ranks on one, and parts that have been reduced there are
// all-reduced between hosts.
double SentBytes(comm::Collective collective, double bytes, int world_size, int num_hosts = 1);

// What is sent together, in the order in which it is sent. A parameter whose gradient is reduced to parts,
// and whose value is gathered from parts, is in a bucket of each kind.
struct BucketPlan {
  std::vector<Bucket> buckets;

  int64_t numel() const;
  // What each of so many ranks sends at least, in all collectives.
  double SentBytes(int world_size) const;
};

// How to fill buckets.
struct BucketLimits {
  size_t bytes;        // a parameter joins the open bucket while the sum stays within this
  size_t first_bytes;  // the same for the bucket that is sent first
  // A bucket holds at most max(last_bytes, bytes of later gradients), so that later computation can hide it.
  size_t last_bytes;
  // Gradients start at multiples of this many bytes; the gap is sent along.
  size_t alignment_bytes = 1;
};

// Fills buckets greedily in the given order. A parameter larger than the limit gets a bucket of its own; a
// change of dtype starts a new bucket. Throws InvalidInput if a limit is 0.
BucketPlan PlanBuckets(std::span<model::Parameter* const> order, const BucketLimits& limits);

// One bucket for each list, of the same dtype; each parameter begins on a cache line.
BucketPlan PlanUnits(std::span<const std::vector<model::Parameter*>> units);

// The plan of gradients that may live in their buckets: each begins on a cache line, since kernels store
// whole vectors. With `small_first` the first bucket holds at most 1 MiB. With `small_last` a bucket holds at
// most max(1 MiB, bytes of later gradients).
BucketPlan PlanPlaced(std::span<model::Parameter* const> order, size_t bucket_bytes, bool small_first,
                      bool small_last);

// Adds a bucket with the parameter alone to a plan for the others of `order`: where it is ready when those
// before it are.
void InsertAlone(model::Parameter* param, size_t messages_bytes, std::span<model::Parameter* const> order,
                 BucketPlan& plan);

// One bucket for each parameter.
BucketPlan PlanSingles(std::span<model::Parameter* const> order);

// The plan of the published bucketed strategies: filled greedily in forward order, sent last bucket first,
// because backward completes the last layers first.
BucketPlan PlanReverse(std::span<model::Parameter* const> forward_order, size_t bucket_bytes);

// Takes back what was placed for a parameter (TakeBack), which keeps the value that it has.
void KeepValue(model::Parameter& param);

// These make memory where the group reduces fastest (ProcessGroup::Allocate), so every rank calls them alike.
//
// A buffer of zeros for each bucket of a plan.
std::vector<model::Tensor> MakeBuffers(const BucketPlan& plan, comm::ProcessGroup& group);
// Uninitialised bytes, as many as the largest bucket has.
model::Tensor MakeLargestBuffer(const BucketPlan& plan, comm::ProcessGroup& group);
// One buffer for all buckets of a plan, zeroed, with every bucket on a cache line; and the buckets as views
// of it. The room of a plan of PlanPlaced does not depend on its order.
model::Tensor MakeStorage(const BucketPlan& plan, comm::ProcessGroup& group);
std::vector<model::Tensor> PlaceBuffers(const BucketPlan& plan, const model::Tensor& storage);
// The buckets as views of less memory, where none has any in common with the `window` - 1 before it. A plan
// may be empty.
std::vector<model::Tensor> PlaceInTurns(const BucketPlan& plan, size_t window, comm::ProcessGroup& group);
// All buckets in memory that all ranks have in common (ProcessGroup::AllocateShared); none if they have
// none.
std::vector<model::Tensor> MakeCommonBuffers(const BucketPlan& plan, comm::ProcessGroup& group);

// Calls place(param, view) with each parameter's place in the buffers, one for each bucket.
template <class Place>
void ForEachPlace(const BucketPlan& plan, std::span<const model::Tensor> buffers, const Place& place) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    for (size_t k = 0; k < bucket.params.size(); ++k) place(*bucket.params[k], bucket.View(buffers[i], k));
  }
}
inline void PlaceGrads(const BucketPlan& plan, std::span<const model::Tensor> buffers) {
  ForEachPlace(plan, buffers, [](model::Parameter& param, model::Tensor view) { param.PlaceGrad(view); });
}

// The same for one bucket, whose gradients so far come along; and gradients are in no buffer any more.
void PlaceGrads(const Bucket& bucket, const model::Tensor& buffer);
void ReleaseGrads(const Bucket& bucket);

// Copies gradients into the bucket's buffer, and back.
void CopyIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyOut(const Bucket& bucket, const model::Tensor& buffer);
// The same with values.
void CopyValuesIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesOut(const Bucket& bucket, const model::Tensor& buffer);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_BUCKET_H_
