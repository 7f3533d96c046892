#ifndef GRADSYNC_BENCH_PRESETS_OPTIONS_H_
#define GRADSYNC_BENCH_PRESETS_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/peers/options.h"
#include "model/base/flags.h"

namespace gradsync::bench {

enum class Preset { kSmoke, kQuick, kReference };
std::string_view Name(Preset preset);
// How long it takes, about: "6 minutes on two cores".
std::string_view Length(Preset preset);

// What //bench:suite takes on its command line.
struct SuiteOptions {
  RankOptions ranks;
  Preset preset = Preset::kQuick;
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

// Of these the first runs for which this host has the memory when its turn has come: programs end with
// kLacking.
using Alternatives = std::vector<Experiment>;

// The experiments of the preset, in order; --help says what each preset is for. After a published model come
// those that take less memory. Throws InvalidInput if a benchmark would refuse the flags, naming the flag.
std::vector<Alternatives> MakeExperiments(SuiteOptions options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_OPTIONS_H_
