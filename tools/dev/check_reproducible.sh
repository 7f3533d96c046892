#!/usr/bin/env bash
# tools/dev/check_reproducible.sh [TARGET...]: builds every program and test, or those of the targets, twice, from
# copies of the tree at two paths, in two output bases, without a cache, and demands that each is the same byte for
# byte. The second build runs without a network where that can be arranged, so that it also shows that nothing is
# fetched.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

targets=("$@")
((${#targets[@]} > 0)) || targets=(//...)

scratch=$(mktemp -d)
trees=("$scratch/one/gradsync" "$scratch/the-other/longer/path")

# Copies what git tracks, and what it would track, as it is on disk now.
copy_tree() {  # copy_tree TO
  mkdir -p "$1"
  git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read --create |
    tar --directory="$1" --extract
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

# Runs a function of this script in a network of its own that has the loopback interface and nothing else.
without_network() {
  local enter=(unshare --net)
  if (($(id -u) != 0)); then enter+=(--map-root-user); fi
  if ! "${enter[@]}" ip link set lo up 2>/dev/null; then
    echo "cannot make a network namespace here: this build may use the network" >&2
    "$@"
    return
  fi
  export -f bazel_in
  "${enter[@]}" bash -c 'ip link set lo up && "$@"' without_network "$@"
}

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
export -f build

for tree in "${trees[@]}"; do copy_tree "$tree"; done
build "${trees[0]}" "${targets[@]}"
without_network build "${trees[1]}" "${targets[@]}"

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
