#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// The size of a cache line in bytes. PlanUnits and PlanPlaced start each gradient at a multiple of kLineBytes
// from the start of its bucket.
inline constexpr size_t kLineBytes = 64;

// A group of parameters whose gradients or weights one collective sends. All parameters of a bucket have one
// dtype.
struct Bucket {
  std::vector<model::Parameter*> params;
  std::vector<int64_t> offsets;  // element at which each parameter's gradient starts
  int64_t numel = 0;             // number of elements, with padding
  // messages_bytes is 0 if the collective sends the bucket's gradients or weights themselves. Otherwise
  // messages_bytes is the size in bytes of the tensor that the collective writes. If a TouchedRows object
  // sends the bucket, the tensor holds from each rank the gradient rows that may be nonzero, and their
  // indices. With the strategy topk, the tensor holds the elements that each rank sends, with indices for
  // gradients that are sent in part. With the strategy bf16_wire, the collective's tensor holds the bucket's
  // gradients in bf16.
  size_t messages_bytes = 0;
  comm::Collective collective = comm::Collective::kAllReduce;
  // `num_hosts` is 1 unless the ranks send the bucket through a comm::HostGroup. With a HostGroup, num_hosts
  // is the number of hosts, which SentBytes needs to count the bytes that ranks send. The collectives of a
  // HostGroup exchange data only between the ranks of one host, with one exception: after a reduce-scatter
  // within each host, the ranks of different hosts that have the same part of the result all-reduce this
  // part.
  int num_hosts = 1;
  // True if the bucket holds weights as operations read them (Parameter::ForwardValue): the bf16 copies if
  // the parameters have them. If is_read is true, either all parameters of the bucket have a bf16 copy, or
  // none has.
  bool is_read = false;

  model::DType dtype() const {
    return is_read && params.front()->has_copy() ? model::DType::kBF16 : params.front()->dtype();
  }
  const model::DevicePtr& device() const { return params.front()->device(); }
  size_t bytes() const { return static_cast<size_t>(numel) * SizeOf(dtype()); }
  // Returns the size in bytes of one tensor of the bucket's collective: of the output of an all-gather, or of
  // the input of another collective.
  size_t sent_bytes() const { return messages_bytes > 0 ? messages_bytes : bytes(); }
  // Returns the part of `storage`, the memory of this bucket, that belongs to params[i], as a view.
  model::Tensor View(const model::Tensor& storage, size_t i) const {
    return storage.Slice(offsets[i], params[i]->shape());
  }
};

// Returns how many bytes each rank must send at least, on average, in a collective of p ranks. p is
// world_size / num_hosts: the number of ranks of each host if num_hosts is above 1. The result is `bytes`
// times (p - 1) / p for a reduce-scatter, all-gather or broadcast, and twice as much for an all-reduce.
// `bytes` is the size of an all-gather's output on one rank, or of another collective's input. If num_hosts
// is above 1, the result for a reduce-scatter includes the all-reduce of its parts between hosts.
double SentBytes(comm::Collective collective, double bytes, int world_size, int num_hosts = 1);

// The buckets that the ranks send, in the order in which they send them. A parameter is in several buckets if
// several collectives send its gradient or its weight, such as a reduce-scatter and an all-gather.
struct BucketPlan {
  std::vector<Bucket> buckets;

  int64_t numel() const;
  // Returns how many bytes each of `world_size` ranks must send at least, on average, if every bucket is sent
  // once.
  double SentBytes(int world_size) const;
};

struct BucketLimits {
  size_t bytes;        // maximum size of a bucket of several parameters
  size_t first_bytes;  // maximum size of the first bucket, if it has several parameters
  // A bucket of several parameters has at most max(last_bytes, rest) bytes, where `rest` is the size of all
  // gradients in the buckets after it in the plan.
  size_t last_bytes;
  // Each gradient starts at a multiple of alignment_bytes, which must be a power of two, from the start of
  // its bucket. The gaps between the gradients are also sent.
  size_t alignment_bytes = 1;
};

// Puts parameters into buckets in the given order, each bucket as full as `limits` allows. If a parameter is
// larger than `limits` allows for its bucket, this bucket has no other parameter. A parameter of another
// dtype than the one before it starts a new bucket. Throws InvalidInput if a member of `limits` is 0.
BucketPlan PlanBuckets(std::span<model::Parameter* const> order, const BucketLimits& limits);

// Returns a plan with one bucket for each list of parameters in `units`. All parameters in one element of
// `units` must have the same dtype. Each gradient starts on a cache line of its bucket.
BucketPlan PlanUnits(std::span<const std::vector<model::Parameter*>> units);

