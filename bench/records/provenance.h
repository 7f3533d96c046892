#ifndef GRADSYNC_BENCH_RECORDS_PROVENANCE_H_
#define GRADSYNC_BENCH_RECORDS_PROVENANCE_H_

#include <string>

#include "bench/records/record.h"

namespace gradsync::bench {

// What this process finds out about itself and its machine. What it cannot find stays empty, zero or
// "unknown"; it never throws. The caller adds gpu, clock and more libraries.
//
// The commit is read at run time, through git, because stamping it into the binary would make two builds of
// the same sources differ: it is that of the sources as they are now. They are found at
// BUILD_WORKSPACE_DIRECTORY, which `bazel run` sets, or through the place where Bazel built this program.
// Away from the sources it is what GRADSYNC_COMMIT says, with "-dirty" behind it if files differed;
// tools/dev/gather.sh writes it down. Where it is unknown, files may have differed from anything: dirty.
Provenance CollectProvenance(int argc, const char* const* argv);

// The directory of the sources that Bazel built `program` from, or empty: Bazel notes it at the top of its
// outputs.
std::string SourcesOf(const std::string& program);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_PROVENANCE_H_
