#pragma once

#include "model/base/flags.h"

// Marks of the flags of benchmarks. Each mark says what the flags that have it are for.
namespace gradsync::bench {

// The flag chooses the rows (strategies, backends, sizes of buckets), or for how long they are measured. With
// --choose, launches after the first one get other values of such flags.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// The flag chooses the settings in which rows are compared.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// The flag chooses other frameworks, whose steps take turns with gradsync's.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// The flag chooses the number of launches.
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
// The flag chooses where results are written.
inline constexpr FlagMarks kOutput{1 << 4};
// The flag may have different values on the hosts of a run, or other code compares its values.
inline constexpr FlagMarks kOfOneHost{1 << 5};
// The estimate of --max_memory depends on the flag.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// The flag is only for language models: kOfTransformers for the model's sizes, kOfSequences for its data.
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// The flags that a suggested command for two rows of one setting sets itself.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