// Returns a plan of PlanBuckets in which each gradient starts on a cache line of its bucket, because kernels
// that write gradients into the buckets store whole SIMD vectors. The limit of each bucket is `bucket_bytes`,
// unless `small_first` or `small_last` gives a lower limit. If `small_first` is true, the plan's first bucket
// is limited to 1 MiB. If `small_last` is true, each bucket is limited to max(1 MiB, bytes of the gradients
// in the buckets after it in the plan).
BucketPlan PlanPlaced(std::span<model::Parameter* const> order, size_t bucket_bytes, bool small_first,
                      bool small_last);

// Adds to `plan` a bucket with only `param`. The new bucket's collective is an all-gather, and its member
// Bucket::messages_bytes becomes `messages_bytes`. `order` determines the new bucket's place, and must
// contain `param` and all parameters of `plan`. The buckets must list the parameters of `plan` in the same
// order as `order`. The new bucket comes directly before the first bucket whose last parameter is after
// `param` in `order`, or, if there is none, at the end.
void InsertAlone(model::Parameter* param, size_t messages_bytes, std::span<model::Parameter* const> order,
                 BucketPlan& plan);

// Returns a plan with one bucket for each parameter.
BucketPlan PlanSingles(std::span<model::Parameter* const> order);

// Puts parameters into buckets in forward order by PlanBuckets, with `bucket_bytes` as the limit, and returns
// the buckets in reverse order: the bucket of the last layers is sent first, because backward completes its
// gradients first.
BucketPlan PlanReverse(std::span<model::Parameter* const> forward_order, size_t bucket_bytes);

// Moves the parameter's value back into the parameter's own memory (Parameter::TakeBack). If the value was in
// a bucket's buffer, copies it from there.
void KeepValue(model::Parameter& param);

// Makes each parameter of the plan use its own memory for its value again, and no longer a bucket's buffer.
// If `keeps` is true, copies the values that are in buffers to the parameters' own memory. If `keeps` is
// false, the values in buffers are lost, and each parameter has the value left in its own memory.
void TakeBackValues(const BucketPlan& plan, bool keeps);

// MakeBuffers, MakeLargestBuffer, MakeStorage and PlaceInTurns allocate memory by ProcessGroup::Allocate, so
// all ranks must call them in the same order, with equal plans. For PlaceInTurns, `window` must be equal on
// all ranks too. MakeLargestBuffer and MakeStorage need a plan with at least one bucket. MakeBuffers returns
// a zeroed buffer for each bucket.
std::vector<model::Tensor> MakeBuffers(const BucketPlan& plan, comm::ProcessGroup& group);
// Returns one uninitialised tensor of dtype u8 with the size of the plan's largest bucket, for a caller that
// sends the buckets one after the other.
model::Tensor MakeLargestBuffer(const BucketPlan& plan, comm::ProcessGroup& group);
// MakeStorage returns one zeroed tensor for all buckets of a plan. PlaceBuffers returns a view of this tensor
// for each bucket; each view starts on a cache line.
model::Tensor MakeStorage(const BucketPlan& plan, comm::ProcessGroup& group);
std::vector<model::Tensor> PlaceBuffers(const BucketPlan& plan, const model::Tensor& storage);
// Returns a buffer for each bucket; all buffers are views of one zeroed tensor. A bucket's buffer may overlap
// buffers of earlier buckets, but not those of the (window - 1) buckets directly before it. So `window`
// consecutive buckets can be in use at once. Returns no buffers if the plan has no buckets, or if no bucket
// has elements.
std::vector<model::Tensor> PlaceInTurns(const BucketPlan& plan, size_t window, comm::ProcessGroup& group);
// Returns one buffer for each bucket, in memory that all ranks of `group` share
// (ProcessGroup::AllocateShared). Returns no buffers if `group` has one rank, if its ranks cannot share
// memory (such as ranks of several hosts), or if no bucket has elements. All ranks of `group` must call
// MakeCommonBuffers, with equal plans of at least one bucket.
std::vector<model::Tensor> MakeCommonBuffers(const BucketPlan& plan, comm::ProcessGroup& group);

// Calls the caller's function place(param, view) for each parameter of each bucket. `buffers` has one buffer
// for each bucket, and `view` is the parameter's part of its bucket's buffer. If `buffers` is empty,
// ForEachPlace does nothing.
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

// PlaceGrads(bucket, buffer) copies the bucket's existing gradients into `buffer`, and makes `buffer` the
// memory of the bucket's gradients. ReleaseGrads(bucket) separates the gradients from that memory without
// copying them: the next Parameter::grad() allocates new memory with undefined contents.
void PlaceGrads(const Bucket& bucket, const model::Tensor& buffer);
void ReleaseGrads(const Bucket& bucket);

// CopyIn copies the bucket's gradients into `buffer`, and CopyOut copies them back. CopyValuesIn copies the
// parameters' values into `buffer`, and CopyValuesOut copies them back.
void CopyIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyOut(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesIn(const Bucket& bucket, const model::Tensor& buffer);
void CopyValuesOut(const Bucket& bucket, const model::Tensor& buffer);

}  // namespace gradsync::ddp
