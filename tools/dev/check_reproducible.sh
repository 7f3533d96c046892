#!/usr/bin/env bash
# tools/dev/check_reproducible.sh [TARGET...]: builds every program and test, or those of the targets, twice, from
# copies of the tree at two paths, in two output bases, without a cache, and demands that each is the same byte for
# byte.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

targets=("$@")
((${#targets[@]} > 0)) || targets=(//...)

scratch=$(mktemp -d)
trees=("$scratch/one/gradsync" "$scratch/the-other/longer/path")

# Copies what git tracks, and what it would track, as it is on disk now. The copy is of the same commit, which is
# stamped into the benchmarks.
copy_tree() {  # copy_tree TO
  mkdir -p "$1"
  git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read --create |
    tar --directory="$1" --extract
  echo "gitdir: $(git rev-parse --absolute-git-dir)" >"$1/.git"
}

bazel_in() {  # bazel_in TREE ARGS...
  local tree=$1
  shift
  "$tree/bazelw" --output_base="${tree%/*}/output" --host_jvm_args=-Xmx1g --max_idle_secs=60 "$@"
}

cleanup() {
  local tree
  for tree in "${trees[@]}"; do
    if [[ -x $tree/bazelw ]]; then bazel_in "$tree" shutdown >/dev/null 2>&1 || true; fi
  done
  chmod -R u+w "$scratch"
  rm -rf "$scratch"
}
trap cleanup EXIT

build() {  # build TREE TARGET...
  local tree=$1
  shift
  echo "building in $tree"
  bazel_in "$tree" build --disk_cache= --curses=no --show_progress_rate_limit=60 --noshow_loading_progress \
    --experimental_convenience_symlinks=ignore -- "$@" >"${tree%/*}/log" 2>&1 || {
    tail -n 40 "${tree%/*}/log"
    exit 1
  }
}

for tree in "${trees[@]}"; do
  copy_tree "$tree"
  build "$tree" "${targets[@]}"
done

first_bin=$(bazel_in "${trees[0]}" info bazel-bin 2>/dev/null)
second_bin=$(bazel_in "${trees[1]}" info bazel-bin 2>/dev/null)

compared=0
different=0
while read -r label; do
  file=${label#//}
  file=${file/://}
  compared=$((compared + 1))
  if cmp --silent "$first_bin/$file" "$second_bin/$file"; then
    echo "same       $label"
  else
    echo "DIFFERENT  $label"
    different=$((different + 1))
  fi
done < <(bazel_in "${trees[0]}" query --noshow_progress "kind('cc_(binary|test) rule', set(${targets[*]}))" 2>/dev/null | sort)

echo "$compared programs compared, $different different"
((compared > 0 && different == 0))
