#!/usr/bin/env bash
# tools/dev/over_link.sh RATE PROGRAM [ARG...]: runs a benchmark with two ranks, each in a network namespace of its own,
# joined by a link of RATE in each direction, in tc's words (4gbit). As root. Memory and CPUs are still shared.
#
#   ./bazelw build //bench:ddp && tools/dev/over_link.sh 4gbit bazel-bin/bench/ddp --model=small --out=DIR
set -euo pipefail

if (($# < 2)); then
  echo "over_link.sh: needs a rate and a program: tools/dev/over_link.sh 4gbit bazel-bin/bench/ddp --out=DIR" >&2
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
for rank in 0 1; do
  ip -n "${hosts[rank]}" address add "10.77.0.$((rank + 1))/24" dev link0
  ip -n "${hosts[rank]}" link set link0 up
  ip -n "${hosts[rank]}" link set lo up
  tc -n "${hosts[rank]}" qdisc add dev link0 root tbf rate "$rate" burst 2mb latency 100ms
done

# PyTorch, unlike gradsync, has to be told the interface.
for rank in 0 1; do
  ip netns exec "${hosts[rank]}" env RANK="$rank" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
    MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=link0 "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
