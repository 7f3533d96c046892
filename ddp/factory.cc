#include "ddp/factory.h"

#include <cmath>

#include "ddp/checked.h"
#include "ddp/exact_start.h"
#include "ddp/strategies.h"

namespace gradsync::ddp {
namespace {

struct Entry {
  const Traits* traits;
  std::unique_ptr<Strategy> (*make)(const StrategyContext&);
};

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all = {
#define GRADSYNC_ROW(name) {&name::kTraits, &name::Make},
        GRADSYNC_STRATEGIES(GRADSYNC_ROW)
#undef GRADSYNC_ROW
    };
    std::ranges::stable_sort(all, {}, [](const Entry& entry) { return entry.traits->position; });
    return all;
  }();
  return entries;
}

const Entry& EntryOf(std::string_view name) {
  std::string known;
  for (const Entry& entry : Entries()) {
    if (entry.traits->name == name) return entry;
    known += Join(known.empty() ? "" : ", ", entry.traits->name);
  }
  throw InvalidInput(Join("unknown strategy '", name, "', expected one of ", known));
}

const Option& OptionOf(const Traits& traits, std::string_view name) {
  const Option* const option = traits.FindOption(name);
  Require(option != nullptr, "strategy '", traits.name, "' has no option '", name, "'");
  return *option;
}

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) names.emplace_back(entry.traits->name);
  return names;
}

std::vector<std::string> ExactStrategyNames() {
  std::vector<std::string> names = StrategyNames();
  std::erase_if(names, [](const std::string& name) {
    const Traits& traits = TraitsOf(name);
    return traits.communicates && traits.agreement != Agreement::kExact;
  });
  return names;
}

std::vector<std::string> AllReduceStrategyNames() {
  std::vector<std::string> names = ExactStrategyNames();
  std::erase_if(names, [](const std::string& name) { return TraitsOf(name).owns_update; });
  return names;
}

const Traits& TraitsOf(std::string_view name) { return *EntryOf(name).traits; }

const Traits& FloorTraits() {
  return *std::ranges::find_if(Entries(), [](const Entry& entry) {
            return !entry.traits->communicates;
          })->traits;
}

void CheckValue(const Option& option, double value) {
  Require(value >= option.range.from && value <= option.range.to &&
              (option.has_fractions || std::floor(value) == value),
          option.name, ": found ", value, ", expected a ", option.has_fractions ? "" : "whole ",
          "number from ", option.range.from, " to ",
          option.has_fractions ? Join(option.range.to) : Join(static_cast<int64_t>(option.range.to)));
}

std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context) {
  const auto& [traits, make] = EntryOf(name);
  const std::vector<model::Parameter*> params = model::Trained(context.params);
  Require(!params.empty(), "strategy '", name, "': there are no parameters to train");
  for (const auto& [name_of_option, value] : context.options.values) {
    const Option& option = OptionOf(*traits, name_of_option);
    CheckValue(option, value);
    if (!option.plain_only || value == option.default_value) continue;
    for (const model::Parameter* param : params) {
      Require(param->device()->is_cpu() && param->dtype() != model::DType::kBF16, "strategy '", name,
              "': ", option.name, "=", value, ": parameter '", param->name(), "' is ",
              model::Name(param->dtype()), " on ", param->device()->name(),
              ", expected f32 or f64 on the CPU");
    }
  }
  for (const model::Parameter* param : params) {
    Require(!traits->needs_f32 || param->dtype() == model::DType::kF32, "strategy '", name, "': parameter '",
            param->name(), "' is ", model::Name(param->dtype()), ", expected f32");
    Require(!traits->needs_cpu || param->device()->is_cpu(), "strategy '", name, "': parameter '",
            param->name(), "' is on ", param->device()->name(), ", expected the CPU");
  }
  std::vector<std::vector<model::Parameter*>> units;
  for (const std::vector<model::Parameter*>& unit : context.units) {
    if (std::vector<model::Parameter*> kept = model::Trained(unit); !kept.empty())
      units.push_back(std::move(kept));
    for (const model::Parameter* param : unit) {
      Require(std::ranges::count(context.params, param) == 1, "strategy '", name, "': parameter '",
              param->name(), "' is in a unit and not among the parameters");
    }
  }
  const StrategyContext trained = {.params = params,
                                   .group = context.group,
                                   .options = context.options,
                                   .optimizer = context.optimizer,
                                   .units = units};
  std::unique_ptr<Strategy> strategy =
      StartExactly(StartOf(*traits, context.options), make(trained), trained);
  return Checked(*traits, std::move(strategy), trained);
}

}  // namespace gradsync::ddp
