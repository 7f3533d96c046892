#include <algorithm>

#include "ddp/sharding/sharded_units.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero3 {
namespace {

constexpr std::string_view kUnitWords[] = {"layer", "model"};
constexpr Option kOptions[] = {
    {.name = "prefetch",
     .meaning = "number of units that are gathered ahead",
     .default_value = 1,
     .range = {0, 2}},
    {.name = "keep", .meaning = "1: weights stay from forward to backward, 0: they are gathered again"},
    kWithin,
    {.name = "unit", .meaning = "what is gathered at once", .words = kUnitWords},
    {.name = "shared", .meaning = "1: weights exist once for each host, where ranks share memory"}};

double Value(const StrategyContext& context, std::string_view option) {
  return ValueOf(kTraits, option, context.options);
}

// Like `zero2`, but each rank also keeps only its part of the weights ("ZeRO", stage 3, arXiv:1910.02054,
// section 5.3; "FSDP", arXiv:2304.11277). For each unit of the model, such as a layer,
//
//   w = all parts                        an all-gather, before forward reads w, and again before backward
//   g[part r] = 1/p sum_s g_s[part r]    a reduce-scatter, when backward has finished with w
//   w[part r] = update(w[part r], g[part r])
//
// which sends 3 vectors minus the units that are still gathered when backward begins; an all-reduce sends 2
// vectors. In bf16 the parts are f32, and the gathered weights are bf16. PyTorch's fully_shard corresponds to
// prefetch=1, and its reshard_after_forward=False corresponds to keep=1.
class Zero3 : public ShardedUnits {
 public:
  explicit Zero3(const StrategyContext& context)
      : ShardedUnits(PlanUnits(context, Value(context, "unit") != 0), WindowOf(context),
                     Value(context, "shared") != 0, context) {}

 private:
  static size_t WindowOf(const StrategyContext& context) {
    const auto ahead = static_cast<size_t>(Value(context, "prefetch"));
    return Value(context, "keep") != 0 ? context.params.size() : 1 + ahead;
  }
};

// The maximum is one part of values, one part of gradients, and buffers of units, each of which is at most as
// large as the largest unit.
double Copies(const StrategyOptions& options, int world_size, double largest_unit) {
  const auto of = [&](double window) { return std::min(1.0, (2 * window - 1) * largest_unit); };
  const bool keeps = ValueOf(kTraits, "keep", options) != 0 || ValueOf(kTraits, "unit", options) != 0;
  return 2.0 / world_size + of(2) + (keeps ? 1 : of(1 + ValueOf(kTraits, "prefetch", options)));
}

// Weights are gathered in forward, and again in backward except for units that are still gathered after
// forward.
double Gathers(const StrategyOptions& options, std::span<const double> units) {
  if (ValueOf(kTraits, "keep", options) != 0 || ValueOf(kTraits, "unit", options) != 0) return 1;
  const size_t left = std::min(units.size(), 1 + static_cast<size_t>(ValueOf(kTraits, "prefetch", options)));
  double again = 0;
  for (const double unit : units.first(units.size() - left)) again += unit;
  return 1 + again;
}

}  // namespace

constinit const Traits kTraits = {
    .name = "zero3",
    .position = 100,
    .summary = "zero2 without whole weights: each layer is gathered before it is read, and let go after",
    .overlaps = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .shards_grads = true,
    .shards_values = true,
    .places_gradients = true,
    .more_copies = Copies,
    .options = kOptions,
    .gathers = Gathers,
    .pytorch_twin = "fully_shard"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return MakeSharded<Zero3>(kTraits, context);
}

}  // namespace gradsync::ddp::zero3
