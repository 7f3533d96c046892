#include "bench/learning/tuning.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

std::optional<std::vector<TunedOption>> Parse(std::string_view text) {
  std::vector<TunedOption> options;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ':');
  for (const std::string& part : parts) {
    const std::pair<std::string, std::string> option = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto& [name, values] = option;
    if (name.empty() || values.empty() || std::ranges::count(options, name, &TunedOption::name) > 0)
      return std::nullopt;
    options.push_back({name, SplitCommas(values)});
  }
  return options;
}

std::string Print(const std::vector<TunedOption>& options) {
  std::vector<std::string> parts;
  for (const TunedOption& option : options)
    parts.push_back(Join(option.name, "=", absl::StrJoin(option.values, ",")));
  return absl::StrJoin(parts, ":");
}

// Returns the variant with one more option. Throws InvalidInput, with a line that begins with --tune, if this
// is impossible.
TrainingVariant WithOption(const TrainingVariant& variant, const std::string& name, const std::string& value,
                           size_t element_bytes) {
  Variant named = variant;
  named.options[name] = value;
  return MakeVariants(
             "tune", std::vector<std::string>{named.name()},
             {.backends = {}, .bucket_bytes = {ddp::kDefaultBucketBytes}, .element_bytes = element_bytes})
      .front();
}

}  // namespace

bool IsOpen(const TrainingVariant& variant, const std::string& option) {
  return !variant.named.contains(option) &&
         (variant.traits->FindOption(option) != nullptr ||
          std::ranges::count(BenchOptions(), option, &ddp::Option::name) > 0);
}

Kind<std::vector<TunedOption>> TunedOptions() {
  return {"OPTION=VALUE,...[:OPTION=VALUE,...]", Parse, Print};
}

std::vector<TrainingVariant> ListSettings(const TrainingVariant& variant,
                                          std::span<const TunedOption> options, size_t element_bytes) {
  std::vector<TrainingVariant> settings = {variant};
  for (const TunedOption& option : options) {
    if (!IsOpen(variant, option.name)) continue;
    std::vector<TrainingVariant> more;
    for (const TrainingVariant& setting : settings) {
      for (const std::string& value : option.values)
        more.push_back(WithOption(setting, option.name, value, element_bytes));
    }
    settings = std::move(more);
    Require(settings.size() <= kMostSettings, "--tune: ", variant.name(), " would be tried with more than ",
            kMostSettings, " settings");
  }
  for (TrainingVariant& setting : settings) setting.tuned = settings.size() > 1;
  return settings;
}

}  // namespace gradsync::bench
