#include "ddp/sharding/sharded_units.h"

#include <stdexcept>

#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {

using model::Parameter;
using model::Tensor;

ShardedUnits::ShardedUnits(const PlanOfUnits& units, size_t window, bool in_common,
                           const StrategyContext& context)
    : ShardedStrategy(units.plan, context, in_common),
      num_units_(units.num_in_turn),
      grads_(PlaceInTurns(units.InTurn(), 2, group_)) {
  for (const Tensor& buffer : MakeBuffers(units.AtAnyTime(), group_)) grads_.push_back(buffer);
  std::vector<Tensor> own_grads;
  for (size_t i = 0; i < grads_.size(); ++i)
    own_grads.push_back(Tensor::Zeros(grads_[i].device(), {part_numel(i)}, grads_[i].dtype()));
  if (!places_values()) weights_.emplace(units, window, context.options.spoil_weights, group_);
  SetParts(own_grads, context.optimizer, weights_ ? weights_->parts() : std::vector<Tensor>());
}

void ShardedUnits::BeginStep() {
  ShardedStrategy::BeginStep();
  if (weights_) weights_->BeginStep();
  BeginPass();
}

void ShardedUnits::BeginPass() {
  num_entered_ = 0;
  for (const Bucket& bucket : plan_.buckets) ReleaseGrads(bucket);
  for (size_t i = num_units_; i < plan_.buckets.size(); ++i) PlaceGrads(plan_.buckets[i], grads_[i]);
  if (weights_) weights_->BeginPass();
}

void ShardedUnits::OnUse(const Parameter& param) {
  if (!has_bucket(param)) return;
  const size_t i = bucket_of(param);
  if (i + 1 < num_entered_)
    throw std::logic_error("backward uses parameter '" + param.name() + "' after those of an earlier unit");
  if (i < num_units_) EnterThrough(i);
  if (weights_) weights_->Use(i);
}

void ShardedUnits::OnGradReady(Parameter& param) {
  const size_t i = bucket_of(param);
  if (i < num_units_) EnterThrough(i);
  ShardedStrategy::OnGradReady(param);
}

void ShardedUnits::EnterThrough(size_t i) {
  for (; num_entered_ <= i; ++num_entered_) {
    if (num_entered_ > 0) Leave(num_entered_ - 1);
    if (weights_) weights_->Enter(num_entered_);
    if (num_entered_ == num_units_) continue;
    if (num_entered_ > 1) ReceiveThrough(num_entered_ - 2);
    PlaceGrads(plan_.buckets[num_entered_], grads_[num_entered_]);
  }
}

void ShardedUnits::Leave(size_t i) {
  if (i < num_sent()) return;
  for (Parameter* const param : plan_.buckets[i].params)
    if (!param->has_grad()) param->grad().Zero();
  SendThrough(i);
}

comm::Work ShardedUnits::Send(size_t i) {
  ReleaseGrads(plan_.buckets[i]);
  return group_.ReduceScatter(grads_[i], Sum(i), comm::ReduceOp::kSum);
}

void ShardedUnits::Receive(size_t i) {
  if (num_earlier_passes() > 0) AddTo(Sum(i), own_grads()[i]);
}

void ShardedUnits::EndPass() {
  Finish();
  ShardedStrategy::EndPass();
  BeginPass();
}

void ShardedUnits::Finish() {
  EnterThrough(num_units_);
  SendThrough(plan_.buckets.size() - 1);
}

BucketPlan ShardedUnits::plan() const {
  return weights_ ? weights_->PlanWith(plan_, num_earlier_passes() + 1) : ShardedStrategy::plan();
}

}  // namespace gradsync::ddp
