#!/usr/bin/env bash
# tools/dev/over_link.sh [--ranks=N] RATE PROGRAM [ARG...]: runs a benchmark in two network namespaces, which it takes
# for two hosts, with N ranks (1) in each, joined by a link of RATE in each direction, in tc's words (4gbit). At the end
# it says how many bytes each sent over the link. As root. Memory and CPUs are still shared.
#
#   ./bazelw build //bench:ddp && tools/dev/over_link.sh 4gbit bazel-bin/bench/ddp --model=small --out=DIR
set -euo pipefail

ranks=1
if [[ ${1-} == --ranks=* ]]; then
  ranks=${1#--ranks=}
  shift
fi
if (($# < 2)) || [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "over_link.sh: needs a rate and a program: tools/dev/over_link.sh [--ranks=N] 4gbit bazel-bin/bench/ddp --out=DIR" >&2
  exit 2
fi
for tool in ip tc; do
  if ! command -v "$tool" >/dev/null; then
    echo "over_link.sh: $tool is missing: BAZELW_EXTRAS=dev ./bazelw info installs it" >&2
    exit 1
  fi
done
if ((EUID != 0)); then
  echo "over_link.sh: network namespaces need root" >&2
  exit 1
fi
rate=$1
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
  tc -n "${hosts[host]}" qdisc add dev link0 root tbf rate "$rate" burst 2mb latency 100ms
done

# PyTorch, unlike gradsync, has to be told the interface.
for ((rank = 0; rank < 2 * ranks; ++rank)); do
  ip netns exec "${hosts[rank / ranks]}" env RANK="$rank" WORLD_SIZE=$((2 * ranks)) LOCAL_RANK=$((rank % ranks)) \
    LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=link0 "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
for host in 0 1; do
  sent=$(ip netns exec "${hosts[host]}" cat /sys/class/net/link0/statistics/tx_bytes)
  echo "over_link.sh: host $host sent $sent bytes" >&2
done
exit "$status"
