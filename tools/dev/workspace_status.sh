#!/usr/bin/env bash
# tools/dev/workspace_status.sh: prints what Bazel stamps into the benchmarks (bench/records/build_stamp.h): the commit,
# with "-dirty" behind it if any file differs from it.
commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || commit=unknown
if [[ $commit == unknown || $(git status --porcelain) ]]; then commit+=-dirty; fi
echo "STABLE_GRADSYNC_COMMIT $commit"
