#include "ddp/factory.h"

#include <vector>

#include "ddp/checked.h"
#include "ddp/strategies.h"

namespace gradsync::ddp {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Strategy> (*make)(const StrategyContext&);
};

constexpr Row kRows[] = {
#define GRADSYNC_ROW(name) {#name, &name::Make},
    GRADSYNC_STRATEGIES(GRADSYNC_ROW)
#undef GRADSYNC_ROW
};

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context) {
  const std::vector<model::Parameter*> params = model::Trained(context.params);
  Require(!params.empty(), "strategy '", name, "': there are no parameters to train");
  const StrategyContext trained = {.params = params, .group = context.group, .options = context.options};
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return Checked(row.name, row.make(trained), trained);
    known += Join(known.empty() ? "" : ", ", row.name);
  }
  throw InvalidInput(Join("unknown strategy '", name, "', expected one of ", known));
}

}  // namespace gradsync::ddp
