#include <algorithm>

#include "ddp/sharding/sharded_strategy.h"
#include "ddp/strategies.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp::zero2 {
namespace {

// Like `zero1`, but each rank also keeps only its part of the gradients ("ZeRO", stage 2, arXiv:1910.02054,
// section 5.2),
//
//   g[part r] = 1/p sum_s g_s[part r]     a reduce-scatter of each bucket, during backward
//   w[part r] = update(w[part r], g[part r]);  w = all parts
//
// Gradients are views of their bucket, whose memory later buckets reuse: four consecutive buckets share no
// memory. When bucket i is sent, bucket i + 2 receives its memory. Bucket i - 2 is the last bucket that may
// have used this memory, and must have been reduced before. A gradient that is ready before its bucket has
// memory is written to separate memory. A sum of earlier passes is also written to separate memory: without
// accumulate_parts, gradients of a step with several passes are kept whole. With accumulate_parts each pass
// is reduced, and added to this rank's part, as in the paper.
class Zero2 : public ShardedStrategy {
 public:
  explicit Zero2(const StrategyContext& context)
      : ShardedStrategy(PlanParts(kTraits, context), context),
        in_parts_(ValueOf(kTraits, Option::Role::kPasses, context.options) != 0),
        buffers_(PlaceInTurns(plan_, kWindow, group_)) {
    std::vector<model::Tensor> own_grads;
    for (size_t i = 0; i < buffers_.size(); ++i)
      own_grads.push_back(model::Tensor::Zeros(buffers_[i].device(), {part_numel(i)}, buffers_[i].dtype()));
    SetParts(std::move(own_grads), context.optimizer);
  }

  void BeginStep() override {
    ShardedStrategy::BeginStep();
    PlaceFirst();
  }

  bool needs_every_pass() const override { return in_parts_; }
  void EndPass() override {
    ShardedStrategy::EndPass();
    PlaceFirst();
  }

  void CompleteGradients() override { GatherGradients(); }
  Parts parts() const override { return {.grads = own_grads()}; }

 private:
  static constexpr size_t kAhead = 2, kWindow = 4;

  comm::Work Send(size_t i) override {
    const model::Tensor sum = in_parts_ ? OwnPart(i, buffers_[i]) : own_grads()[i];
    comm::Work work = group_.ReduceScatter(buffers_[i], sum, comm::ReduceOp::kSum);
    const size_t next = i + kAhead;
    if (next >= buffers_.size()) return work;
    if (next >= kWindow) ReceiveThrough(next - kWindow);
    PlaceGrads(plan_.buckets[next], buffers_[next]);
    return work;
  }
  void Receive(size_t i) override {
    if (!in_parts_) return;
    if (num_earlier_passes() == 0) own_grads()[i].Zero();
    AddTo(OwnPart(i, buffers_[i]), own_grads()[i]);
  }
  model::Tensor GatherBuffer(size_t i) override { return buffers_[i]; }

  void PlaceFirst() {
    for (const Bucket& bucket : plan_.buckets) ReleaseGrads(bucket);
    for (size_t i = 0; i < std::min(kAhead, buffers_.size()); ++i) PlaceGrads(plan_.buckets[i], buffers_[i]);
  }

  const bool in_parts_;
  const std::vector<model::Tensor> buffers_;  // buffers of whole buckets
};

}  // namespace

constexpr Option kOptions[] = {
    kSmallFirst,
    kSmallLast,
    {.name = "accumulate_parts",
     .meaning = "1: every pass is reduced and added to a part, 0: passes add up whole gradients",
     .role = Option::Role::kPasses}};

constinit const Traits kTraits = {
    .name = "zero2",
    .position = 90,
    .summary = "zero1 without whole gradients: memory of a bucket that has been reduced is used again",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .shards_grads = true,
    .places_gradients = true,
    .gradient_copies = 1.5,
    .options = kOptions};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Zero2>(context); }

}  // namespace gradsync::ddp::zero2
