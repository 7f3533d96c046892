#!/usr/bin/env bash
# what_if refuses flags that it would not use, in one line that names them, and uses those that it takes.
set -euo pipefail

fail() {
  echo "FAILED: $1"
  cat "$TEST_TMPDIR/out"
  exit 1
}
recording=$TEST_TMPDIR/recording.jsonl
records=$TEST_TMPDIR/docs/records
echo '{"gradsync_torch": 1}' >"$recording"
for file in docs/records/{sharding,calibration}/*.gz; do
  mkdir -p "$TEST_TMPDIR/${file%/*}"
  gzip --decompress --stdout "$file" >"$TEST_TMPDIR/${file%.gz}"
done

refused() {  # refused TEXT ARGUMENT...
  local status=0
  tools/what_if "${@:2}" >"$TEST_TMPDIR/out" 2>&1 || status=$?
  [[ $status == 2 && $(<"$TEST_TMPDIR/out") == "what_if: $1"* ]] || fail "$*: status $status"
  (($(wc --lines <"$TEST_TMPDIR/out") == 1)) || fail "$*: more than a line"
}
for flag in model=small calibration="$records" variants=core out="$TEST_TMPDIR/map.svg" measured="$records"; do
  refused "--${flag%%=*} is for records of gradsync's strategies" "$recording" --link=25Gbit "--$flag"
done
refused '--at is for a recording of a PyTorch model' "$records/sharding" --link=25Gbit --at="$recording"
for from in "$recording" "$records/sharding"; do
  for flag in within=100Gbit,1us algorithm=ring; do
    refused "--${flag%%=*} is for a --link that is a rate and a latency" "$from" "--$flag"
  done
  refused '--ranks_per_host is for a --link that is a rate' "$from" --link="$records/calibration" --ranks_per_host=2
  for link in 25gbit,5us 25Gbps 25Gbit,0us; do
    refused "--link=$link: neither a rate and a latency such as 25Gbit,5us nor a file" "$from" --link="$link"
  done
done
refused '--ranks_per_host is for a --link that is a rate' "$recording" --ranks_per_host=2
refused '--within is for ranks that share a host' "$recording" --link=25Gbit --within=400Gbit
refused 'what_if takes one recording: put the lines of several launches into one file' "$recording" "$recording"
kept=$PWD/docs/records/calibration # compressed
refused "$kept: no records (*.jsonl) in it, but " "$kept"
for flag in link calibration measured; do
  refused "$kept: no records (*.jsonl) in it, but " "$records/sharding" "--$flag=$kept"
done
refused 'one rank communicates with nobody' "$records/sharding" --link=25Gbit --world_size=1

# step ARGUMENT...: of core over gloo, in ms.
step() {
  tools/what_if "$records/sharding" --variants=core@gloo "$@" >"$TEST_TMPDIR/out" || fail "$*"
  awk '$1 == "core@gloo" { print $2 }' "$TEST_TMPDIR/out"
}
differ() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 1.05 * b && b > 0) }' || fail "$3: $1 and $2"; }
here=(--calibration="$records/calibration")
echo notes >"$TEST_TMPDIR/notes.txt"
[[ $(tools/what_if "$records/sharding" "$TEST_TMPDIR/notes.txt" "${here[@]}" 2>&1) == "$TEST_TMPDIR/notes.txt:1: not JSON"* ]] ||
  fail "a line that is no record is not named"
differ "$(step "${here[@]}")" "$(step "${here[@]}" --processor_percent=0)" "communication's part of processors"
differ 200 "$(step "${here[@]}" --processor_percent=16)" "a hundredth of the per cent"
there=("--link=10Gbit,5us" --world_size=8 --ranks_per_host=4 --processor_percent=0)
differ "$(step "${there[@]}" --within=1Gbit)" "$(step "${there[@]}" --within=400Gbit)" "--within"
differ "$(step "${there[@]}" --algorithm=ring)" "$(step "${there[@]}" --algorithm=hierarchical)" "--algorithm"
echo PASSED
