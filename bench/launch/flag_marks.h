#pragma once

#include "model/base/flags.h"

// The constants in this file are marks, which say what a command-line flag is for. A flag may have no mark,
// one mark or several marks.
namespace gradsync::bench {

// A flag with the mark kChoosesRows chooses the rows of the result table (strategies, backends, sizes of
// buckets), or for how long the rows are measured (--steps, --time). With --choose, the program starts all
// ranks several times. From the second start on, the ranks get the flags --variants and --steps that
// //tools:summarize prints, instead of the user's flags with the mark kChoosesRows.
inline constexpr FlagMarks kChoosesRows{1 << 0};
// A flag with the mark kChoosesSettings chooses batch sizes, numbers of batches in a step, or sequence
// lengths. //tools:summarize compares two rows of its result table only if they have equal batch sizes,
// numbers of batches and sequence lengths.
inline constexpr FlagMarks kChoosesSettings{1 << 1};
// A flag with this mark chooses whether, or how, the benchmark measures training steps of another framework
// (PyTorch) in addition to gradsync's.
inline constexpr FlagMarks kChoosesPeers{1 << 2};
// A flag with this mark chooses how often the benchmark starts its ranks (--repeats, --precision, --choose).
inline constexpr FlagMarks kChoosesLaunches{1 << 3};
inline constexpr FlagMarks kOutput{1 << 4};
// When the ranks connect, they check that each flag without the mark kOfOneHost has the same value on all
// ranks. Values are compared as texts, so 1MiB and 1048576 differ. The ranks do not compare flags with the
// mark kOfOneHost: such a flag's value may differ by host (--interface), or other code compares it with the
// number of ranks that a launcher started (--world_size).
inline constexpr FlagMarks kOfOneHost{1 << 5};
// With --max_memory, the program only prints estimates of memory. So with --max_memory the program refuses
// all flags without the mark kNeedsMemory, because they would have no effect.
inline constexpr FlagMarks kNeedsMemory{1 << 6};
// Flags with the mark kOfTransformers or kOfSequences affect only language models, and are refused for other
// models. A flag with the mark kOfTransformers sets a size of the model. A flag with the mark kOfSequences
// sets the training text or the length of the training sequences.
inline constexpr FlagMarks kOfTransformers{1 << 7};
inline constexpr FlagMarks kOfSequences{1 << 8};

// //tools:summarize may print a command with which the user can measure two rows of the result table again.
// The command repeats all flags given to the measured run that have none of the marks in kChoosesRun.
// //tools:summarize adds its own values of some flags with these marks, such as --variants and --out.
inline constexpr FlagMarks kChoosesRun =
    kChoosesRows | kChoosesSettings | kChoosesPeers | kChoosesLaunches | kOutput;

}  // namespace gradsync::bench
