#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Gradients in a bucket, and the parts of different ranks, start on cache lines of this size: kernels store
// whole vectors, and two ranks should not write to one line.
inline constexpr size_t kLineBytes = 64;

// Parameters whose gradients are sent together. All parameters of a bucket have one dtype.
struct Bucket {
  std::vector<model::Parameter*> params;
  std::vector<int64_t> offsets;  // element at which each parameter's gradient starts
  int64_t numel = 0;             // number of elements, with padding
  // If not 0, ranks send something else than the bucket's gradients: some rows of its only gradient
  // (TouchedRows), the largest elements (`topk`) or a bf16 copy (`bf16_wire`). This is the number of bytes of
  // the collective's whole vector: the messages of all ranks, or the copy.
  size_t messages_bytes = 0;
  comm::Collective collective = comm::Collective::kAllReduce;
  // If more than 1, the number of hosts; the collective then runs within each host (comm::HostGroup).
  int num_hosts = 1;
  // True if the bucket holds weights as operations read them (Parameter::ForwardValue): the bf16 copies if
  // the parameters have them. Either all parameters of a bucket have a bf16 copy, or none has.
  bool is_read = false;

  model::DType dtype() const {
    return is_read && params.front()->has_copy() ? model::DType::kBF16 : params.front()->dtype();
  }
  const model::DevicePtr& device() const { return params.front()->device(); }
  size_t bytes() const { return static_cast<size_t>(numel) * SizeOf(dtype()); }
  // Returns the bytes of the collective's whole vector: an all-reduce's sum, or an all-gather's result.
  size_t sent_bytes() const { return messages_bytes > 0 ? messages_bytes : bytes(); }
  // Returns parameter i's gradient as a view of `storage`, the memory of this bucket.
  model::Tensor View(const model::Tensor& storage, size_t i) const {
    return storage.Slice(offsets[i], params[i]->shape());
  }
};

// Returns the least number of bytes that each of p ranks sends, on average, in a collective on a vector of
// `bytes` bytes: (p - 1) / p * bytes for a reduce-scatter, all-gather or broadcast, and 2 (p - 1) / p * bytes
// for an all-reduce. With several hosts, p is the number of ranks on one host; reduced parts are also
// all-reduced between hosts.
double SentBytes(comm::Collective collective, double bytes, int world_size, int num_hosts = 1);

// The buckets in the order in which they are sent. If gradients are reduce-scattered and weights are
// all-gathered, a parameter is in one bucket for each of the two collectives.
struct BucketPlan {
  std::vector<Bucket> buckets;

  int64_t numel() const;
  // Returns the least number of bytes that each of `world_size` ranks sends, on average, in the collectives
  // of all buckets together.
  double SentBytes(int world_size) const;
};

struct BucketLimits {
  size_t bytes;        // maximum size of a bucket
  size_t first_bytes;  // maximum size of the bucket that is sent first
  // A bucket holds at most max(last_bytes, bytes of the gradients that become ready after it), so that the
  // rest of backward can hide the sending of the bucket.
  size_t last_bytes;
  // Gradients start at multiples of this number of bytes in a bucket. The gaps are also sent.
  size_t alignment_bytes = 1;
};

// Puts parameters into buckets in the given order, each bucket as full as `limits` allows. A parameter larger
// than the limit of its bucket gets its own bucket. A parameter of another dtype than the one before it
// starts a new bucket. Limits of 0 throw InvalidInput.
BucketPlan PlanBuckets(std::span<model::Parameter* const> order, const BucketLimits& limits);

// Returns a plan with one bucket for each list of parameters. The parameters of a list have one dtype, and
// each starts on a cache line.
BucketPlan PlanUnits(std::span<const std::vector<model::Parameter*>> units);

// Returns a plan whose gradients can be stored in the buckets: each starts on a cache line, because kernels
// store whole vectors. With `small_first` the first bucket holds at most 1 MiB. With `small_last` a bucket
// holds at most max(1 MiB, bytes of the gradients that become ready after it).
BucketPlan PlanPlaced(std::span<model::Parameter* const> order, size_t bucket_bytes, bool small_first,
                      bool small_last);

// Adds a bucket with only `param`, of which ranks send rows (Bucket::messages_bytes). `plan` has the other
// parameters of `order`; the new bucket gets the position that `param` has in `order`.
void InsertAlone(model::Parameter* param, size_t messages_bytes, std::span<model::Parameter* const> order,
                 BucketPlan& plan);

// Returns a plan with one bucket for each parameter.
BucketPlan PlanSingles(std::span<model::Parameter* const> order);

// Returns a plan whose buckets are filled in forward order. The last bucket is sent first, because backward
// completes the gradients of the last layers first.
BucketPlan PlanReverse(std::span<model::Parameter* const> forward_order, size_t bucket_bytes);

// Moves a parameter's value from a bucket back to the parameter's own memory (Parameter::TakeBack).
void KeepValue(model::Parameter& param);

// Moves the values of a plan's parameters from buckets back to the parameters' own memory. If `keeps` is
// false, the values in the buckets are not copied and are lost.
void TakeBackValues(const BucketPlan& plan, bool keeps);

// The next functions allocate memory by ProcessGroup::Allocate, so all ranks must call them in the same
// order. MakeBuffers returns a zeroed buffer for each bucket.
std::vector<model::Tensor> MakeBuffers(const BucketPlan& plan, comm::ProcessGroup& group);
// Returns one uninitialised tensor of bytes, as large as the plan's largest bucket.
model::Tensor MakeLargestBuffer(const BucketPlan& plan, comm::ProcessGroup& group);
// MakeStorage returns one zeroed buffer for all buckets of a plan, and PlaceBuffers returns the buckets as
// views of it, each on a cache line. For a plan of PlanPlaced, the buffer's size does not depend on the order
// of parameters.
model::Tensor MakeStorage(const BucketPlan& plan, comm::ProcessGroup& group);
std::vector<model::Tensor> PlaceBuffers(const BucketPlan& plan, const model::Tensor& storage);
// Returns a buffer for each bucket: a view of one zeroed tensor that is no larger than all buckets together.
// A bucket's memory may overlap that of earlier buckets, but not of the `window` - 1 buckets directly before
// it. The plan may be empty.
std::vector<model::Tensor> PlaceInTurns(const BucketPlan& plan, size_t window, comm::ProcessGroup& group);
// Returns one buffer for each bucket, in memory that all ranks share (ProcessGroup::AllocateShared); no
// buffers if the ranks share no memory.
std::vector<model::Tensor> MakeCommonBuffers(const BucketPlan& plan, comm::ProcessGroup& group);

// Calls place(param, view) for each parameter of the plan with its view of the buffers, one for each bucket.
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

// PlaceGrads moves the gradients of one bucket into `buffer`. ReleaseGrads lets the bucket's gradients leave
// the buffer for new memory, with undefined contents.
void PlaceGrads(const Bucket& bucket, const model::Tensor& buffer);
void ReleaseGrads(const Bucket& bucket);

// CopyIn and CopyOut copy gradients into the bucket's buffer and back. CopyValuesIn and CopyValuesOut do the
// same with the parameters' values.
void CopyIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyOut(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesOut(const Bucket& bucket, const model::Tensor& buffer);

}  // namespace gradsync::ddp
