#include "ddp/placed_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::core {
namespace {

// The best known way. Gradients live in the buckets that travel (see PlacedBuckets): nothing is copied, and
// each bucket is sent as early as it can be.
// The mean costs no pass over memory: the loss is divided by the world size, and the all-reduce sums.
class Core : public Strategy {
 public:
  explicit Core(const StrategyContext& context) : group_(context.group), buckets_(context) {}

  void BeginStep() override { buckets_.Begin(); }
  void OnGradReady(model::Parameter& param) override { buckets_.OnGradReady(param); }
  void Finish() override {
    buckets_.WaitThrough(buckets_.plan().buckets.size() - 1);
    buckets_.End();
  }

  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return buckets_.plan(); }

 private:
  comm::ProcessGroup& group_;
  PlacedBuckets buckets_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "core",
    .summary = "during backward, without copies: gradients are views of buckets",
    .overlaps = true,
    .has_buckets = true,
    .sends_rows = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .pytorch_twin = "ddp_view",
    .published_in_bytes = true};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Core>(context); }

}  // namespace gradsync::ddp::core
