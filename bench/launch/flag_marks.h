#pragma once

#include "model/base/flags.h"

// A benchmark gives each command-line flag zero or more of these marks, which say what the flag is for. Code
// then handles all flags with one mark together.
namespace gradsync::bench {

// The flag chooses the rows of the result table (strategies, backends, sizes of buckets), or for how long
// they are measured. With --choose, the second and later starts of the benchmark get other values of such
// flags.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// The flag chooses batch sizes or sequence lengths; each combination of them has its own comparison of the
// rows.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// The flag is about steps of another framework (PyTorch), which are measured in turn with gradsync's steps.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// The flag chooses how often the benchmark starts its ranks again (--repeats, --precision, --choose).
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
// The flag chooses where results are written.
inline constexpr FlagMarks kOutput{1 << 4};
// Hosts may have different values of the flag, or other code compares them; ranks do not compare the flag
// when they meet.
inline constexpr FlagMarks kOfOneHost{1 << 5};
// The memory that --max_memory estimates depends on the flag.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// Flags for language models only. kOfTransformers marks the sizes of the model, kOfSequences the text and the
// lengths of its sequences.
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// When a tool prints a command that measures two rows again, it leaves out the given flags with these marks,
// and sets its own values of them.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
