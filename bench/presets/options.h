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
// Returns the approximate duration of a preset: "6 minutes on two cores".
std::string_view Length(Preset preset);

// The options on the command line of //bench:suite.
struct SuiteOptions {
  RankOptions ranks;
  Preset preset = Preset::kQuick;
  std::vector<std::string> backends;  // the backends; empty: the preset's backends
  std::string corpus;
  PeerOptions peers;

  void AddTo(FlagTable& flags);
};

// One run of a benchmark.
struct Experiment {
  std::string title;
  std::string program;                 // "all_reduce", "ddp" or "compare"
  std::vector<std::string> arguments;  // without --out
  // The subdirectory of the suite's directory for the experiment's records; empty: the suite's directory.
  std::string subdirectory;
};

// The suite runs the first alternative for which this host has enough memory. A program that lacks memory
// exits with kLacking.
using Alternatives = std::vector<Experiment>;

// Returns the experiments of the preset, in order; --help explains the presets. The alternatives of a
// published model are models that need less memory. The benchmarks check their flags themselves.
std::vector<Alternatives> MakeExperiments(SuiteOptions options);

}  // namespace gradsync::bench
