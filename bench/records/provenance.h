#ifndef GRADSYNC_BENCH_RECORDS_PROVENANCE_H_
#define GRADSYNC_BENCH_RECORDS_PROVENANCE_H_

#include "bench/records/record.h"

namespace gradsync::bench {

// What this process can find out about itself and its machine. What cannot be found stays empty, zero or
// "unknown"; nothing fails. The caller adds what it knows better: gpu, clock, more libraries.
//
// The commit is read at run time, through git, from BUILD_WORKSPACE_DIRECTORY, which `bazel run` sets:
// stamping it into the binary would make two builds of the same sources differ. Away from the sources it is
// what GRADSYNC_COMMIT says, with "-dirty" behind it if files differed; tools/dev/gather.sh writes it down.
Provenance CollectProvenance(int argc, const char* const* argv);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_PROVENANCE_H_
