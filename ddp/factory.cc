#include "ddp/factory.h"

#include <algorithm>
#include <vector>

#include "ddp/checked.h"
#include "ddp/strategies.h"

namespace gradsync::ddp {
namespace {

struct Row {
  const Traits& traits;
  std::unique_ptr<Strategy> (*make)(const StrategyContext&);
};

constexpr Row kRows[] = {
#define GRADSYNC_ROW(name) {name::kTraits, &name::Make},
    GRADSYNC_STRATEGIES(GRADSYNC_ROW)
#undef GRADSYNC_ROW
};

const Row& RowOf(std::string_view name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.traits.name == name) return row;
    known += Join(known.empty() ? "" : ", ", row.traits.name);
  }
  throw InvalidInput(Join("unknown strategy '", name, "', expected one of ", known));
}

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.traits.name);
  return names;
}

const Traits& TraitsOf(std::string_view name) { return RowOf(name).traits; }

const Traits& FloorTraits() {
  return std::ranges::find_if(kRows, [](const Row& row) { return !row.traits.communicates; })->traits;
}

std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context) {
  const Row& row = RowOf(name);
  const std::vector<model::Parameter*> params = model::Trained(context.params);
  Require(!params.empty(), "strategy '", name, "': there are no parameters to train");
  const StrategyContext trained = {.params = params, .group = context.group, .options = context.options};
  return Checked(name, row.make(trained), trained);
}

}  // namespace gradsync::ddp
