#ifndef GRADSYNC_BENCH_PRESETS_STATE_H_
#define GRADSYNC_BENCH_PRESETS_STATE_H_

#include <string>
#include <vector>

#include "bench/presets/options.h"

namespace gradsync::bench {

// An experiment of a suite, and what has become of it.
struct Progressed {
  Experiment experiment;
  bool done = false;
  std::vector<std::string> files = {};  // that it wrote, below the suite's directory
};

// What a suite has done so far, in <directory>/suite.json: so that another process can go on with it.
struct SuiteState {
  std::vector<Progressed> experiments;
};

// Replaces the file by a whole one. Throws std::runtime_error with its path.
void SaveState(const SuiteState& state, const std::string& directory);

// Throws InvalidInput, naming the file, if there is none or it is not as SaveState leaves it.
SuiteState LoadState(const std::string& directory);

// The files with records or traces in an experiment's directory, below the suite's, ascending.
std::vector<std::string> FilesOf(const Experiment& experiment, const std::string& directory);

// Moves what experiments that are not done have left behind to <directory>/unfinished, where no table looks.
// Throws std::filesystem::filesystem_error.
void SetUnfinishedAside(const SuiteState& state, const std::string& directory);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_STATE_H_
