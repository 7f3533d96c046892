#include "ddp/sharding/gathered_weights.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "ddp/sharding/sharded_strategy.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;
using model::Tensor;

BucketPlan OfReads(BucketPlan plan, size_t num_units) {
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    plan.buckets[i].collective = comm::Collective::kAllGather;
    plan.buckets[i].is_read = i < num_units;
  }
  return plan;
}

}  // namespace

PlanOfUnits PlanUnits(const StrategyContext& context, bool as_one) {
  std::vector<Parameter*> rest(context.params.begin(), context.params.end());
  const bool copies = std::ranges::any_of(rest, &Parameter::has_copy);
  std::vector<std::vector<Parameter*>> units;
  for (const std::vector<Parameter*>& unit : context.units) {
    std::vector<Parameter*> in_turn;
    for (Parameter* const param : unit) {
      if (param->has_copy() == copies && std::erase(rest, param) > 0) in_turn.push_back(param);
    }
    if (in_turn.empty()) continue;
    if (!as_one || units.empty()) units.emplace(units.begin());
    units.front().insert(units.front().end(), in_turn.begin(), in_turn.end());
  }
  const size_t num_in_turn = units.size();
  if (!rest.empty()) units.push_back(rest);
  BucketPlan plan = PlanUnits(units);
  for (Bucket& bucket : plan.buckets) PadToParts(context.group, bucket);
  return {std::move(plan), num_in_turn};
}

GatheredWeights::GatheredWeights(const PlanOfUnits& units, size_t window, bool spoils,
                                 comm::ProcessGroup& group)
    : group_(group),
      plan_(OfReads(units.plan, units.num_in_turn)),
      num_units_(units.num_in_turn),
      window_(std::min(window, num_units_)),
      spoils_(spoils),
      works_(plan_.buckets.size()) {
  const PlanOfUnits read = {plan_, num_units_};
  buffers_ = PlaceInTurns(read.InTurn(), window_, group);
  for (const Tensor& buffer : MakeBuffers(read.AtAnyTime(), group)) buffers_.push_back(buffer);
  for (const Bucket& bucket : plan_.buckets) {
    const model::Shape shape = {bucket.numel / group.size()};
    parts_.push_back(Tensor::Zeros(bucket.device(), shape, bucket.params.front()->dtype()));
    sent_parts_.push_back(bucket.dtype() == parts_.back().dtype()
                              ? parts_.back()
                              : Tensor::Zeros(bucket.device(), shape, bucket.dtype()));
  }
}

GatheredWeights::~GatheredWeights() { TakeBackValues(plan_, is_complete_); }

void GatheredWeights::PublishParts() {
  for (size_t i = 0; i < parts_.size(); ++i)
    if (!sent_parts_[i].SameStorage(parts_[i])) Cast(parts_[i], sent_parts_[i]);
}

void GatheredWeights::BeginStep() {
  is_complete_ = false;
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    for (size_t k = 0; k < plan_.buckets[i].params.size(); ++k) {
      Parameter& param = *plan_.buckets[i].params[k];
      const Tensor place = plan_.buckets[i].View(buffers_[i], k);
      if (i < num_units_) {
        param.PlaceForwardValue(place);
      } else {
        param.PlaceValue(place);
      }
      param.SetOnRead([this, i, &param] { Read(i, param); });
    }
  }
  for (size_t i = num_units_; i < plan_.buckets.size(); ++i) Gather(i);
}

void GatheredWeights::BeginPass() {
  in_forward_ = true;
  at_ = num_to_gather_ = num_units_;
}

void GatheredWeights::Read(size_t i, const Parameter& param) {
  if (!in_forward_)
    throw std::logic_error("parameter '" + param.name() + "' is read outside of a forward pass");
  if (i < num_units_ && i != at_) {
    if (i > at_)
      throw std::logic_error("parameter '" + param.name() + "' is read after those of a later unit");
    at_ = i;
    GatherThrough(i - std::min(i, window_ - 1));
  }
  works_[i].Wait();
}

void GatheredWeights::GatherThrough(size_t i) {
  while (num_to_gather_ > i) {
    --num_to_gather_;
    Replace(std::min(num_to_gather_ + window_, num_units_), num_to_gather_);
  }
}

void GatheredWeights::Enter(size_t i) {
  if (i == 0) {
    GatherThrough(0);
    in_forward_ = false;
  } else {
    Replace(i - 1, std::min(i + window_ - 1, num_units_));
  }
}

void GatheredWeights::Replace(size_t left, size_t next) {
  if (left < num_units_) {
    works_[left].Wait();
    if (spoils_) std::memset(buffers_[left].raw_data(), 0xff, buffers_[left].nbytes());
  }
  if (next < num_units_) Gather(next);
}

void GatheredWeights::Gather(size_t i) { works_[i] = group_.AllGather(sent_parts_[i], buffers_[i]); }

void GatheredWeights::Complete() {
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    const Tensor all = Tensor::Empty(bucket.device(), {bucket.numel}, parts_[i].dtype());
    group_.AllGather(parts_[i], all).Wait();
    for (size_t k = 0; k < bucket.params.size(); ++k) {
      bucket.params[k]->TakeBack();
      bucket.params[k]->PlaceValue(bucket.View(all, k));
    }
  }
  is_complete_ = true;
}

BucketPlan GatheredWeights::PlanWith(const BucketPlan& reductions, size_t num_passes) const {
  std::vector<Bucket> all(plan_.buckets.begin() + static_cast<ptrdiff_t>(num_units_), plan_.buckets.end());
  for (size_t pass = 0; pass < num_passes; ++pass) {
    for (size_t i = num_units_; i-- > 0;) all.push_back(plan_.buckets[i]);
    for (size_t i = 0; i < reductions.buckets.size(); ++i) {
      if (i > 0 && i + window_ - 1 < num_units_) all.push_back(plan_.buckets[i + window_ - 1]);
      all.push_back(reductions.buckets[i]);
    }
  }
  return {std::move(all)};
}

}  // namespace gradsync::ddp
