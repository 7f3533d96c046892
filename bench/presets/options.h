#ifndef GRADSYNC_BENCH_PRESETS_OPTIONS_H_
#define GRADSYNC_BENCH_PRESETS_OPTIONS_H_

#include <string>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/peers/options.h"
#include "bench/training/memory.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// What //bench:suite takes on its command line.
struct SuiteOptions {
  RankOptions ranks;
  std::string preset = "quick";
  std::vector<std::string> backends;  // empty: those of the preset
  std::string corpus;
  PeerOptions peers;

  void AddTo(FlagTable& flags);
};

// One run of a benchmark.
struct Experiment {
  std::string title;
  std::string program;                 // "all_reduce", "ddp" or "compare"
  std::vector<std::string> arguments;  // without --out
  // Where its records go, below the suite's directory; empty: into it.
  std::string subdirectory;
};

// The experiments of the preset, in order; --help says what each preset is for. Where this host has not the
// memory for a published model, the largest that fits takes its place. `notes` gets a line for everything
// that was left out or replaced. Throws InvalidInput if a benchmark would refuse the flags, naming the flag.
std::vector<Experiment> MakeExperiments(SuiteOptions options, std::vector<std::string>* notes,
                                        const MemoryLimits& memory = MemoryOfThisHost());

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_OPTIONS_H_
