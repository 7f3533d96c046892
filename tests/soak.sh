#!/usr/bin/env bash
# tests/soak.sh [MINUTES [SEED]]: runs the programs with configurations drawn at random, one after the other, for so
# long (60 minutes; seed 1 draws the same in every run). Each must exit with 0 within its time, and leave no
# process and no file behind but what it was to write; the tools must read that. Prints a line for each that did
# not, and at the end how many of each program ran. Exits with 1 if one failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

minutes=${1:-60}
seed=${2:-1}
limit_s=300
./bazelw build //bench:all_reduce //bench:compare //bench:ddp //tools:report //tools:summarize || exit
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch/tmp

# The strategies, and those of them that take f64.
mapfile -t rows < <(basename --suffix=.cc ddp/strategies/*.cc)
all_rows=${rows[*]} f64_rows=
for row in "${rows[@]}"; do
  grep -q 'needs_f32 = true' "ddp/strategies/$row.cc" || f64_rows+="$row "
done

# Prints programs with their flags, without end.
draw() {
  awk -v seed="$1" -v all_rows="$all_rows" -v f64_rows="$f64_rows" '
    function below(n) { return int(rand() * n) }
    function pick(words,  all, n) { n = split(words, all, " "); return all[below(n) + 1] }
    function some(words,  all, n, i, chosen) {  # at least one, comma separated
      n = split(words, all, " ")
      for (i = 1; i <= n; ++i) if (below(2)) chosen = chosen (chosen == "" ? "" : ",") all[i]
      return chosen == "" ? all[1] : chosen
    }
    function maybe(word) { return below(3) ? "" : " " word }
    function training(dtype) {
      return " --dtype=" dtype " --strategies=" some(dtype == "f64" ? f64_rows : all_rows) " --steps=" below(6) + 1 \
        " --warmup_steps=" below(3) " --order=" pick("interleaved blocks") " --optimizer=" pick("adamw sgd")
    }
    BEGIN {
      srand(seed)
      for (;;) {
        ranks = pick("1 2 2 3 4"); threads = pick("1 1 2"); program = pick("all_reduce ddp ddp compare")
        flags = " --backend=" (below(2) ? pick("gloo shm shm hierarchical") : some("gloo shm hierarchical")) " --world_size=" ranks \
          (program == "all_reduce" ? "" : " --threads_per_rank=" threads) " --comm_threads=" pick("1 2 3") \
          " --seed=" below(100)
        if (program == "all_reduce") flags = flags " --sizes=" some("4KiB 8 64KiB 1MiB 3MiB") " --op=" pick("sum mean") \
          " --dtype=" pick("f32 f64 bf16") " --iterations=" below(20) + 1
        if (program == "ddp") flags = flags " --model=tiny --num_layers=" below(3) + 1 " --d_model=" pick("32 64") \
          " --num_heads=" pick("1 2 4") " --d_ff=" pick("33 128") " --vocab_size=" pick("300 1001") \
          " --batch_size=" some("1 2 3") " --seq_len=" some("7 16 33") \
          " --bucket_bytes=" some("4KiB 64KiB 25MiB") maybe("--trace") maybe("--profile") training(pick("f32 f64 bf16"))
        if (program == "compare") flags = flags " --model=resnet50 --width=" pick("4 8") \
          (below(2) ? " --image_size=64 --batch_size=1" : " --image_size=32 --batch_size=2") " --buffer_elements=" some("3Mi 64Ki") " --units=" pick("bytes published") training("f32")
        if (flags !~ /bucketed|core|zero[12]|bf16_wire|powersgd|topk|local_sgd|diloco/) gsub(/ --(bucket_bytes|buffer_elements|units)=[^ ]*/, "", flags)
        if (flags ~ /local_sgd|diloco/) gsub(/ --(trace|profile)/, "", flags)
        print program flags
      }
    }'
}

# Runs $command; of backend hierarchical every rank by itself, on two hosts if their number is even.
# shellcheck disable=SC2086  # flags are words
run_ranks() {
  local ranks rank pids=() worst=0
  ranks=$(sed -n 's/.*--backend=hierarchical.* --world_size=\([0-9]*\) .*/\1/p' <<<"$command")
  if ((${ranks:-1} % 2)); then
    timeout --kill-after=20 "$limit_s" $command
    return
  fi
  for ((rank = 0; rank < ranks; ++rank)); do
    GRADSYNC_RANK=$rank GRADSYNC_WORLD_SIZE=$ranks GRADSYNC_RENDEZVOUS=file://$scratch/place \
      GRADSYNC_HOST=host$((rank * 2 / ranks)) timeout --kill-after=20 "$limit_s" ${command/ --world_size=$ranks/} &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do
    wait "${pids[$rank]}" || worst=$?
  done
  if ((worst == 0)) && grep -L --include='*.jsonl' -r "\"hosts\":\"2 of $((ranks / 2)) ranks\?, by GRADSYNC_HOST\"" "$out" | grep .; then
    echo "did not use the link"
    worst=1
  fi
  rm -rf "$scratch/place"
  return "$worst"
}

fell() {
  num_failed=$((num_failed + 1))
  printf 'FAILED: %s\n  %s\n' "$1" "$command"
  tail -n 5 "$scratch/log" | sed 's/^/  /'
}

read_records() {
  local format
  for format in markdown csv json; do
    bazel-bin/tools/summarize "$out" --format="$format" >"$scratch/log" 2>&1 || fell "summarize --format=$format"
  done
  bazel-bin/tools/report "$out" --out="$scratch/report.html" >"$scratch/log" 2>&1 || fell report
  if compgen -G "$out/*.trace.json" >/dev/null; then
    bazel-bin/tools/report "$out" --figure=timeline --out="$scratch/timeline.svg" >"$scratch/log" 2>&1 || fell timeline
  fi
}

declare -A ran=()
num_failed=0
end=$((SECONDS + minutes * 60))
while ((SECONDS < end)) && read -r program flags; do
  rm -rf "${TMPDIR:?}" && mkdir -p "$TMPDIR"
  out=$scratch/out
  rm -rf "$out"
  command="bazel-bin/bench/$program $flags --out=$out"
  shared=$(find /dev/shm -mindepth 1 2>/dev/null | sort)
  run_ranks >"$scratch/log" 2>&1 </dev/null
  status=$?
  ran[$program]=$((${ran[$program]:-0} + 1))
  ((status == 0)) || fell "exit status $status"
  [[ $(ls -A "$TMPDIR") == '' ]] || fell "left $(ls "$TMPDIR")"
  [[ $(find /dev/shm -mindepth 1 2>/dev/null | sort) == "$shared" ]] || fell "left files in /dev/shm"
  if pgrep -f -- "--out=$out" >/dev/null; then
    fell "left processes"
    pkill -KILL -f -- "--out=$out"
  fi
  ((status != 0)) || read_records
done < <(draw "$seed")
total=0
for program in "${!ran[@]}"; do
  total=$((total + ran[$program]))
  echo "$program: ${ran[$program]} runs"
done
echo "$total runs, $num_failed failures"
((num_failed == 0 && total > 0))
