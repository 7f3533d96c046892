#include "ddp/buckets/bucket.h"

#include <algorithm>

namespace gradsync::ddp {
namespace {

using model::Parameter;
using model::Tensor;

template <class T>
T RoundUp(T value, T step) {
  return (value + step - 1) / step * step;
}

// Returns the offset, in elements, at which the next gradient would start in the bucket.
int64_t NextOffset(const Bucket& bucket, model::DType dtype, size_t alignment_bytes) {
  return RoundUp(bucket.numel, static_cast<int64_t>(std::max<size_t>(1, alignment_bytes / SizeOf(dtype))));
}

void Append(Parameter* param, size_t alignment_bytes, Bucket& bucket) {
  const int64_t offset = NextOffset(bucket, param->dtype(), alignment_bytes);
  bucket.params.push_back(param);
  bucket.offsets.push_back(offset);
  bucket.numel = offset + param->numel();
}

// Returns whether the bucket with this parameter has at most `limit_bytes` and one dtype.
bool Fits(const Parameter& param, size_t alignment_bytes, size_t limit_bytes, const Bucket& bucket) {
  const model::DType dtype = param.dtype();
  const int64_t numel = NextOffset(bucket, dtype, alignment_bytes) + param.numel();
  return dtype == bucket.dtype() && static_cast<size_t>(numel) * SizeOf(dtype) <= limit_bytes;
}

// Returns the bytes of all buckets if each begins on a cache line.
int64_t AlignedBytes(const BucketPlan& plan) {
  size_t bytes = 0;
  for (const Bucket& bucket : plan.buckets) bytes += RoundUp(bucket.bytes(), kLineBytes);
  return static_cast<int64_t>(bytes);
}

size_t Bytes(const Parameter& param) { return static_cast<size_t>(param.numel()) * SizeOf(param.dtype()); }

Tensor MakeZeros(const BucketPlan& plan, int64_t bytes, comm::ProcessGroup& group) {
  Tensor storage = group.Allocate(plan.buckets.front().device(), {bytes}, model::DType::kU8);
  storage.Zero();
  return storage;
}

Tensor BufferAt(const Tensor& storage, size_t offset_bytes, const Bucket& bucket) {
  return storage.SliceBytes(offset_bytes, {bucket.numel}, bucket.dtype());
}

}  // namespace

int64_t BucketPlan::numel() const {
  int64_t numel = 0;
  for (const Bucket& bucket : buckets) numel += bucket.numel;
  return numel;
}

double SentBytes(comm::Collective collective, double bytes, int world_size, int num_hosts) {
  const int num_parts = world_size / num_hosts;
  const double share = bytes * (num_parts - 1) / num_parts;
  if (collective == comm::Collective::kReduceScatter && num_hosts > 1)
    return share + SentBytes(comm::Collective::kAllReduce, bytes / num_parts, num_hosts);
  return collective == comm::Collective::kAllReduce ? 2 * share : share;
}

double BucketPlan::SentBytes(int world_size) const {
  double sent = 0;
  for (const Bucket& bucket : buckets)
    sent += ddp::SentBytes(bucket.collective, static_cast<double>(bucket.sent_bytes()), world_size,
                           bucket.num_hosts);
  return sent;
}

BucketPlan PlanBuckets(std::span<Parameter* const> order, const BucketLimits& limits) {
  Require(limits.bytes > 0 && limits.first_bytes > 0 && limits.last_bytes > 0 && limits.alignment_bytes > 0,
          "bucket size is 0 bytes, expected at least 1");
  BucketPlan plan;
  size_t rest_bytes = 0;  // bytes of all parameters after parameter i
  for (const Parameter* param : order) rest_bytes += Bytes(*param);
  for (size_t i = 0; i < order.size(); ++i) {
    rest_bytes -= Bytes(*order[i]);
    const size_t limit_bytes = std::min(plan.buckets.size() <= 1 ? limits.first_bytes : limits.bytes,
                                        std::max(limits.last_bytes, rest_bytes));
    if (plan.buckets.empty() || !Fits(*order[i], limits.alignment_bytes, limit_bytes, plan.buckets.back()))
      plan.buckets.emplace_back();
    Append(order[i], limits.alignment_bytes, plan.buckets.back());
  }
  return plan;
}

BucketPlan PlanUnits(std::span<const std::vector<Parameter*>> units) {
  BucketPlan plan;
  for (const std::vector<Parameter*>& unit : units) {
    Bucket& bucket = plan.buckets.emplace_back();
    for (Parameter* const param : unit) Append(param, kLineBytes, bucket);
  }
  return plan;
}

BucketPlan PlanPlaced(std::span<Parameter* const> order, size_t bucket_bytes, bool small_first,
                      bool small_last) {
  const size_t edge_bytes = std::min(size_t{1} << 20, bucket_bytes);
  return PlanBuckets(order, {.bytes = bucket_bytes,
                             .first_bytes = small_first ? edge_bytes : bucket_bytes,
                             .last_bytes = small_last ? edge_bytes : bucket_bytes,
                             .alignment_bytes = kLineBytes});
}

void InsertAlone(Parameter* param, size_t messages_bytes, std::span<Parameter* const> order,
                 BucketPlan& plan) {
  const auto place = std::ranges::find(order, param);
  const auto later = std::ranges::find_if(plan.buckets, [&](const Bucket& bucket) {
    return std::find(place, order.end(), bucket.params.back()) != order.end();
  });
  Bucket alone;
  Append(param, 1, alone);
  alone.messages_bytes = messages_bytes;
  alone.collective = comm::Collective::kAllGather;
  plan.buckets.insert(later, alone);
}

BucketPlan PlanSingles(std::span<Parameter* const> order) {
  BucketPlan plan;
  for (Parameter* param : order) Append(param, 1, plan.buckets.emplace_back());
  return plan;
}

BucketPlan PlanReverse(std::span<Parameter* const> forward_order, size_t bucket_bytes) {
  BucketPlan plan = PlanBuckets(
      forward_order, {.bytes = bucket_bytes, .first_bytes = bucket_bytes, .last_bytes = bucket_bytes});
  std::reverse(plan.buckets.begin(), plan.buckets.end());
  return plan;
}

void KeepValue(Parameter& param) {
  const Tensor value = param.value();
  param.TakeBack();
  if (!param.value().SameStorage(value)) param.MutableValue().CopyFrom(value);
}

void TakeBackValues(const BucketPlan& plan, bool keeps) {
  for (const Bucket& bucket : plan.buckets) {
    for (Parameter* const param : bucket.params) {
      if (keeps) {
        KeepValue(*param);
      } else {
        param->TakeBack();
      }
    }
  }
}

std::vector<Tensor> MakeBuffers(const BucketPlan& plan, comm::ProcessGroup& group) {
  std::vector<Tensor> buffers;
  for (const Bucket& bucket : plan.buckets) {
    buffers.push_back(group.Allocate(bucket.device(), {bucket.numel}, bucket.dtype()));
    buffers.back().Zero();
  }
  return buffers;
}

Tensor MakeLargestBuffer(const BucketPlan& plan, comm::ProcessGroup& group) {
  size_t bytes = 0;
  for (const Bucket& bucket : plan.buckets) bytes = std::max(bytes, bucket.bytes());
  return group.Allocate(plan.buckets.front().device(), {static_cast<int64_t>(bytes)}, model::DType::kU8);
}

Tensor MakeStorage(const BucketPlan& plan, comm::ProcessGroup& group) {
  return MakeZeros(plan, AlignedBytes(plan), group);
}

std::vector<Tensor> MakeCommonBuffers(const BucketPlan& plan, comm::ProcessGroup& group) {
  const Tensor storage =
      group.AllocateShared(plan.buckets.front().device(), {AlignedBytes(plan)}, model::DType::kU8);
  return storage.defined() ? PlaceBuffers(plan, storage) : std::vector<Tensor>();
}

std::vector<Tensor> PlaceBuffers(const BucketPlan& plan, const Tensor& storage) {
  std::vector<Tensor> buffers;
  size_t offset_bytes = 0;
  for (const Bucket& bucket : plan.buckets) {
    buffers.push_back(BufferAt(storage, offset_bytes, bucket));
    offset_bytes += RoundUp(bucket.bytes(), kLineBytes);
  }
  return buffers;
}

std::vector<Tensor> PlaceInTurns(const BucketPlan& plan, size_t window, comm::ProcessGroup& group) {
  struct Place {
    size_t begin, end;
  };
  std::vector<Place> places;  // of each bucket, at the first free position
  size_t bytes = 0;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const size_t size = RoundUp(plan.buckets[i].bytes(), kLineBytes), first = i - std::min(i, window - 1);
    size_t at = 0;
    for (size_t pass = first; pass < i; ++pass) {  // Each pass moves the bucket past one overlapping bucket.
      for (size_t j = first; j < i; ++j)
        if (at < places[j].end && places[j].begin < at + size) at = places[j].end;
    }
    places.push_back({at, at + size});
    bytes = std::max(bytes, at + size);
  }
  std::vector<Tensor> buffers;
  if (bytes == 0) return buffers;
  const Tensor storage = MakeZeros(plan, static_cast<int64_t>(bytes), group);
  for (size_t i = 0; i < places.size(); ++i)
    buffers.push_back(BufferAt(storage, places[i].begin, plan.buckets[i]));
  return buffers;
}

