#include "ddp/sharding/owned_matrices.h"
#include "ddp/sharding/placed_parts.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::owned {
namespace {

// `zero1` for optimizers that update whole matrices (Muon): every matrix belongs to one rank, whose part of
// the bucket it is in. The rank reduces its gradient, updates it, and the others gather it:
//
//   g[m] = 1/p sum_s g_s[m]               for each matrix m of rank r: a reduce-scatter of each bucket
//   w[m] = update(w[m], g[m])             the iteration on the whole matrix, once in the world
//   w = all matrices                      an all-gather of each bucket, as in `zero1`
//
// nanochat (github.com/karpathy/nanochat, nanochat/optim.py) stacks matrices of one shape and pads each
// stack. Here a bucket's parts hold matrices of several shapes, because that takes less padding (see
// PlanOwned). Vectors, embeddings and the output layer need no owner, and are cut as in `zero1`.
class Owned : public PlacedParts {
 public:
  explicit Owned(const StrategyContext& context) : Owned(context, Plan(context)) {}

  std::optional<double> largest_work() const override { return largest_work_; }

 private:
  Owned(const StrategyContext& context, OwnedPlan owned)
      : PlacedParts(kTraits, std::move(owned.plan), context), largest_work_(owned.largest_work) {}

  static OwnedPlan Plan(const StrategyContext& context) {
    OwnedPlan owned = PlanOwned(std::vector(context.params.rbegin(), context.params.rend()),
                                context.group.size(), context.options.bucket_bytes);
    for (Bucket& bucket : owned.plan.buckets) PadToParts(context.group, bucket);
    return owned;
  }

  const double largest_work_;
};

}  // namespace

constexpr Option kOptions[] = {kGather};

constinit const Traits kTraits = {.name = "owned",
                                  .position = 110,
                                  .summary = "zero1 whose parts are whole matrices, as Muon needs them",
                                  .overlaps = true,
                                  .has_buckets = true,
                                  .owns_update = true,
                                  .owns_state = true,
                                  .shards_state = true,
                                  .divides_matrices = false,
                                  .places_gradients = true,
                                  .gradient_copies = 1,
                                  .more_copies = WeightsBuffer,
                                  .options = kOptions};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Owned>(context); }

}  // namespace gradsync::ddp::owned
