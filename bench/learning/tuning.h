#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/training/variant.h"
#include "model/base/flags.h"

// The flag --tune of //bench:convergence lists values of options, such as learning_rate. For each variant (a
// strategy with options), the program tries the combinations of values that ListSettings returns. The program
// then trains the variant with the combination that had the lowest mean held-out loss.
namespace gradsync::bench {

struct TunedOption {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const TunedOption&) const = default;
};

// The largest number of combinations of option values that --tune may try for a variant.
inline constexpr size_t kMostSettings = 9;

// Returns the Kind (functions that parse and print values) of the flag --tune, whose value is a text such as
// "learning_rate=1e-3,3e-3:outer_momentum=0,0.5,0.9".
Kind<std::vector<TunedOption>> TunedOptions();

// Returns whether the variant accepts the option named `option`, and the user has not set this option for the
// variant.
bool IsOpen(const TrainingVariant& variant, const std::string& option);

// Returns one copy of `variant` for each combination of the values in `options`. Ignores options that the
// variant does not accept, or that the user has set for the variant. If ListSettings returns several copies,
// `tuned` is true in each copy. Throws InvalidInput if an option does not accept one of its values, or if
// there would be more than kMostSettings copies.
std::vector<TrainingVariant> ListSettings(const TrainingVariant& variant,
                                          std::span<const TunedOption> options, size_t element_bytes);

}  // namespace gradsync::bench
