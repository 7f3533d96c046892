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
// Returns about how long //bench:suite takes with the preset `preset`, such as "6 minutes on two cores".
std::string_view Length(Preset preset);

// The values of the flags of //bench:suite, a program that runs several benchmarks one after the other.
struct SuiteOptions {
  RankOptions ranks;
  Preset preset = Preset::kQuick;
  std::vector<std::string> backends;  // the backends; empty: the preset's backends
  std::string corpus;
  PeerOptions peers;

  void AddTo(FlagTable& flags);
};

struct Experiment {
  std::string title;
  std::string program;                 // "all_reduce", "ddp" or "compare"
  std::vector<std::string> arguments;  // without --out
  std::string subdirectory;            // for the results, below the suite's output directory; may be empty
};

// A list of runs of a benchmark program, each of which needs less memory than the run before it.
// //bench:suite starts the first run of the list. If a run ends with the exit status kLacking (too little
// memory), the suite starts the next run of the list, which needs less memory. If a run ends with another
// status, the suite leaves out the remaining runs of the list.
using Alternatives = std::vector<Experiment>;

// Returns the benchmark runs of `options.preset` in the order in which the suite executes them. Each element
// of the returned vector lists runs that the suite starts, one after the other, until one has enough memory.
std::vector<Alternatives> MakeExperiments(SuiteOptions options);

}  // namespace gradsync::bench
