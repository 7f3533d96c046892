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
// Returns the approximate duration of //bench:suite as a text, such as "6 minutes on two cores" for kQuick.
std::string_view Length(Preset preset);

// The flags of //bench:suite, a program that runs several benchmarks one after the other.
struct SuiteOptions {
  RankOptions ranks;
  Preset preset = Preset::kQuick;
  std::vector<std::string> backends;  // if empty, the preset's default backends
  std::string corpus;
  PeerOptions peers;

  void AddTo(FlagTable& flags);
};

struct Experiment {
  std::string title;
  std::string program;                 // "all_reduce", "ddp" or "compare"
  std::vector<std::string> arguments;  // the program's flags, without --out
  std::string subdirectory;            // of the suite's output directory, for the results; may be empty
};

// Versions of one benchmark run; each version needs less memory than the version before it. The suite starts
// one version after another until a version ends with an exit status other than kLacking (the machine lacks
// something, such as memory).
using Alternatives = std::vector<Experiment>;

// Returns one Alternatives (the versions of one benchmark run) for each benchmark run of `options.preset`, in
// the order of execution.
std::vector<Alternatives> MakeExperiments(SuiteOptions options);

}  // namespace gradsync::bench
