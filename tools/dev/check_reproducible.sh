#!/usr/bin/env bash
# tools/dev/check_reproducible.sh [TARGET...]: builds every program and test, or those of the targets, twice, from
# clones of HEAD at two paths, in two output bases, without a cache, and demands that each is the same byte for byte.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

targets=("$@")
((${#targets[@]} > 0)) || targets=(//...)

scratch=$(mktemp -d)
trees=("$scratch/one/gradsync" "$scratch/the-other/longer/path")

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

for tree in "${trees[@]}"; do
  git clone --quiet . "$tree"
  echo "building in $tree"
  bazel_in "$tree" build --disk_cache= --curses=no --show_progress_rate_limit=60 --noshow_loading_progress \
    --experimental_convenience_symlinks=ignore -- "${targets[@]}" >"${tree%/*}/log" 2>&1 || {
    tail -n 40 "${tree%/*}/log"
    exit 1
  }
done

first_bin=$(bazel_in "${trees[0]}" info bazel-bin 2>/dev/null)
second_bin=$(bazel_in "${trees[1]}" info bazel-bin 2>/dev/null)

compared=0
different=0
while read -r label; do
  file=${label#//}
  file=${file/://}
  compared=$((compared + 1))
  if diff --recursive --brief "$first_bin/$file" "$second_bin/$file" >/dev/null; then
    echo "same       $label"
  else
    echo "DIFFERENT  $label"
    different=$((different + 1))
  fi
done < <(bazel_in "${trees[0]}" query --noshow_progress "kind('(cc_binary|cc_test) rule', set(${targets[*]}))" 2>/dev/null | sort)

echo "$compared outputs compared, $different different"
((compared > 0 && different == 0))
