#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/peers/options.h"
#include "model/base/flags.h"

namespace gradsync::bench {

enum class Preset { kSmoke, kQuick, kReference };
std::string_view Name(Preset preset);
// Returns about how long the suite takes with this preset: "6 minutes on two cores".
std::string_view Length(Preset preset);

// The command line of //bench:suite, which runs several benchmarks one after the other.
struct SuiteOptions {
  RankOptions ranks;
  Preset preset = Preset::kQuick;
  std::vector<std::string> backends;  // the backends; empty: the preset's backends
  std::string corpus;
  PeerOptions peers;

  void AddTo(FlagTable& flags);
};

// One benchmark program that the suite runs, and its arguments.
struct Experiment {
  std::string title;
  std::string program;                 // "all_reduce", "ddp" or "compare"
  std::vector<std::string> arguments;  // without --out
  // The subdirectory, of the suite's output directory, for the results of this run; empty if they are written
  // to that directory itself.
  std::string subdirectory;
};

// Runs of which the suite takes the first for which this host has enough memory. A program exits with status
// kLacking if memory is too small, and then the suite runs the next one.
using Alternatives = std::vector<Experiment>;

// Returns the runs of the preset, in order. The alternatives to a large model are models that need less
// memory.
std::vector<Alternatives> MakeExperiments(SuiteOptions options);

}  // namespace gradsync::bench
