#!/usr/bin/env bash
# tools/dev/hosts.sh [--ranks=K] [--rate=RATE[,RATE...]] [--repeats=L] N PROGRAM [ARG...]: runs a benchmark on N hosts,
# which are network namespaces joined by a switch, with K ranks (1) on each, as torchrun would start them. RATE, in tc's
# words (200mbit,4gbit), limits each host's link in each direction. Each has a run of its own, whose records have it as
# "link_rate". All that L times (1), rates in turn: launches of one set, as of the benchmarks' own --repeats. After each
# run it says how many bytes each host sent. As root. Memory, CPUs and clock are shared.
#
#   ./bazelw build //bench:ddp && tools/dev/hosts.sh --ranks=2 4 bazel-bin/bench/ddp --backend=hierarchical --out=DIR
set -euo pipefail

fail() {
  echo "hosts.sh: $2" >&2
  exit "$1"
}

ranks=1 rates='' repeats=1
while [[ ${1-} == --* ]]; do
  case $1 in
    --ranks=*) ranks=${1#*=} ;;
    --rate=*) rates=${1#*=} ;;
    --repeats=*) repeats=${1#*=} ;;
    *) fail 2 "has no option $1" ;;
  esac
  shift
done
[[ $rates, =~ ^(,|([1-9][0-9]*[kmg]bit,)+)$ ]] || fail 2 "--rate=$rates: expected whole numbers such as 200mbit,4gbit"
if (($# < 2)) || [[ ! $ranks =~ ^[1-9][0-9]*$ || ! $repeats =~ ^[1-9][0-9]*$ || ! $1 =~ ^[1-9][0-9]?$ ]]; then
  fail 2 "needs a number of hosts and a program: tools/dev/hosts.sh --ranks=2 --rate=4gbit 4 bazel-bin/bench/ddp --out=DIR"
fi
for tool in ip tc; do
  command -v "$tool" >/dev/null || fail 1 "$tool is missing: BAZELW_EXTRAS=dev ./bazelw info installs it"
done
((EUID == 0)) || fail 1 "network namespaces need root"
num_hosts=$1
shift

prefix=gradsync$$
pids=()
# shellcheck disable=SC2317  # called by the trap
finish() {
  if ((${#pids[@]} > 0)); then kill "${pids[@]}" 2>/dev/null || true; fi
  wait
  for host in switch $(seq 0 $((num_hosts - 1))); do ip netns del "$prefix-$host" 2>/dev/null || true; done
}
trap finish EXIT

address() { echo "10.78.0.$(($1 + 1))"; }
sent_by() { ip netns exec "$prefix-$1" cat /sys/class/net/link0/statistics/tx_bytes; }

ip netns add "$prefix-switch"
ip -n "$prefix-switch" link add switch type bridge
ip -n "$prefix-switch" link set switch up
for ((host = 0; host < num_hosts; ++host)); do
  ip netns add "$prefix-$host"
  ip link add link0 netns "$prefix-$host" type veth peer name "port$host" netns "$prefix-switch"
  ip -n "$prefix-switch" link set "port$host" master switch up
  ip -n "$prefix-$host" address add "$(address "$host")/24" dev link0
  ip -n "$prefix-$host" link set link0 up
  ip -n "$prefix-$host" link set lo up
done
# PyTorch, unlike gradsync, has to be told the interface.
export GLOO_SOCKET_IFNAME=link0 MASTER_ADDR MASTER_PORT=29500
MASTER_ADDR=$(address 0)

# limit NAMESPACE DEVICE: what it sends. What may be sent at once after a pause is 0.6 milliseconds', or two frames. More
# would let all that a strategy of few bytes sends pass without a limit. From 1 Gbit/s on it is more than a packet of
# 64 KiB: tc would cut that, which takes four times the CPU's time, and two hosts reached 0.7 Gbit/s.
limit() {
  tc -n "$1" qdisc replace dev "$2" root tbf rate "$rate" \
    burst $((GRADSYNC_LINK_RATE * 6 / 80000 > 3028 ? GRADSYNC_LINK_RATE * 6 / 80000 : 3028)) latency 100ms
}

start() {  # start PROGRAM [ARG...]: on all hosts
  local rank
  pids=()
  for ((rank = 0; rank < num_hosts * ranks; ++rank)); do
    ip netns exec "$prefix-$((rank / ranks))" env RANK="$rank" WORLD_SIZE=$((num_hosts * ranks)) \
      LOCAL_RANK=$((rank % ranks)) LOCAL_WORLD_SIZE="$ranks" "$@" &
    pids+=($!)
  done
}

status=0
unset GRADSYNC_LINK_RATE  # a shell's own is not of these links
set=$(date --utc +%Y%m%dT%H%M%S)-$$
IFS=, read -r -a rates <<<"${rates:-,}"
for ((launch = 0; launch < repeats; ++launch)); do
  if ((repeats > 1)); then export GRADSYNC_LAUNCH=$set,$launch; fi
  for rate in "${rates[@]}"; do
    before=()
    if [[ $rate ]]; then
      echo "hosts.sh: $rate" >&2
      zeros=${rate/kbit/000} zeros=${zeros/mbit/000000}
      export GRADSYNC_LINK_RATE=${zeros/gbit/000000000}
    fi
    for ((host = 0; host < num_hosts; ++host)); do
      if [[ $rate ]]; then limit "$prefix-$host" link0; fi
      # With two hosts, one receives what the other sends, which is limited already.
      if [[ $rate ]] && ((num_hosts > 2)); then limit "$prefix-switch" "port$host"; fi
      before+=("$(sent_by "$host")")
    done
    start "$@"
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    for ((host = 0; host < num_hosts; ++host)); do
      echo "hosts.sh: host $host sent $(($(sent_by "$host") - before[host])) bytes" >&2
    done
  done
done
exit "$status"
