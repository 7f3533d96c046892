#!/usr/bin/env bash
# tools/dev/ab.sh [--program=NAME] [--launches=N] [--find=PERCENT] A B -- FLAG...: is commit B slower than A? Builds
# both in a tree of its own, launches their //bench:NAME (ddp) with the flags in turn, N times (3) each, and prints the
# table of summarize --baseline. Exit status: 1 a row is shown slower, has vanished, or is wrong; 0 no row is, or may be
# slower by PERCENT (5) or more; 125 it cannot be told, or a commit does not build or run; 129 bad arguments.
# `git bisect run` takes these: see CONTRIBUTING.md.
#
# The tree stays in GRADSYNC_AB (/tmp/gradsync_ab), so that the next call builds only what differs.
set -uo pipefail

fail() {
  echo "ab.sh: $2" >&2
  exit "$1"
}
usage() { fail 129 "$1: expected [--program=NAME] [--launches=N] [--find=PERCENT] A B -- FLAG..."; }

program=ddp
launches=3
find=5
commits=()
while (($# > 0)) && [[ $1 != -- ]]; do
  case $1 in
    --program=?*) program=${1#*=} ;;
    --launches=[1-9]*) launches=${1#*=} ;;
    --find=[0-9]*) find=${1#*=} ;;
    -*) usage "$1" ;;
    *) commits+=("$(git rev-parse --verify --quiet "$1^{commit}")") || usage "$1 is no commit" ;;
  esac
  shift
done
((${#commits[@]} == 2 && $# > 0)) || usage "two commits and --"
shift
command -v jq >/dev/null || fail 129 "jq is missing: BAZELW_EXTRAS=dev ./bazelw info installs it"

scratch=${GRADSYNC_AB:-/tmp/gradsync_ab}
tree=$scratch/tree
mkdir -p "$scratch" || exit 129
git worktree prune
[[ -e $tree ]] || git worktree add --quiet --detach "$tree" HEAD || exit 129
rm -rf "$scratch"/[ab] "$scratch"/results_[ab]

# Keeps what was built of a commit, so that nothing runs before both are there.
build() {  # build SIDE COMMIT
  git -C "$tree" checkout --quiet --detach "$2" || fail 125 "$2: cannot be checked out"
  (cd "$tree" && ./bazelw build --noshow_progress "//bench:$program" //tools:summarize) || fail 125 "$2 does not build"
  mkdir "$scratch/$1" || fail 125 "$scratch/$1: cannot be made"
  cp --recursive --dereference "$tree/bazel-bin/bench/$program"{,.runfiles} "$scratch/$1/" || fail 125 "$2: no program"
}
build a "${commits[0]}"
build b "${commits[1]}"

launch() {  # launch SIDE SEED FLAG...
  "$scratch/$1/$program" --seed="$2" --out="$scratch/results_$1" "${@:3}" </dev/null >"$scratch/log" 2>&1 || {
    tail --lines=3 "$scratch/log" >&2
    fail 125 "$1 does not run"
  }
}
# In turn, and the one that comes first changes too.
for ((i = 0; i < launches; ++i)); do
  sides=(a b)
  if ((i % 2 == 1)); then sides=(b a); fi
  for side in "${sides[@]}"; do launch "$side" "$i" "$@"; done
done

gate=("$tree/bazel-bin/tools/summarize" "$scratch/results_b" "--baseline=$scratch/results_a")
"${gate[@]}"
if (($? == 3)); then exit 1; fi
"${gate[@]}" --format=json 2>/dev/null | jq --exit-status --argjson find "$find" '
  [.tables[] | .columns as $names | .rows[] | [$names, .] | transpose | map({key: .[0], value: .[1]}) | from_entries
    | select((.verdict | startswith("only") or . == "faster" | not) and (.["difference_high (%)"] // infinite) >= $find)
  ] == []' >/dev/null ||
  fail 125 "cannot tell whether a row is slower by $find %: see above, and take more --launches or a longer --time"
