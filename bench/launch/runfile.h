#ifndef GRADSYNC_BENCH_LAUNCH_RUNFILE_H_
#define GRADSYNC_BENCH_LAUNCH_RUNFILE_H_

#include <string>

namespace gradsync::bench {

// Where Bazel put a file that the program `argv0` has as data: "bench/ddp". Throws InvalidInput if it is not
// there or cannot be executed, or read if it is not `executable`.
std::string RunfilePath(const char* argv0, const std::string& file, bool executable = true);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RUNFILE_H_
