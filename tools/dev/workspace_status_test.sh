#!/usr/bin/env bash
# workspace_status.sh in a repository of its own: what it says of a commit, of changes, and without git.
set -euo pipefail

status=$PWD/tools/dev/workspace_status.sh
mkdir "$TEST_TMPDIR/tree"
cd "$TEST_TMPDIR/tree"
export GIT_CEILING_DIRECTORIES=$TEST_TMPDIR GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
export HOME=$TEST_TMPDIR

expect() {  # expect WHEN PATTERN
  local said
  said=$("$status")
  [[ $said =~ ^STABLE_GRADSYNC_COMMIT\ $2$ ]] || {
    echo "FAILED: $1: $said"
    exit 1
  }
}

expect "without a repository" 'unknown-dirty'
command -v git >/dev/null || { echo "skipped from here: git is missing" && exit; }
git init --quiet
expect "without a commit" 'unknown-dirty'
touch file
git add file
git commit --quiet --message=first
expect "a commit" '[0-9a-f]{40}'
echo change >file
expect "a changed file" '[0-9a-f]{40}-dirty'
git checkout --quiet file
expect "no change any more" '[0-9a-f]{40}'
mkdir docs
touch docs/record
expect "a new record" '[0-9a-f]{40}'
touch new
expect "a new file" '[0-9a-f]{40}-dirty'
echo PASSED
