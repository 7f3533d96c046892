#!/usr/bin/env bash
# what_if refuses flags that it would not use, in one line that names them, and uses those that it takes.
set -euo pipefail

fail() {
  echo "FAILED: $1"
  cat "$TEST_TMPDIR/out"
  exit 1
}
recording=$TEST_TMPDIR/recording.jsonl
gzip --decompress --stdout docs/recordings/lstm.loopback.jsonl.gz >"$recording"
kept=$PWD/docs/records/all_reduce # compressed

refused() {  # refused TEXT ARGUMENT...
  local status=0
  tools/what_if "${@:2}" >"$TEST_TMPDIR/out" 2>&1 || status=$?
  [[ $status == 2 && $(<"$TEST_TMPDIR/out") == "what_if: $1"* ]] || fail "$*: status $status"
  (($(wc --lines <"$TEST_TMPDIR/out") == 1)) || fail "$*: more than a line"
}
for flag in within=100Gbit,1us algorithm=ring ranks_per_host=2; do
  refused "--${flag%%=*} is for a --link that is a rate and a latency" "$recording" "--$flag"
  refused "--${flag%%=*} is for a --link that is a rate and a latency" "$recording" --link="$kept" "--$flag"
done
for link in 25gbit,5us 25Gbps 25Gbit,0us; do
  refused "--link=$link: neither a rate and a latency such as 25Gbit,5us nor a file" "$recording" --link="$link"
done
refused '--within is for ranks that share a host' "$recording" --link=25Gbit --within=400Gbit
refused 'what_if takes a recording' --link=25Gbit
refused 'what_if takes one recording: put the lines of several launches into one file' "$recording" "$recording"
refused "$kept: no records (*.jsonl) in it, but " "$recording" --link="$kept"
refused 'one rank communicates with nobody' "$recording" --link=25Gbit --world_size=1

# step ARGUMENT...: of DDP with buckets of 25 MiB, in ms.
step() {
  tools/what_if "$recording" "$@" >"$TEST_TMPDIR/out" || fail "$*"
  awk '$1 == "25" { print $3 }' "$TEST_TMPDIR/out"
}
differ() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 1.05 * b && b > 0) }' || fail "$3: $1 and $2"; }
differ "$(step)" "$(step --processor_percent=0)" "communication's part of processors"
differ 300 "$(step --processor_percent=16)" "a hundredth of the per cent"
there=("--link=10Gbit,5us" --world_size=8 --ranks_per_host=4 --processor_percent=0)
differ "$(step "${there[@]}" --within=1Gbit)" "$(step "${there[@]}" --within=400Gbit)" "--within"
differ "$(step "${there[@]}" --algorithm=ring)" "$(step "${there[@]}" --algorithm=hierarchical)" "--algorithm"
echo PASSED
