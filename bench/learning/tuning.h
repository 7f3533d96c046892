#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/training/variant.h"
#include "model/base/flags.h"

// Implements --tune: the settings of a variant that are tried before the trials of this variant.
namespace gradsync::bench {

// The values of one option to try.
struct TunedOption {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const TunedOption&) const = default;
};

// The maximum number of settings of a variant. A limit is necessary, because the best of many settings looks
// better by chance.
inline constexpr size_t kMostSettings = 9;

// "learning_rate=1e-3,3e-3:outer_momentum=0,0.5,0.9"
Kind<std::vector<TunedOption>> TunedOptions();

// Returns whether the variant has the option and the user did not set it.
bool IsOpen(const TrainingVariant& variant, const std::string& option);

// Returns the settings of `variant` to try: each combination of the values of open options, or only the
// variant if there are no open options. Several settings are marked as tuned. Throws InvalidInput, one line
// that starts with --tune, for a value that the option does not allow and for more than kMostSettings
// combinations.
std::vector<TrainingVariant> ListSettings(const TrainingVariant& variant,
                                          std::span<const TunedOption> options, size_t element_bytes);

}  // namespace gradsync::bench
