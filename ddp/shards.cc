#include "ddp/shards.h"

#include <algorithm>
#include <utility>

#include "model/tensor_ops.h"

namespace gradsync::ddp {

using model::Parameter;
using model::Tensor;

Shards::Shards(BucketPlan plan, comm::ProcessGroup& group) : group_(group), reduced_(std::move(plan)) {
  for (size_t i = 0; i < reduced_.buckets.size(); ++i) {
    Bucket& bucket = reduced_.buckets[i];
    bucket.collective = comm::Collective::kReduceScatter;
    bucket.numel = (bucket.numel + group.size() - 1) / group.size() * group.size();
    const int64_t begin = group.rank() * part_numel(i), end = begin + part_numel(i);
    std::vector<Own>& own = own_.emplace_back();
    for (size_t k = 0; k < bucket.params.size(); ++k) {
      Parameter* const param = bucket.params[k];
      const int64_t at = bucket.offsets[k];
      const int64_t first = std::clamp(begin - at, int64_t{0}, param->numel());
      const int64_t last = std::clamp(end - at, int64_t{0}, param->numel());
      if (first < last) own.push_back({{param, first, last}, at + first - begin});
    }
  }
  values_ = MakeCommonBuffers(reduced_, group);
}

// No rank writes before this one has taken part in another step.
Shards::~Shards() {
  ForEachPlace(reduced_, values_, [](Parameter& param, const Tensor& common) {
    if (!param.value().SameStorage(common)) return;
    param.PlaceValue({});
    param.MutableValue().CopyFrom(common);
  });
}

void Shards::PlaceValues() {
  if (!has_common_values()) return;
  if (!has_begun_) {
    group_.Barrier();  // No rank reads what the last training has left here.
    for (size_t i = 0; i < values_.size(); ++i) {
      for (const auto& [part, at] : own_[i]) {
        const int64_t numel = part.end - part.begin;
        const Tensor from = part.param->value().Slice(part.begin, {numel});
        const Tensor to = OwnPart(i, values_[i]).Slice(at, {numel});
        if (!from.SameStorage(to)) to.CopyFrom(from);
      }
    }
    group_.Barrier();
    has_begun_ = true;
  }
  ForEachPlace(reduced_, values_, [](Parameter& param, const Tensor& common) { param.PlaceValue(common); });
}

BucketPlan Shards::plan() const {
  BucketPlan all = reduced_;
  if (has_common_values()) return all;
  for (Bucket bucket : reduced_.buckets) {
    bucket.collective = comm::Collective::kAllGather;
    all.buckets.push_back(std::move(bucket));
  }
  return all;
}

double Shards::SquaredNorm() const {
  double sum = 0;
  for (size_t i = 0; i < own_.size(); ++i) {
    for (const auto& [part, at] : own_[i])
      sum += model::SquaredNorm(own_grads_[i].Slice(at, {part.end - part.begin}));
  }
  const Tensor total =
      Tensor::From<double>(reduced_.buckets.front().device(), {1}, std::span<const double>(&sum, 1));
  group_.AllReduce(total, comm::ReduceOp::kSum).Wait();
  return total.ToVector<double>().front();
}

void Shards::MakeOptimizer(const model::Optimizer& like) {
  std::vector<model::Part> parts;
  for (size_t i = 0; i < own_.size(); ++i) {
    for (const auto& [part, at] : own_[i])
      parts.push_back({part.param, part.begin, part.end, own_grads_[i].Slice(at, {part.end - part.begin})});
  }
  optimizer_ = like.ForParts(std::move(parts));
  optimizer_->State();  // Allocates it now, and not from what the first step has just given back.
}

void Shards::Update(model::Optimizer& like, double grad_scale, const std::function<void(size_t)>& wait,
                    const std::function<Tensor(size_t)>& room) {
  const std::vector<Bucket>& buckets = reduced_.buckets;
  if (optimizer_ == nullptr) MakeOptimizer(like);
  like.Advance();
  optimizer_->SetNumSteps(like.num_steps());
  optimizer_->SetLearningRate(like.learning_rate());
  if (has_common_values()) {
    group_.Barrier();  // No rank reads the old weights any more.
    for (size_t i = 0; i < buckets.size(); ++i) {
      wait(i);
      optimizer_->Apply(buckets[i].params, grad_scale);
    }
    group_.Barrier();  // All have written the new ones.
    for (const Bucket& bucket : buckets) {
      for (Parameter* const param : bucket.params) param->MutableValue();
    }
    return;
  }
  comm::Work gathering;  // the bucket before
  const auto finish = [&](size_t i) {
    gathering.Wait();
    for (size_t k = 0; k < buckets[i].params.size(); ++k)
      buckets[i].params[k]->MutableValue().CopyFrom(buckets[i].View(room(i), k));
  };
  for (size_t i = 0; i < buckets.size(); ++i) {
    wait(i);
    optimizer_->Apply(buckets[i].params, grad_scale);
    const Tensor all = room(i), own = OwnPart(i, all);
    for (const auto& [part, at] : own_[i]) {
      const int64_t numel = part.end - part.begin;
      own.Slice(at, {numel}).CopyFrom(part.param->value().Slice(part.begin, {numel}));
    }
    const comm::Work next = group_.AllGather(own, all);
    if (i > 0) finish(i - 1);
    gathering = next;
  }
  finish(buckets.size() - 1);
}

std::vector<model::NamedTensor> Shards::State() const {
  return optimizer_ == nullptr ? std::vector<model::NamedTensor>() : optimizer_->State();
}

void Shards::Reset() {
  has_begun_ = false;
  if (optimizer_ != nullptr) optimizer_->Reset();
}

}  // namespace gradsync::ddp
