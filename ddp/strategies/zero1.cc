#include "ddp/sharding/placed_parts.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero1 {
namespace {

// Each rank keeps the optimizer's state of one part of the parameters only ("ZeRO", stage 1,
// arXiv:1910.02054, section 5.1): with gradients g_r of rank r = 0, ..., p - 1,
//
//   g[part r] = 1/p sum_s g_s[part r]           a reduce-scatter of each bucket, during backward
//   w[part r] = update(w[part r], g[part r])
//   w = all parts                               an all-gather of each bucket, while the next one is updated
//
// which moves as many bytes as one all-reduce. Where ranks have memory in common the weights exist once, and
// need no all-gather (ddp/sharding/sharded_strategy.h).
//
// In bf16 every rank keeps the whole f32 weights, and gathers f32: ZeRO shards them too, and gathers bf16.
class Zero1 : public PlacedParts {
 public:
  explicit Zero1(const StrategyContext& context)
      : PlacedParts(kTraits, PlanParts(kTraits, context), context) {}
};

}  // namespace

constexpr Option kOptions[] = {kSmallFirst, kSmallLast, kWithin, kGather};

constinit const Traits kTraits = {
    .name = "zero1",
    .position = 80,
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
