#!/usr/bin/env bash
# tests/odd_places.sh [PROGRAM...]: runs the programs in odd surroundings: without stdout, on a full disk, in a
# directory that is gone, without IPv4, without /proc. PROGRAM: all_reduce, ddp, compare, convergence,
# suite, summarize; by default all. Each run has to end within five minutes with the expected status, and to say the
# expected words, in lines of its own. Prints a line for each run that does not, and how many did. Exits with 1 if one
# did not. Cases that need root, for namespaces and capabilities, are left out without it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

targets=(//bench:all_reduce //bench:ddp //bench:compare //bench:convergence //bench:suite //tools:summarize)
./bazelw build "${targets[@]}" || exit
bin=$(realpath bazel-bin)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit
limit_s=300
num_right=0 num_wrong=0 num_left_out=0

# What each program measures here, in a second or two.
declare -A flags=(
  [all_reduce]='--sizes=4KiB --iterations=5 --warmup_iterations=1'
  [ddp]='--model=tiny --num_layers=1 --d_model=32 --d_ff=32 --num_heads=1 --vocab_size=300 --batch_size=1 --seq_len=8
    --verify=false --strategies=core,flat --warmup_steps=0 --steps=3'
  [compare]='--width=4 --image_size=32 --batch_size=2 --buffer_elements=64Ki --strategies=bucketed_async --warmup_steps=0
    --steps=2'
  [convergence]='--num_layers=1 --d_model=16 --d_ff=32 --num_heads=2 --seq_len=16 --batch_size=2 --evaluate_every=2
    --seeds=1 --text_bytes=300KiB --held_out_windows=8 --variants=naive --steps=3'
  [suite]='--preset=smoke'
)

# expect NAME STATUSES WORDS SCRIPT: runs a script of bash with $run, $bin and $scratch. STATUSES and WORDS are extended
# regular expressions; "-" expects no words.
expect() {
  local name=$1 statuses=$2 words=$3 script=$4 status why=
  run=$run bin=$bin scratch=$scratch timeout --kill-after=10 "$limit_s" bash -c "$script" >"$scratch/log" 2>&1 </dev/null
  status=$?
  [[ $status =~ ^($statuses)$ ]] || why="status $status, expected $statuses"
  [[ $words == - ]] || grep -Eq -- "$words" "$scratch/log" || why+=" does not say '$words'"
  # Of std::terminate, of glibc and of sanitizers.
  if grep -Eq 'terminate called|core dumped|Assertion|Sanitizer|SIGSEGV|SIGABRT' "$scratch/log"; then why+=' aborts'; fi
  if [[ $why == '' ]]; then
    num_right=$((num_right + 1))
    return
  fi
  num_wrong=$((num_wrong + 1))
  printf 'WRONG %s, %s:%s\n' "$program" "$name" " $why"
  tail -n 4 "$scratch/log" | cut -c1-200 | sed 's/^/  /'
}

# as_root NAME...: expect, if this is root and the surroundings can be made.
as_root() {
  if ((EUID == 0)) && unshare --net --mount true 2>/dev/null; then
    expect "$@"
  else
    num_left_out=$((num_left_out + 1))
  fi
}

# What every program refuses before it measures, or does without measuring.
refusals() {
  expect 'help to a full disk' 1 'cannot write to stdout: No space left on device' "$bin/bench/$program --help >/dev/full"
  expect 'a directory that is gone' 2 'the current directory cannot be used' \
    "mkdir gone.$program && cd gone.$program && rmdir ../gone.$program && $run --out=here"
  # Root without this capability may write as little as another user.
  as_root 'a directory that may not be written to' 2 'cannot be (written to|made): Permission denied' \
    "mkdir -m 555 bare.$program; setpriv --bounding-set=-dac_override $run --out=\$scratch/bare.$program/x"
  as_root 'a disk that cannot be written' 2 'Read-only file system' \
    "unshare --mount bash -c 'mkdir -p ro.$program; mount -t tmpfs -o ro tmpfs ro.$program; $run --out=\$scratch/ro.$program/x'"
}

# What every program bears while it measures. The suite takes minutes for each.
measurements() {
  expect 'stdout full' 1 'cannot write to stdout' "$run --out=\$scratch/full.$program >/dev/full"
  as_root 'IPv6 alone' 0 - \
    "unshare --net bash -c 'ip link set lo up; ip address del 127.0.0.1/8 dev lo; $run --out=\$scratch/six.$program'"
}

# What programs of ranks bear.
surroundings() {
  expect 'stdin closed' 0 - "$run --out=\$scratch/in.$program <&-"
  expect 'stdout closed' 1 'cannot write to stdout' "$run --out=\$scratch/closed.$program >&-"
  expect 'all closed' 1 - "$run --out=\$scratch/all.$program <&- >&- 2>&-"
  expect 'records without stdout' 0 - "ls \$scratch/all.$program | grep -q jsonl"
  expect 'a directory that is gone, records elsewhere' 0 - \
    "mkdir gone.$program && cd gone.$program && rmdir ../gone.$program && $run --out=\$scratch/elsewhere.$program"
  expect 'an odd name' 0 - "$run '--out=$scratch/a b ü%s%n'\$'\n'.$program"
  expect 'a name like a flag' 0 - "mkdir -p flag.$program && cd flag.$program && $run --out=-x && ls -- -x/"
  expect 'ulimit -n 8' '0|1|2' - "ulimit -n 8; $run --out=\$scratch/few.$program"
  expect 'files of 1 KiB' 1 - "ulimit -f 1; $run --out=\$scratch/short.$program"
  expect 'another time zone' 0 - "TZ=Foo/Bar $run --out=\$scratch/zone.$program"
  as_root 'no loopback' 1 - "unshare --net $run --timeout=3s --out=\$scratch/none.$program"
  as_root 'no /sys' 0 - "unshare --mount bash -c 'mount -t tmpfs tmpfs /sys; $run --out=\$scratch/sys.$program'"
  as_root 'a clock of another time' 0 - \
    "unshare --time --monotonic 315360000 --boottime 315360000 $run --out=\$scratch/time.$program"
}

# What programs of ranks alone have: flags of their own, and no programs that they run.
ranks() {
  local world
  for world in 0 100000; do
    expect "$world ranks" 2 '--world_size' "$run --world_size=$world"
  done
  expect 'a single rank' 0 - "$run --world_size=1 --out=\$scratch/one.$program"
  expect 'a pipe that is closed' '0|141' - "$run --out=\$scratch/pipe.$program | head -1; exit \${PIPESTATUS[0]}"
  expect 'two runs into one directory' 0 - \
    "$run --out=\$scratch/two.$program & $run --out=\$scratch/two.$program && wait \$!"
  as_root 'a full disk' 1 'No space left on device' \
    "unshare --mount bash -c 'mkdir -p small.$program; mount -t tmpfs -o size=4k tmpfs small.$program; $run --out=\$scratch/small.$program'"
  as_root 'no /proc' '0|1|2' - "unshare --mount --pid --fork bash -c 'mount -t tmpfs tmpfs /proc; $run --out=\$scratch/proc.$program'"
}

sizes() {
  local size
  for size in 0 -4KiB 1e3 18446744073709551616B 4kib ' '; do
    expect "a size of '$size'" 2 'sizes' "$bin/bench/all_reduce --iterations=3 '--sizes=$size'"
  done
  for size in 1 3 7 13B 1.5MiB 4KiB,4KiB; do
    expect "a size of '$size'" '0|2' - "$bin/bench/all_reduce --iterations=3 --warmup_iterations=1 '--sizes=$size' --out=\$scratch/size"
  done
}

summaries() {
  local summarize=$bin/tools/summarize
  # shellcheck disable=SC2086  # flags are words
  "$bin/bench/all_reduce" ${flags[all_reduce]} --out="$scratch/base" >/dev/null
  expect 'records' 0 'all_reduce|all-reduce' "$summarize \$scratch/base"
  expect 'a full disk' 1 'cannot write to stdout' "$summarize \$scratch/base >/dev/full"
  expect 'stdout closed' 1 'cannot write to stdout' "$summarize \$scratch/base >&-"
  expect 'a pipe of records' '0|1|2' 'cannot read|not a regular file|[0-9]' "cat \$scratch/base/*.jsonl | $summarize /dev/stdin"
  expect 'a loop of links' '1|2' 'symbolic links|not a regular file|cannot read' \
    "mkdir loop; ln -s loop.jsonl loop/loop.jsonl; mkdir loop/dir.jsonl; $summarize loop"
  expect 'a directory that is gone' '1|2' - "mkdir gone.s && cd gone.s && rmdir ../gone.s && $summarize here"
}

programs=("$@")
((${#programs[@]})) || programs=(all_reduce ddp compare convergence suite summarize)
for program in "${programs[@]}"; do
  run="$bin/bench/$program ${flags[$program]:-}"
  run=${run//$'\n'/ }
  case $program in
    all_reduce) refusals && measurements && surroundings && ranks && sizes ;;
    ddp | compare | convergence) refusals && measurements && surroundings && ranks ;;
    suite) refusals && measurements ;;
    summarize) summaries ;;
    *)
      echo "odd_places.sh: no program $program" >&2
      exit 2
      ;;
  esac
done
echo "$num_right as expected, $num_wrong not, $num_left_out left out"
((num_wrong == 0))
