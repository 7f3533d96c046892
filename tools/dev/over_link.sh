#!/usr/bin/env bash
# tools/dev/over_link.sh [--ranks=N] RATE[,RATE...] PROGRAM [ARG...]: runs a benchmark in two network namespaces, which
# it takes for two hosts, with N ranks (1) in each, once for each RATE of the link between them in each direction, in
# tc's words (200mbit,4gbit). Records have the rate as "link_rate". After each run it says how many bytes each host sent
# over the link. As root. Memory and CPUs are still shared.
#
#   ./bazelw build //bench:ddp && tools/dev/over_link.sh 50mbit,200mbit,1gbit,4gbit bazel-bin/bench/ddp --out=DIR
set -euo pipefail

fail() {
  echo "over_link.sh: $2" >&2
  exit "$1"
}

ranks=1
if [[ ${1-} == --ranks=* ]]; then
  ranks=${1#--ranks=}
  shift
fi
if (($# < 2)) || [[ ! $ranks =~ ^[1-9][0-9]*$ || ! ${1-} =~ ^[1-9][0-9]*[kmg]bit(,[1-9][0-9]*[kmg]bit)*$ ]]; then
  fail 2 "needs rates and a program: tools/dev/over_link.sh [--ranks=N] 200mbit,4gbit bazel-bin/bench/ddp --out=DIR"
fi
for tool in ip tc; do
  command -v "$tool" >/dev/null || fail 1 "$tool is missing: BAZELW_EXTRAS=dev ./bazelw info installs it"
done
((EUID == 0)) || fail 1 "network namespaces need root"
IFS=, read -r -a rates <<<"$1"
shift

hosts=("gradsync$$a" "gradsync$$b")
pids=()
# shellcheck disable=SC2317  # called by the trap
finish() {
  kill "${pids[@]}" 2>/dev/null || true
  wait
  for host in "${hosts[@]}"; do ip netns del "$host" 2>/dev/null || true; done
}
trap finish EXIT

for host in "${hosts[@]}"; do ip netns add "$host"; done
ip link add link0 netns "${hosts[0]}" type veth peer name link0 netns "${hosts[1]}"
for host in 0 1; do
  ip -n "${hosts[host]}" address add "10.77.0.$((host + 1))/24" dev link0
  ip -n "${hosts[host]}" link set link0 up
  ip -n "${hosts[host]}" link set lo up
done

sent_by() { ip netns exec "${hosts[$1]}" cat /sys/class/net/link0/statistics/tx_bytes; }

status=0
for rate in "${rates[@]}"; do
  echo "over_link.sh: $rate" >&2
  zeros=${rate/kbit/000} zeros=${zeros/mbit/000000} bits=${zeros/gbit/000000000}
  # What may be sent at once after a pause: half a millisecond's, or a packet of 64 KiB, which the sender hands over
  # whole. More would let all that a strategy of few bytes sends pass as if there were no limit.
  burst=$((bits / 16000 > 70000 ? bits / 16000 : 70000))
  for host in "${hosts[@]}"; do
    tc -n "$host" qdisc replace dev link0 root tbf rate "$rate" burst "$burst" latency 100ms
  done
  before=("$(sent_by 0)" "$(sent_by 1)")
  pids=()
  # PyTorch, unlike gradsync, has to be told the interface.
  for ((rank = 0; rank < 2 * ranks; ++rank)); do
    ip netns exec "${hosts[rank / ranks]}" env RANK="$rank" WORLD_SIZE=$((2 * ranks)) LOCAL_RANK=$((rank % ranks)) \
      LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=link0 \
      GRADSYNC_LINK_RATE="$bits" "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  for host in 0 1; do
    echo "over_link.sh: host $host sent $(($(sent_by $host) - before[host])) bytes" >&2
  done
done
exit "$status"
