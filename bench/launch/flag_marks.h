#pragma once

#include "model/base/flags.h"

// What the flags of benchmarks are for.
namespace gradsync::bench {

// What is compared, and for how long. After the first launch of --choose, launches have their own.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// The settings in which it is compared.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// Other frameworks that take turns.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// How many launches there are.
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
// Where results go.
inline constexpr FlagMarks kOutput{1 << 4};
// May differ between the hosts of a run, or is compared otherwise.
inline constexpr FlagMarks kOfOneHost{1 << 5};
// The estimate of --max_memory reads it.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// Has a meaning only for models of sequences: sizes of the model, and the sequences.
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// Everything that a command for two rows of one setting chooses itself.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
