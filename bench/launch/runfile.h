#ifndef GRADSYNC_BENCH_LAUNCH_RUNFILE_H_
#define GRADSYNC_BENCH_LAUNCH_RUNFILE_H_

#include <string>

namespace gradsync::bench {

// Returns the path of a data file, such as "bench/ddp", of the program `argv0` under Bazel. Throws
// InvalidInput if it does not exist or cannot be executed, or, unless `executable`, read.
std::string RunfilePath(const char* argv0, const std::string& file, bool executable = true);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RUNFILE_H_
