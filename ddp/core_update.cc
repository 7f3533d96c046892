#include "ddp/placed_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::core_update {
namespace {

// `core`, whose optimizer does not wait for all gradients: it updates the parameters of a bucket as soon as
// their sums are there, while later buckets still travel. An element's update depends on its own gradient
// alone, so the weights are bitwise those of `core`; the norm of all gradients is known too late to clip by.
//
// The idea: PyTorch's optimizer in backward, and "Priority-based parameter propagation", arXiv:1905.03960.
class CoreUpdate : public Strategy {
 public:
  explicit CoreUpdate(const StrategyContext& context) : group_(context.group), buckets_(context) {}

  void BeginStep() override { buckets_.Begin(); }
  void OnGradReady(model::Parameter& param) override { buckets_.OnGradReady(param); }
  void Finish() override {}

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    optimizer.Advance();
    const std::vector<Bucket>& buckets = buckets_.plan().buckets;
    for (size_t i = 0; i < buckets.size(); ++i) {
      buckets_.WaitThrough(i);
      optimizer.Apply(buckets[i].params, grad_scale);
    }
    buckets_.End();
  }

  void CompleteGradients() override { buckets_.WaitThrough(buckets_.plan().buckets.size() - 1); }

  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return buckets_.plan(); }

 private:
  comm::ProcessGroup& group_;
  PlacedBuckets buckets_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "core_update",
    .summary = "core, whose buckets are updated one by one while later ones still travel",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .can_clip = false,
    .sends_rows = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .published_in_bytes = true};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return std::make_unique<CoreUpdate>(context);
}

}  // namespace gradsync::ddp::core_update
