#include <algorithm>
#include <iterator>
#include <optional>

#include "ddp/carried_weights.h"
#include "ddp/sharded_strategy.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero1 {
namespace {

// Each rank keeps the optimizer's state of one part of the parameters only ("ZeRO", stage 1,
// arXiv:1910.02054, section 5.1): with gradients g_r of rank r = 0, ..., p - 1,
//
//   g[part r] = 1/p sum_s g_s[part r]     a reduce-scatter of each bucket, during backward w[part r] =
//   update(w[part r], g[part r]) w = all parts                         an all-gather of each bucket, while
//   the next bucket is updated
//
// which sends as many bytes as one all-reduce. If ranks have memory in common, there is one copy of the
// weights, which needs no all-gather (ddp/sharded_strategy.h). Gradients are views of buckets, as in `core`,
// and weights are gathered through these buckets.
//
// In bf16 every rank keeps all f32 weights, and gathers f32; ZeRO shards the f32 weights, and gathers bf16.
// With gather=forward, all-gathers begin when all parts are updated, beginning with the first layers, and
// each read in the next forward waits for the weights that it reads (ddp/carried_weights.h). Then every rank
// has whole weights, also over shm.
class Zero1 : public ShardedStrategy {
 public:
  explicit Zero1(const StrategyContext& context)
      : ShardedStrategy(kTraits, context, /*in_common=*/ValueOf(kTraits, "gather", context.options) == 0),
        buffers_(PlaceBuffers(plan_, MakeStorage(plan_, group_))) {
    std::vector<model::Tensor> own_grads;
    for (size_t i = 0; i < buffers_.size(); ++i) own_grads.push_back(OwnPart(i, buffers_[i]));
    if (ValueOf(kTraits, "gather", context.options) != 0) carried_.emplace(plan_, group_);
    SetParts(std::move(own_grads), context.optimizer,
             carried_ ? carried_->parts() : std::vector<model::Tensor>());
  }

  void BeginStep() override {
    ShardedStrategy::BeginStep();
    PlaceGrads(plan_, buffers_);
    if (carried_) carried_->Place();
  }

  bool needs_use_hook() const override { return carried_.has_value(); }
  // Waits for gathers of weights, because the update writes weights. The update waits for each bucket.
  void Finish() override {
    if (carried_) carried_->Wait();
  }
  void Reset() override {
    Finish();
    ShardedStrategy::Reset();
  }

  void CompleteGradients() override {
    ReceiveAll();
    for (size_t i = 0; i < buffers_.size(); ++i)
      group_.AllGather(OwnPart(i, buffers_[i]), buffers_[i]).Wait();
  }
  void CompleteValues() override {
    if (carried_) carried_->Complete();
  }

  // Gathers for which forward waits come first.
  BucketPlan plan() const override {
    BucketPlan all = ShardedStrategy::plan();
    if (!carried_) return all;
    std::ranges::reverse(all.buckets);
    std::reverse(all.buckets.begin() + std::ssize(plan_.buckets), all.buckets.end());
    return all;
  }

 private:
  comm::Work Send(size_t i) override {
    return group_.ReduceScatter(buffers_[i], OwnPart(i, buffers_[i]), comm::ReduceOp::kSum);
  }
  model::Tensor GatherBuffer(size_t i) override { return buffers_[i]; }
  void PublishValues() override { carried_->Gather(); }

  const std::vector<model::Tensor> buffers_;  // buffers by bucket, views of one storage
  std::optional<CarriedWeights> carried_;     // set with gather=forward
};

double WeightsBuffer(const StrategyOptions& options, int /*world_size*/, double /*largest_unit*/) {
  return ValueOf(kTraits, "gather", options);
}

}  // namespace

constexpr std::string_view kGatherWords[] = {"update", "forward"};
constexpr Option kOptions[] = {kSmallFirst,
                               kSmallLast,
                               kWithin,
                               {.name = "gather",
                                .meaning = "when weights are gathered, in this step or the next",
                                .role = Option::Role::kCarry,
                                .words = kGatherWords}};

constinit const Traits kTraits = {
    .name = "zero1",
    .summary =
        "each rank updates its part of the weights with its part of the "
        "optimizer's state, and gathers the rest (in bf16 f32 weights stay whole)",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .more_copies = WeightsBuffer,
    .options = kOptions,
    .pytorch_twin = "zero1"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return MakeSharded<Zero1>(kTraits, context);
}

}  // namespace gradsync::ddp::zero1
