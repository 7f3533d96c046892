#pragma once

namespace gradsync::bench {

// Returns the commit that this program was built from, followed by "-dirty" if files, except those in docs/,
// differed from the commit. Returns "unknown-dirty" in programs that do not depend on the Bazel target
// :build_stamp, such as tests, or if git found no commit during the build.
const char* BuildStamp();

}  // namespace gradsync::bench
