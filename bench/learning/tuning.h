#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/training/variant.h"
#include "model/base/flags.h"

// --tune: the settings of a variant that are tried before its trials.
namespace gradsync::bench {

// The values of one option to try.
struct TunedOption {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const TunedOption&) const = default;
};

// The most settings of a variant: a variant with more tries has a better chance.
inline constexpr size_t kMostSettings = 9;

// "learning_rate=1e-3,3e-3:outer_momentum=0,0.5,0.9"
Kind<std::vector<TunedOption>> TunedOptions();

// Whether the variant has the option and its value was not given.
bool IsOpen(const TrainingVariant& variant, const std::string& option);

// The settings of `variant` to try: each combination of the values of open options; only the variant if there
// are none. Marked as tuned if there are several. Throws InvalidInput, one line that starts with --tune, for
// a value that the option does not allow and for more than kMostSettings combinations.
std::vector<TrainingVariant> SettingsOf(const TrainingVariant& variant, std::span<const TunedOption> options,
                                        size_t element_bytes);

}  // namespace gradsync::bench
