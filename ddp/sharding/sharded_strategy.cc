#include "ddp/sharding/sharded_strategy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;
using model::Tensor;

// Returns whole pages to the system. These pages are zero at their next use.
void GiveBack(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.device()->is_cpu()) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.raw_data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + tensor.nbytes()) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace

void PadToParts(const comm::ProcessGroup& group, Bucket& bucket) {
  bucket.collective = comm::Collective::kReduceScatter;
  bucket.num_hosts = group.num_hosts();
  bucket.numel = (bucket.numel + group.size() - 1) / group.size() * group.size();
}

BucketPlan PlanParts(const Traits& traits, const StrategyContext& context) {
  BucketPlan plan =
      PlanPlaced(std::vector(context.params.rbegin(), context.params.rend()), context.options.bucket_bytes,
                 ValueOf(traits, kSmallFirst.name, context.options) != 0,
                 ValueOf(traits, kSmallLast.name, context.options) != 0);
  for (Bucket& bucket : plan.buckets) PadToParts(context.group, bucket);
  return plan;
}

ShardedStrategy::ShardedStrategy(BucketPlan plan, const StrategyContext& context, bool in_common)
    : OverlappedBuckets(context.group, std::move(plan)),
      values_(in_common ? MakeCommonBuffers(plan_, group_) : std::vector<Tensor>()),
      is_alone_(context.options.is_alone) {
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    const int64_t begin = group_.rank() * part_numel(i), end = begin + part_numel(i);
    std::vector<Own>& own = own_.emplace_back();
    for (size_t k = 0; k < bucket.params.size(); ++k) {
      Parameter* const param = bucket.params[k];
      const int64_t at = bucket.offsets[k];
      const int64_t first = std::clamp(begin - at, int64_t{0}, param->numel());
      const int64_t last = std::clamp(end - at, int64_t{0}, param->numel());
      if (first < last) own.push_back({{param, first, last}, at + first - begin});
    }
  }
}

// No rank writes to values_ before this rank begins another step.
ShardedStrategy::~ShardedStrategy() {
  ForEachPlace(plan_, values_, [](Parameter& param, const Tensor& common) {
    if (param.value().SameStorage(common)) KeepValue(param);
  });
}

BucketPlan ShardedStrategy::plan() const {
  BucketPlan all;
  for (size_t pass = 0; pass <= num_earlier_passes_; ++pass)
    all.buckets.insert(all.buckets.end(), plan_.buckets.begin(), plan_.buckets.end());
  if (!values_.empty()) return all;
  for (Bucket bucket : plan_.buckets) {
    bucket.collective = comm::Collective::kAllGather;
    all.buckets.push_back(std::move(bucket));
  }
  return all;
}

void ShardedStrategy::SetParts(std::vector<Tensor> own_grads, const model::Optimizer* like,
                               std::vector<Tensor> own_values) {
  own_grads_ = std::move(own_grads);
  own_values_ = std::move(own_values);
  // The parameters' own memory can then be used for the optimizer's state.
  if (is_alone_ && !own_values_.empty()) TakeOwnValues();
  if (like != nullptr) MakeOptimizer(*like);
}

void ShardedStrategy::MakeOptimizer(const model::Optimizer& like) {
  std::vector<model::Part> parts;
  for (size_t i = 0; i < own_.size(); ++i) {
    for (const auto& [part, at] : own_[i]) {
      const model::Shape shape = {part.end - part.begin};
      parts.push_back({part.param, part.begin, part.end, own_grads_[i].Slice(at, shape),
                       own_values_.empty() ? Tensor() : own_values_[i].Slice(at, shape)});
    }
  }
  optimizer_ = like.ForParts(std::move(parts));
  optimizer_->State();  // Allocates the state now, and not from memory that the first step has just returned.
}

void ShardedStrategy::CopyOwnValues(size_t i, const Tensor& own) const {
  for (const auto& [part, at] : own_[i]) {
    const int64_t numel = part.end - part.begin;
    const Tensor from = part.param->value().Slice(part.begin, {numel});
    const Tensor to = own.Slice(at, {numel});
    if (!from.SameStorage(to)) to.CopyFrom(from);
  }
}

void ShardedStrategy::BeginStep() {
  num_earlier_passes_ = 0;
  OverlappedBuckets::BeginStep();
  if (!has_begun_ && !values_.empty()) {
    group_.Barrier();  // No rank reads values of the last training in values_.
    for (size_t i = 0; i < values_.size(); ++i) CopyOwnValues(i, OwnPart(i, values_[i]));
    group_.Barrier();
    ReleaseOwnMemory();
  } else if (!has_begun_ && !own_values_.empty()) {
    if (!has_taken_) TakeOwnValues();
    PublishValues();
  }
  has_begun_ = true;
  ForEachPlace(plan_, values_, [](Parameter& param, const Tensor& common) { param.PlaceValue(common); });
}

