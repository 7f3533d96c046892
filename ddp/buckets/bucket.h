#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Data of different parameters or ranks start on different cache lines, because kernels store whole vectors,
// and because two ranks should not write to one line.
inline constexpr size_t kLineBytes = 64;

// A bucket is a group of parameters whose gradients are sent together. All parameters of a bucket have one
// dtype.
struct Bucket {
  std::vector<model::Parameter*> params;
  std::vector<int64_t> offsets;  // element at which each parameter's gradient starts
  int64_t numel = 0;             // number of elements, with padding
  // If not 0, the bucket sends this number of bytes instead of gradients: one message per rank, with rows of
  // the bucket's only gradient.
  size_t messages_bytes = 0;
  // The collective that sends the bucket.
  comm::Collective collective = comm::Collective::kAllReduce;
  // If more than 1, this is the number of hosts, and the collective runs within each host (comm::HostGroup).
  int num_hosts = 1;
  // True if the bucket holds the tensors that operations read (Parameter::ForwardValue). Either all
  // parameters of a bucket have a bf16 copy that operations read (Parameter::has_copy), or none has.
  bool is_read = false;

  model::DType dtype() const {
    return is_read && params.front()->has_copy() ? model::DType::kBF16 : params.front()->dtype();
  }
  const model::DevicePtr& device() const { return params.front()->device(); }
  size_t bytes() const { return static_cast<size_t>(numel) * SizeOf(dtype()); }
  // Returns the bytes of the whole vector of the collective: the sum of an all-reduce, or the result of an
  // all-gather.
  size_t sent_bytes() const { return messages_bytes > 0 ? messages_bytes : bytes(); }
  // Returns a view of parameter i's gradient in `storage`, which holds the bucket.
  model::Tensor View(const model::Tensor& storage, size_t i) const {
    return storage.Slice(offsets[i], params[i]->shape());
  }
};

// Returns the least number of bytes that each of p ranks sends, on average, in a collective on a vector of
// `bytes` bytes: (p - 1) / p * bytes for a reduce-scatter, all-gather or broadcast, and 2 (p - 1) / p * bytes
// for an all-reduce. With several hosts, p is the number of ranks on one host, and each reduced part is also
// all-reduced between hosts.
double SentBytes(comm::Collective collective, double bytes, int world_size, int num_hosts = 1);

// A plan lists the buckets in the order in which they are sent. If a parameter's gradient is reduced to
// parts, and its value is gathered from parts, the parameter is in one bucket for each of the two
// collectives.
struct BucketPlan {
  std::vector<Bucket> buckets;

  int64_t numel() const;
  // Returns the least number of bytes that each of `world_size` ranks sends in all collectives of the plan.
  double SentBytes(int world_size) const;
};

// Limits for filling buckets.
struct BucketLimits {
  size_t bytes;        // maximum size of a bucket
  size_t first_bytes;  // maximum size of the bucket that is sent first
  // A bucket holds at most max(last_bytes, bytes of later gradients), so that later computation can hide it.
  size_t last_bytes;
  // Gradients start at multiples of this number of bytes. The gaps between gradients are also sent.
  size_t alignment_bytes = 1;
};

// Fills buckets greedily in the given order. A parameter larger than the limit gets its own bucket; a change
// of dtype starts a new bucket. Throws InvalidInput if a limit is 0.
BucketPlan PlanBuckets(std::span<model::Parameter* const> order, const BucketLimits& limits);

// Returns a plan with one bucket for each list of parameters. The parameters of a list have one dtype, and
// each parameter starts on a cache line.
BucketPlan PlanUnits(std::span<const std::vector<model::Parameter*>> units);

// Returns a plan for gradients that may be stored in their buckets. Each gradient starts on a cache line,
// because kernels store whole vectors. With `small_first` the first bucket holds at most 1 MiB. With
// `small_last` a bucket holds at most max(1 MiB, bytes of later gradients).
BucketPlan PlanPlaced(std::span<model::Parameter* const> order, size_t bucket_bytes, bool small_first,
                      bool small_last);

// Adds a bucket to a plan for the other parameters of `order`. The new bucket has only `param`. The bucket's
// position follows the order in which gradients become ready.
void InsertAlone(model::Parameter* param, size_t messages_bytes, std::span<model::Parameter* const> order,
                 BucketPlan& plan);

// Returns a plan with one bucket for each parameter.
BucketPlan PlanSingles(std::span<model::Parameter* const> order);

// Returns the plan of the published bucketed strategies: buckets are filled greedily in forward order, and
// the last bucket is sent first, because backward completes the last layers first.
BucketPlan PlanReverse(std::span<model::Parameter* const> forward_order, size_t bucket_bytes);

// Undoes PlaceValue and similar calls (TakeBack). The parameter keeps its value.
void KeepValue(model::Parameter& param);

// Undoes PlaceValue and similar calls for all parameters of a plan. They keep their values only if `keeps`.
void TakeBackValues(const BucketPlan& plan, bool keeps);

// These functions allocate memory that the group reduces fastest (ProcessGroup::Allocate), so every rank must
// make equal calls in one order.
std::vector<model::Tensor> MakeBuffers(const BucketPlan& plan, comm::ProcessGroup& group);
// Returns uninitialised memory of the size of the largest bucket.
model::Tensor MakeLargestBuffer(const BucketPlan& plan, comm::ProcessGroup& group);
// MakeStorage returns one zeroed buffer for all buckets of a plan; every bucket starts on a cache line.
// Another function returns the buckets as views of this buffer. The size of the buffer for a plan of
// PlanPlaced does not depend on the order of the parameters.
model::Tensor MakeStorage(const BucketPlan& plan, comm::ProcessGroup& group);
std::vector<model::Tensor> PlaceBuffers(const BucketPlan& plan, const model::Tensor& storage);
// Returns the buckets as views of a smaller buffer: a bucket shares no memory with the `window` - 1 previous
// buckets. The plan may be empty.
std::vector<model::Tensor> PlaceInTurns(const BucketPlan& plan, size_t window, comm::ProcessGroup& group);
// Returns one buffer per bucket in memory that all ranks share (ProcessGroup::AllocateShared), and no buffers
// if the ranks share no memory.
std::vector<model::Tensor> MakeCommonBuffers(const BucketPlan& plan, comm::ProcessGroup& group);

// Calls place(param, view) with each parameter's view of the buffers, one buffer for each bucket.
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

// PlaceGrads moves the gradients of one bucket to the buffer. ReleaseGrads moves gradients out of all
// buffers.
void PlaceGrads(const Bucket& bucket, const model::Tensor& buffer);
void ReleaseGrads(const Bucket& bucket);

// Copies gradients into the bucket's buffer, and back.
void CopyIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyOut(const Bucket& bucket, const model::Tensor& buffer);
// Copies values into the bucket's buffer, and back.
void CopyValuesIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesOut(const Bucket& bucket, const model::Tensor& buffer);

}  // namespace gradsync::ddp
