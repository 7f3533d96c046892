#!/usr/bin/env bash
# tools/dev/workspace_status.sh: prints what Bazel stamps into the benchmarks (bench/records/build_stamp.h): the commit,
# with "-dirty" behind it if any file but those of docs differs from it: no program is made from docs, where records
# are replaced as they are measured.
commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || commit=unknown
if [[ $commit == unknown || $(git status --porcelain -- . ':!docs') ]]; then commit+=-dirty; fi
echo "STABLE_GRADSYNC_COMMIT $commit"