void ShardedStrategy::TakeOwnValues() {
  for (size_t i = 0; i < own_values_.size(); ++i) {
    for (Parameter* const param : plan_.buckets[i].params) param->TakeBack();
    CopyOwnValues(i, own_values_[i]);
  }
  ReleaseOwnMemory();
  has_taken_ = true;
}

void ShardedStrategy::ReleaseOwnMemory() const {
  for (const Bucket& bucket : plan_.buckets) {
    for (Parameter* const param : bucket.params) {
      if (!is_alone_ || param->own_bytes() == 0) continue;
      const Parameter::Update own = param->BeginUpdate();
      GiveBack(own.value);
      GiveBack(own.copy);
    }
  }
}

void ShardedStrategy::EndPass() {
  ReceiveAll();
  ++num_earlier_passes_;
  for (const Bucket& bucket : plan_.buckets) {
    for (Parameter* const param : bucket.params) param->ResetGrad();
  }
  OverlappedBuckets::BeginStep();
}

double ShardedStrategy::SquaredNorm(std::span<Parameter* const> /*params*/) {
  ReceiveAll();
  std::vector<Tensor> parts;
  for (size_t i = 0; i < own_.size(); ++i) {
    for (const auto& [part, at] : own_[i]) parts.push_back(own_grads_[i].Slice(at, {part.end - part.begin}));
  }
  const double sum = model::SquaredNorm(parts);
  const Tensor total =
      Tensor::From<double>(plan_.buckets.front().device(), {1}, std::span<const double>(&sum, 1));
  group_.AllReduce(total, comm::ReduceOp::kSum, comm::Waits::kAtOnce).Wait();
  return total.ToVector<double>().front();
}

void ShardedStrategy::Update(model::Optimizer& optimizer, double grad_scale) {
  if (optimizer_ == nullptr) MakeOptimizer(optimizer);
  optimizer.Advance();
  optimizer_->SetNumSteps(optimizer.num_steps());
  optimizer_->SetLearningRate(optimizer.learning_rate());
  if (!values_.empty()) return UpdateInCommonMemory(grad_scale);
  if (own_values_.empty()) {
    UpdateAndGather(grad_scale);
  } else {
    UpdateOwnValues(grad_scale);
  }
}

void ShardedStrategy::UpdateOwnValues(double grad_scale) {
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    ReceiveThrough(i);
    optimizer_->Apply(plan_.buckets[i].params, grad_scale);
  }
  PublishValues();
}

void ShardedStrategy::GatherGradients() {
  ReceiveAll();
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Tensor all = GatherBuffer(i);
    group_.AllGather(own_grads_[i], all).Wait();
    ReleaseGrads(plan_.buckets[i]);
    CopyOut(plan_.buckets[i], all);
  }
}

void ShardedStrategy::UpdateInCommonMemory(double grad_scale) {
  group_.Barrier();  // After this, no rank reads the old weights.
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    ReceiveThrough(i);
    optimizer_->Apply(plan_.buckets[i].params, grad_scale);
  }
  group_.Barrier();  // All ranks have written the new weights.
  for (const Bucket& bucket : plan_.buckets) {
    // Other ranks have also changed the value.
    for (Parameter* const param : bucket.params) param->MutableValue();
  }
}

// Updates the next bucket while the weights of a bucket are gathered.
void ShardedStrategy::UpdateAndGather(double grad_scale) {
  const std::vector<Bucket>& buckets = plan_.buckets;
  comm::Work gathering;  // the gather of the previous bucket
  for (size_t i = 0; i < buckets.size(); ++i) {
    ReceiveThrough(i);
    optimizer_->Apply(buckets[i].params, grad_scale);
    const Tensor all = GatherBuffer(i);
    CopyOwnValues(i, OwnPart(i, all));
    const comm::Work next = group_.AllGather(OwnPart(i, all), all);
    gathering.Wait();
    if (i > 0) CopyValuesOut(buckets[i - 1], GatherBuffer(i - 1));
    gathering = next;
  }
  gathering.Wait();
  CopyValuesOut(buckets.back(), GatherBuffer(buckets.size() - 1));
}

std::vector<model::NamedTensor> ShardedStrategy::State() {
  return optimizer_ == nullptr ? std::vector<model::NamedTensor>() : optimizer_->State();
}

void ShardedStrategy::Reset() {
  has_begun_ = has_taken_ = false;
  if (optimizer_ != nullptr) optimizer_->Reset();
}

}  // namespace gradsync::ddp
