#pragma once

#include "model/base/flags.h"

// A benchmark gives each of its command-line flags zero or more of these marks, which say what it is for.
namespace gradsync::bench {

// The flag chooses the rows of the result table (strategies, backends, sizes of buckets), or for how long
// they are measured. With --choose, later starts of the ranks get other values.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// The flag chooses batch sizes or sequence lengths; rows are compared within each combination of these.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// The flag is about steps of another framework (PyTorch), which are measured in turn with gradsync's steps.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// The flag chooses how often the benchmark starts its ranks again (--repeats, --precision, --choose).
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
inline constexpr FlagMarks kOutput{1 << 4};
// Ranks do not compare their values of this flag: they may differ by host, or other code compares them.
inline constexpr FlagMarks kOfOneHost{1 << 5};
// The memory that --max_memory estimates depends on the flag.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// For language models only: sizes of the model (kOfTransformers), its text and sequences (kOfSequences).
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// A command that a tool suggests, to measure two rows again, has its own values of flags with these marks.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
