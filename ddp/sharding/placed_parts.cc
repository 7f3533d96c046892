#include "ddp/sharding/placed_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gradsync::ddp {

PlacedParts::PlacedParts(const Traits& traits, BucketPlan plan, const StrategyContext& context)
    : ShardedStrategy(std::move(plan), context,
                      /*in_common=*/ValueOf(traits, kGather.name, context.options) == 0),
      buffers_(PlaceBuffers(plan_, MakeStorage(plan_, group_))) {
  std::vector<model::Tensor> own_grads;
  for (size_t i = 0; i < buffers_.size(); ++i) own_grads.push_back(OwnPart(i, buffers_[i]));
  if (ValueOf(traits, kGather.name, context.options) != 0) carried_.emplace(plan_, group_);
  SetParts(std::move(own_grads), context.optimizer,
           carried_ ? carried_->parts() : std::vector<model::Tensor>());
}

void PlacedParts::BeginStep() {
  ShardedStrategy::BeginStep();
  PlaceGrads(plan_, buffers_);
  if (carried_) carried_->Place();
}

void PlacedParts::Finish() {
  if (carried_) carried_->Wait();
}

void PlacedParts::Reset() {
  Finish();
  ShardedStrategy::Reset();
}

void PlacedParts::CompleteGradients() {
  ReceiveAll();
  for (size_t i = 0; i < buffers_.size(); ++i) group_.AllGather(OwnPart(i, buffers_[i]), buffers_[i]).Wait();
}

void PlacedParts::CompleteValues() {
  if (carried_) carried_->Complete();
}

BucketPlan PlacedParts::plan() const {
  BucketPlan all = ShardedStrategy::plan();
  if (!carried_) return all;
  std::ranges::reverse(all.buckets);
  std::reverse(all.buckets.begin() + std::ssize(plan_.buckets), all.buckets.end());
  return all;
}

comm::Work PlacedParts::Send(size_t i) {
  return group_.ReduceScatter(buffers_[i], OwnPart(i, buffers_[i]), comm::ReduceOp::kSum);
}

double WeightsBuffer(const StrategyOptions& options, int /*world_size*/, double /*largest_unit*/) {
  const auto given = options.values.find(kGather.name);
  return given == options.values.end() ? 0 : given->second;
}

}  // namespace gradsync::ddp
