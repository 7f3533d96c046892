#ifndef GRADSYNC_BENCH_PRESETS_RUN_H_
#define GRADSYNC_BENCH_PRESETS_RUN_H_

namespace gradsync::bench {

// The main function of //bench:suite: the experiments of a preset, each in its benchmark's own process, then
// their tables and a page. A request to stop goes to the benchmark that runs, nothing is started after it,
// and this process ends by it. Returns the exit status: 0 done, 1 something failed, 2 bad arguments, named in
// one line on stderr.
int RunSuite(int argc, char** argv);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_RUN_H_
