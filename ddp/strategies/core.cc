#include "ddp/buckets/placed_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::core {
namespace {

// The best known strategy: gradients are stored in the buckets that are sent (PlacedBuckets). Nothing is
// copied, and each bucket is sent as early as possible.
class Core : public PlacedBuckets {
 public:
  explicit Core(const StrategyContext& context) : PlacedBuckets(kTraits, context) {}

  void Finish() override {
    ReceiveAll();
    AdoptLayout();
  }
};

}  // namespace

constinit const Traits kTraits = {
    .name = "core",
    .position = 60,
    .summary = "during backward, without copies: gradients are views of buckets",
    .overlaps = true,
    .has_buckets = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .more_copies = CopiesWithoutViews,
    .options = kPlacedOptions,
    .pytorch_twin = "ddp_view",
    .published_in_bytes = true};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Core>(context); }

}  // namespace gradsync::ddp::core
