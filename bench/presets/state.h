#ifndef GRADSYNC_BENCH_PRESETS_STATE_H_
#define GRADSYNC_BENCH_PRESETS_STATE_H_

#include <string>
#include <vector>

#include "bench/presets/options.h"

namespace gradsync::bench {

// What a suite has done so far is in <directory>/suite.json, so that another process can go on with it. This
// replaces the file by a whole one. Throws std::runtime_error with its path.
void SaveState(const std::vector<Experiment>& experiments, const std::string& directory);

// Throws InvalidInput, naming the file, if there is none or it is not as SaveState leaves it.
std::vector<Experiment> LoadState(const std::string& directory);

// The files with records or traces in an experiment's directory, below the suite's, ascending.
std::vector<std::string> FilesOf(const Experiment& experiment, const std::string& directory);

// Moves what experiments that are not done have left behind to <directory>/unfinished, where no table looks.
// Throws std::filesystem::filesystem_error.
void SetUnfinishedAside(const std::vector<Experiment>& experiments, const std::string& directory);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_STATE_H_
