#!/usr/bin/env bash
# tools/dev/check_arrows.sh: proves that a dependency against the architecture's arrows does not build.
#
# For each arrow it puts a package with that one dependency beside the real ones, in a copy of the tree, and asks
# Bazel to analyse it. A forbidden one must fail with a visibility error, an allowed one must not.
set -euo pipefail

workspace=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tools/dev/tree.sh
source "$workspace/tools/dev/tree.sh"

# verdict, package that depends, target depended on
arrows='
allowed    comm              //model:tensor
allowed    comm              //model:device
forbidden  comm              //model:autograd
forbidden  comm              //model:functions
forbidden  comm              //ddp:factory
forbidden  model             //comm:process_group
forbidden  model             //ddp:strategy
allowed    ddp               //comm:process_group
allowed    ddp               //model:autograd
forbidden  ddp               //comm:local_process_group
forbidden  ddp               //comm/gloo:gloo_process_group
forbidden  ddp               //bench/records:record
allowed    bench             //comm:factory
allowed    bench             //ddp:factory
forbidden  bench             //comm/gloo:gloo_process_group
forbidden  bench             //ddp:core
forbidden  bench             //tools/statistics:statistics
allowed    bench/training    //bench/peers:options
forbidden  bench/training    //bench/presets:options
forbidden  bench/training    //bench/collectives:options
forbidden  bench/peers       //bench/training:trainer
forbidden  bench/launch      //bench/peers:options
forbidden  bench/timing      //bench/launch:flags
forbidden  bench/records     //bench/timing:phase_timer
allowed    tools             //bench/records:record
allowed    tools             //bench/launch:flags
allowed    tools             //comm/processes:run_command
forbidden  tools             //bench/launch:rank_main
forbidden  tools             //bench/training:trainer
forbidden  tools             //comm:process_group
forbidden  tools             //ddp:factory
forbidden  tools             //model:tensor
allowed    tools/reports     //tools/timelines:timelines
forbidden  tools/timelines   //tools/reports:reports
forbidden  tools/charts      //tools/timelines:timelines
forbidden  tools/render      //tools/charts:charts
forbidden  tools/tables      //tools/render:render
forbidden  tools/records     //tools/tables:tables
forbidden  tools/statistics  //tools/records:measurement
'

scratch=$(mktemp -d)
bazel() {
  "$scratch/tree/bazelw" --output_base="$scratch/output" --host_jvm_args=-Xmx1g --max_idle_secs=60 "$@"
}
cleanup() {
  bazel shutdown >/dev/null 2>&1 || true
  chmod -R u+w "$scratch"
  rm -rf "$scratch"
}
trap cleanup EXIT

copy_tree "$workspace" "$scratch/tree"

# The probe of an arrow is //PACKAGE/arrow_probe:LINE.
probes=()
line=0
while read -r verdict package target; do
  [[ $verdict == '' ]] && continue
  line=$((line + 1))
  mkdir -p "$scratch/tree/$package/arrow_probe"
  printf 'cc_library(name = "%s", deps = ["%s"])\n' "$line" "$target" >>"$scratch/tree/$package/arrow_probe/BUILD.bazel"
  probes+=("//$package/arrow_probe:$line")
done <<<"$arrows"

bazel build --nobuild --keep_going "${probes[@]}" >"$scratch/log" 2>&1 || true

line=0
wrong=0
while read -r verdict package target; do
  [[ $verdict == '' ]] && continue
  line=$((line + 1))
  probe=//$package/arrow_probe:$line
  # What Bazel says about this probe, whether it built or not.
  if grep -qE "target '$target' is not visible from target '$probe'" "$scratch/log"; then
    found=forbidden
  elif grep -qF "'$probe'" "$scratch/log"; then
    found="an error of another kind"
  else
    found=allowed
  fi
  if [[ $found == "$verdict" ]]; then
    echo "ok      $verdict: $package -> $target"
  else
    echo "WRONG   $package -> $target is $found, not $verdict"
    grep -F "'$probe'" "$scratch/log" || true
    wrong=$((wrong + 1))
  fi
done <<<"$arrows"

((wrong == 0)) || exit 1
echo "all $line arrows hold"
