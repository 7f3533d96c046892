#ifndef GRADSYNC_BENCH_LEARNING_TUNING_H_
#define GRADSYNC_BENCH_LEARNING_TUNING_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/training/variant.h"
#include "model/base/flags.h"

// --tune: which settings of a variant are tried before it is judged.
namespace gradsync::bench {

// The values of one option that are tried.
struct TunedOption {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const TunedOption&) const = default;
};

// No variant is tried with more settings than these: a row with more tries has a better chance.
inline constexpr size_t kMostSettings = 9;

// "learning_rate=1e-3,3e-3:outer_momentum=0,0.5,0.9"
Kind<std::vector<TunedOption>> TunedOptions();

// Whether the variant takes the option and was not given it.
bool IsOpen(const TrainingVariant& variant, const std::string& option);

// What is tried of `variant`: each combination of the values of the options that are open; the variant alone
// if there are none. Marked as tuned if there are several. Throws InvalidInput, in a line that begins with
// --tune, for a value that the option does not allow and for more than kMostSettings combinations.
std::vector<TrainingVariant> SettingsOf(const TrainingVariant& variant, std::span<const TunedOption> options,
                                        size_t element_bytes);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_TUNING_H_
