#ifndef GRADSYNC_BENCH_PRESETS_RUN_H_
#define GRADSYNC_BENCH_PRESETS_RUN_H_

namespace gradsync::bench {

// The main function of //bench:suite. The function runs the experiments of a preset, each in a process of its
// benchmark, and then writes tables and a page of figures. A signal to stop is sent to the running benchmark;
// no other program is started, and this process ends by the signal. Returns the exit status: 0 if all
// succeeded, 1 if something failed, 2 for bad arguments, which it names in one line on stderr.
int RunSuite(int argc, char** argv);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PRESETS_RUN_H_