void PlaceGrads(const Bucket& bucket, const Tensor& buffer) {
  for (size_t k = 0; k < bucket.params.size(); ++k) {
    const Tensor place = bucket.View(buffer, k);
    if (bucket.params[k]->has_grad()) place.CopyFrom(bucket.params[k]->grad());
    bucket.params[k]->PlaceGrad(place);
  }
}

void ReleaseGrads(const Bucket& bucket) {
  for (Parameter* const param : bucket.params) param->PlaceGrad({});
}

void CopyIn(const Bucket& bucket, const Tensor& buffer) {
  for (size_t i = 0; i < bucket.params.size(); ++i) bucket.View(buffer, i).CopyFrom(bucket.params[i]->grad());
}

void CopyOut(const Bucket& bucket, const Tensor& buffer) {
  for (size_t i = 0; i < bucket.params.size(); ++i) bucket.params[i]->grad().CopyFrom(bucket.View(buffer, i));
}

void CopyValuesIn(const Bucket& bucket, const Tensor& buffer) {
  for (size_t i = 0; i < bucket.params.size(); ++i)
    bucket.View(buffer, i).CopyFrom(bucket.params[i]->value());
}

void CopyValuesOut(const Bucket& bucket, const Tensor& buffer) {
  for (size_t i = 0; i < bucket.params.size(); ++i)
    bucket.params[i]->MutableValue().CopyFrom(bucket.View(buffer, i));
}

}  // namespace gradsync::ddp
