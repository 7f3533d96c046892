#!/usr/bin/env bash
# tools/dev/fuzz.sh [SECONDS [TARGET...]]: feeds each parser that takes what others wrote (all *_fuzz targets) what
# libFuzzer thinks of, for so many seconds (60), beginning with tests/fuzz/corpus, under AddressSanitizer and
# UndefinedBehaviorSanitizer. Prints a line for each. Inputs that end a program stay in ./fuzz-findings. Exits
# with 1 if there are any. BAZELW_EXTRAS=clang ./bazelw info installs clang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-60}
shift || true
targets=("$@")
((${#targets[@]} > 0)) || mapfile -t targets < <(./bazelw query --noshow_progress 'attr(tags, fuzz, //...)')
# Bazel builds an empty list without a word.
((${#targets[@]} > 0)) || { echo "fuzz.sh: found no target" >&2; exit 1; }
options=(--config=fuzz --experimental_convenience_symlinks=ignore)
./bazelw build "${options[@]}" "${targets[@]}"
bin=$(./bazelw info "${options[@]}" bazel-bin 2>/dev/null)
findings=$PWD/fuzz-findings
mkdir -p "$findings"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
for target in "${targets[@]}"; do
  program=${target#//}
  program=$bin/${program/://}
  corpus=$(./bazelw query --noshow_progress "labels(data, $target)" 2>/dev/null | sed 's|^//||; s|:|/|')
  name=${target##*:}
  mkdir -p "$work/$name"
  # A new input goes to the first folder: the repository's stays as it is.
  result=clean
  "$program" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$findings/$name." "$work/$name" "$corpus" >"$work/$name.log" 2>&1 || result=FELL
  printf '%-20s %8s inputs in %s s, %s\n' "$name" \
    "$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$name.log")" "$seconds" "$result"
  if [[ $result == FELL ]]; then
    status=1
    grep -E 'ERROR|SUMMARY|Test unit written' "$work/$name.log" || tail -n 20 "$work/$name.log"
  fi
done
rmdir --ignore-fail-on-non-empty "$findings"
exit "$status"
