#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/training/variant.h"
#include "model/base/flags.h"

// The flag --tune of //bench:convergence: for each variant (a strategy with options), the program first tries
// combinations of option values (settings). Then it trains the variant with the setting that had the lowest
// mean held-out loss.
namespace gradsync::bench {

struct TunedOption {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const TunedOption&) const = default;
};

// The largest number of combinations of option values that --tune may try for a variant. The number is
// limited because the lowest of many measured losses may be the lowest only by chance.
inline constexpr size_t kMostSettings = 9;

// "learning_rate=1e-3,3e-3:outer_momentum=0,0.5,0.9"
Kind<std::vector<TunedOption>> TunedOptions();

// Returns whether --tune may try values of the option named `option`: the variant's strategy or the benchmark
// (BenchOptions) must have this option, and the text with which the user named the variant must not set it.
bool IsOpen(const TrainingVariant& variant, const std::string& option);

// Returns the variants that --tune tries: copies of `variant`, one for each combination of values of those
// `options` that --tune may try for `variant` (IsOpen). Returns only `variant` if --tune may try none of the
// options. In each returned variant, the member `tuned` says whether ListSettings returned more than one
// variant. Throws InvalidInput if a value in `options` is not valid for its option, or if there are more than
// kMostSettings combinations.
std::vector<TrainingVariant> ListSettings(const TrainingVariant& variant,
                                          std::span<const TunedOption> options, size_t element_bytes);

}  // namespace gradsync::bench
