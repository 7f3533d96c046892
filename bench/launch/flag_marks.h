#pragma once

#include "model/base/flags.h"

// A benchmark gives each of its command-line flags zero or more of these marks, which say what the flag is
// for.
namespace gradsync::bench {

// The flag chooses the rows of the result table (strategies, backends, sizes of buckets), or for how long
// they are measured (--steps, --time). With --choose, all starts of the ranks after the first get --variants
// and --steps from //tools:summarize instead of these flags.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// The flag chooses batch sizes, numbers of batches in a step, or sequence lengths. The result table compares
// rows only if these are equal.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// The flag is about steps of another framework (PyTorch), which are measured in turn with gradsync's steps.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// The flag chooses how often the benchmark starts its ranks (--repeats, --precision, --choose).
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
inline constexpr FlagMarks kOutput{1 << 4};
// For flags without this mark, ranks check when they connect that all have an equal value. A flag with this
// mark is not compared then: its value may differ by host (--interface), or other code compares it
// (--world_size).
inline constexpr FlagMarks kOfOneHost{1 << 5};
// Flags without this mark are refused together with --max_memory, with which the program only estimates
// memory: they would have no effect.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// Flags with the mark kOfTransformers or kOfSequences affect only language models, and are refused for other
// models. kOfTransformers: the flag sets a size of the model. kOfSequences: the flag is about the text or the
// length of its sequences.
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// //tools:summarize may suggest a command that measures two rows of the result table again. It sets or omits
// flags with one of these marks; for all other flags the command has the values of the measured run.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
