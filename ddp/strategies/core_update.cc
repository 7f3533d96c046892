#include "ddp/buckets/placed_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::core_update {
namespace {

// Like `core`, but the optimizer does not wait for all gradients: it updates the parameters of a bucket when
// their sums are ready, while later buckets are still being sent. An element's update depends on its own
// gradient alone, so the weights are bitwise equal to the weights of `core`. Clipping is impossible, because
// the norm of all gradients is known only after the first updates.
//
// PyTorch's _hook_then_optimizer (ddp_comm_hooks/optimizer_overlap_hooks.py) is the most similar method. It
// also updates each bucket when its all-reduce is done, but it may do this during backward, which has ended
// here.
class CoreUpdate : public PlacedBuckets {
 public:
  explicit CoreUpdate(const StrategyContext& context) : PlacedBuckets(kTraits, context) {}

  void Finish() override {}

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    optimizer.Advance();
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      ReceiveThrough(i);
      optimizer.Apply(plan_.buckets[i].params, grad_scale);
    }
    AdoptLayout();
  }

  void CompleteGradients() override { ReceiveAll(); }
};

}  // namespace

constinit const Traits kTraits = {
    .name = "core_update",
    .position = 70,
    .summary = "core, whose buckets are updated one by one while later ones still travel",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .can_clip = false,
    .places_gradients = true,
    .gradient_copies = 1,
    .more_copies = CopiesWithoutViews,
    .options = kPlacedOptions,
    .published_in_bytes = true};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return std::make_unique<CoreUpdate>(context);
}

}  // namespace gradsync::ddp::core_update
