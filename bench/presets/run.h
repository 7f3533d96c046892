#ifndef GRADSYNC_BENCH_PRESETS_RUN_H_
#define GRADSYNC_BENCH_PRESETS_RUN_H_

#include <optional>

namespace gradsync::bench {

// How the suite ended: its exit status, or the signal that asked it to stop.
struct SuiteEnd {
  int status = 0;
  std::optional<int> signal = {};
};

// //bench:suite: the experiments of a preset, each in its benchmark's own process, then their tables and a
// page. A request to stop goes to the benchmark that runs, and nothing is started after it. Throws
// InvalidInput for a bad command line.
SuiteEnd RunSuite(int argc, char** argv);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_RUN_H_
