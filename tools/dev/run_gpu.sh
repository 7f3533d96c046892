#!/usr/bin/env bash
# ./run_gpu.sh [--out=DIR] [--part=LIST] [--time=SECONDS]: in a folder that tools/dev/gather.sh made, on a machine with
# an NVIDIA GPU: runs every GPU test, then the benchmarks, and leaves records, tables and logs in DIR. What fails stops
# nothing else. Ends with a summary; exit status 0 if nothing failed, 1 if something did, 2 without a GPU or libraries.
#
#   --out=DIR       default: results beside this script. What is done already is not done again, so that the same
#                   command goes on where the last one ran out of time; remove DIR/done to begin anew
#   --part=LIST     of: cpu tests all_reduce ddp peers profile memory compare trace. Default: all
#   --time=SECONDS  stop in time to be done after so long. Default: no limit
#
# With PyTorch (PYTHON names an interpreter, else python3), part peers runs it in turn with gradsync on the same GPU:
# operation by operation, and under torch.compile where that works (it takes Triton and a C compiler).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
  echo "run_gpu.sh: $*" >&2
  exit 2
}

parts='cpu tests all_reduce ddp peers profile memory compare trace'
out=$here/results
chosen=$parts
seconds=0
for argument in "$@"; do
  case $argument in
    --out=?*) out=${argument#*=} ;;
    --part=?*) chosen=${argument#*=} ;;
    --time=[1-9]*) seconds=${argument#*=} ;;
    *) fail "$argument: expected --out=DIR, --part=LIST or --time=SECONDS" ;;
  esac
done
for part in ${chosen//,/ }; do
  [[ " $parts " == *" $part "* ]] || fail "--part=$chosen: $part is none of $parts"
done
mkdir -p "$out/logs" "$out/records" "$out/traced" "$out/done" || fail "--out=$out: cannot be made"
out=$(cd "$out" && pwd)
cd "$here" || exit
has() { [[ " ${chosen//,/ } " == *" $1 "* ]]; }
run=$here/run

# What is missing is said before anything runs.
libraries=$("$run" --libraries) || fail "libraries are missing, see above; CUDA_HOME names another toolkit"
GRADSYNC_LIBRARIES=${libraries//$'\n'/:}
export GRADSYNC_LIBRARIES
gpus=0
{
  echo "gradsync $(cat COMMIT)"
  date --utc +%Y-%m-%dT%H:%M:%SZ
  uname --all
  grep --max-count=1 'model name' /proc/cpuinfo
  echo "libraries from:"
  echo "$libraries"
  nvidia-smi 2>&1 || echo "no nvidia-smi"
} >"$out/machine.txt"
if "$run" bench/gpus >"$out/gpus.txt" 2>"$out/logs/gpus.txt"; then
  gpus=$(wc --lines <"$out/gpus.txt")
  tee --append "$out/machine.txt" <"$out/gpus.txt"
elif [[ ${chosen//,/ } != cpu ]]; then
  fail "$(cat "$out/logs/gpus.txt")"
fi

results=()
# item NAME LIMIT COMMAND...: runs it, for LIMIT seconds at most, and notes how it ended. Not again if it is done, and
# not if there is no time left.
item() {
  local name=$1 limit=$2 begin=$SECONDS status=0 verdict is_cut=0
  shift 2
  if [[ -e $out/done/$name ]]; then
    results+=("$(cat "$out/done/$name")")
    return
  fi
  if ((seconds > 0 && SECONDS + limit > seconds - 15)); then
    is_cut=1
    limit=$((seconds - 15 - SECONDS))
  fi
  if ((limit < 20)); then
    results+=("not-run $name: no time left")
    return
  fi
  echo "== $name"
  timeout --kill-after=10 "$limit" "$@" </dev/null >"$out/logs/$name.txt" 2>&1 || status=$?
  if ((status == 124 || status == 137)) && ((is_cut)); then
    results+=("not-run $name: cut off, no time left")
    echo "   cut off after $((SECONDS - begin)) s"
    return
  fi
  verdict=passed
  ((status == 0)) || verdict=failed
  if grep --quiet '^\[  SKIPPED ]' "$out/logs/$name.txt" && ! grep --quiet '^\[       OK ]' "$out/logs/$name.txt"; then
    ((status != 0)) || verdict=skipped
  fi
  verdict+=" $name: $((SECONDS - begin)) s$(details "$status" "$limit" "$out/logs/$name.txt")"
  echo "   $verdict"
  if [[ $verdict != passed* ]]; then tail --lines=3 "$out/logs/$name.txt" | sed 's/^/   | /'; fi
  echo "$verdict" >"$out/done/$name"
  results+=("$verdict")
}

# GoogleTest's own counts, if it is a test; else how a failed program ended.
details() {
  local counts
  counts=$(sed --quiet 's/^\[  \(PASSED\|SKIPPED\|FAILED\)  *\] \([0-9]* test[s]*\)[.,].*/\2 \1/p' "$3" | tr 'A-Z\n' 'a-z,')
  if [[ $counts ]]; then printf ', %s' "${counts%,}"; fi
  if (($1 == 124 || $1 == 137)); then
    printf ', no end after %s s' "$2"
  elif (($1 != 0)); then
    printf ', status %s' "$1"
  fi
}

in_runfiles() { # tests find their files from here
  cd "$here/runfiles/gradsync" && exec "$run" "$@"
}
export -f in_runfiles
export here run

benchmark() {  # benchmark NAME LIMIT PROGRAM ARGUMENT...
  local name=$1 limit=$2 program=$3
  shift 3
  item "$name" "$limit" "$run" "bench/$program" "$@" --out="$out/records"
}

# With one GPU for two ranks nccl goes over sockets: that shows function, and the tables say shared-gpu.
share=()
two="2"
if ((gpus == 1)); then share=(env GRADSYNC_NCCL_SHARE_GPU=1); fi
if ((gpus > 1)); then two=$gpus; fi
# As benchmark, for as many ranks as there are GPUs, or two.
ranks() {
  local name=$1 limit=$2 program=$3
  shift 3
  item "$name" "$limit" "${share[@]}" "$run" "bench/$program" --device=cuda --world_size="$two" "$@" --out="$out/records"
}

if has cpu; then
  benchmark cpu_all_reduce 60 all_reduce --sizes=1MiB --iterations=5 --warmup_iterations=2
  benchmark cpu_ddp 120 ddp --strategies=none,core --steps=3 --warmup_steps=1 --batch_size=1 --seq_len=64
fi

if has tests; then
  while read -r test needed; do
    name=${test//\//.}
    if ((needed > gpus)); then
      results+=("skipped $name: needs $needed GPUs")
      continue
    fi
    scratch=$(mktemp --directory)
    TEST_TMPDIR=$scratch item "$name" 300 bash -c 'in_runfiles "$@"' - "$test"
    rm -rf "$scratch"
  done <tests
fi

if has all_reduce; then
  benchmark nccl_alone 120 all_reduce --device=cuda --backend=nccl --world_size=1 --sizes=1MiB,100MiB
  if ((gpus > 1)); then
    ranks all_reduce_nccl 300 all_reduce --backend=nccl --sizes=1MiB,10MiB,100MiB,1GiB --iterations=100
  else
    ranks all_reduce_nccl_shared 300 all_reduce --backend=nccl --sizes=1MiB,10MiB --iterations=10
  fi
  ranks all_reduce_gloo 300 all_reduce --backend=gloo --sizes=1MiB,10MiB,100MiB --iterations=20
fi

alone=(--device=cuda --backend=nccl --world_size=1 --batch_size=4 --seq_len=256)
precisions=(f32 tf32 bf16)
# Sets `precision` to the flags of one.
flags_of() {
  precision=(--dtype="$1")
  if [[ $1 == tf32 ]]; then precision=(--dtype=f32 --tf32); fi
}

if has ddp; then
  for dtype in "${precisions[@]}"; do
    flags_of "$dtype"
    benchmark "ddp_small_$dtype" 200 ddp "${alone[@]}" "${precision[@]}" --model=small --steps=30
  done
  ranks ddp_small_ranks_nccl 300 ddp --backend=nccl --model=small --batch_size=2 --seq_len=128 --steps=10
  ranks ddp_small_ranks_gloo 300 ddp --backend=gloo --model=small --batch_size=2 --seq_len=128 --steps=10
  for dtype in "${precisions[@]}"; do
    flags_of "$dtype"
    # Without the check, which takes minutes on the host for 2e9 parameters; the small model has it.
    benchmark "ddp_xl_$dtype" 400 ddp "${alone[@]}" "${precision[@]}" --model=xl --strategies=none,core --steps=20 \
      --verify=false
    if ((gpus > 1)); then
      ranks "ddp_xl_ranks_$dtype" 500 ddp --backend=nccl --batch_size=4 --seq_len=256 "${precision[@]}" --model=xl \
        --steps=20 --verify=false
    fi
  done
fi

if has peers; then
  if "${PYTHON:-python3}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>"$out/logs/pytorch.txt"; then
    # Python goes on with the libraries that it would have without this script.
    {
      echo '#!/usr/bin/env bash'
      # shellcheck disable=SC2016  # for the script that is written
      echo 'export LD_LIBRARY_PATH=$GRADSYNC_OUTER_LD_LIBRARY_PATH'
      echo "exec $(printf '%q' "${PYTHON:-python3}")" '"$@"'
    } >"$out/peer_python"
    chmod +x "$out/peer_python"
    modes=eager,compiled
    if ! timeout 180 "${PYTHON:-python3}" runfiles/gradsync/bench/peers/pytorch_ddp.py --check cuda \
      </dev/null 2>"$out/logs/pytorch_compile.txt"; then
      modes=eager
      results+=("skipped torch.compile: $(tail --lines=1 "$out/logs/pytorch_compile.txt")")
    fi
    # The largest first. Its limit allows for minutes of compilation, and for the 8 GB of weights that go over.
    for model in xl small; do
      for dtype in bf16 f32 tf32; do
        flags_of "$dtype"
        benchmark "peers_${model}_$dtype" 530 ddp "${alone[@]}" "${precision[@]}" --model=$model --strategies=none \
          --steps=20 --verify=false --with_peers=pytorch --peer_modes=$modes --peer_python="$out/peer_python"
      done
    done
  else
    results+=("skipped peers: ${PYTHON:-python3} has no PyTorch that sees the GPU; PYTHON names another")
  fi
fi

if has profile; then
  # Where a step's time goes, beside what its arithmetic takes at the peak that was measured just before.
  for dtype in bf16 f32 tf32; do
    flags_of "$dtype"
    item "profile_xl_$dtype" 300 "$run" bench/ddp "${alone[@]}" "${precision[@]}" --model=xl --strategies=none \
      --steps=5 --verify=false --profile --out="$out/traced"
  done
fi

if has memory; then
  # One strategy after the other, so that each has the memory to itself.
  for dtype in f32 bf16; do
    benchmark "memory_xl_$dtype" 400 ddp "${alone[@]}" --dtype=$dtype --model=xl --order=blocks --steps=3 \
      --warmup_steps=2 --strategies=none,naive,flat,bucketed_async,core --verify=false
  done
fi

if has compare; then
  for backend in nccl gloo; do
    ranks "compare_$backend" 400 compare --backend=$backend --buffer_elements=3Mi,12Mi,27Mi --batch_size=32 \
      --image_size=224 --steps=20 --warmup_steps=5
  done
fi

if has trace; then
  item trace 200 "${share[@]}" "$run" bench/ddp --device=cuda --backend=nccl --world_size="$two" --model=small \
    --batch_size=2 --seq_len=128 --strategies=naive,overlap,core --steps=5 --trace --out="$out/traced"
  if compgen -G "$out/traced/*.trace.json" >/dev/null; then
    item timeline 60 "$run" tools/report "$out/traced" --figure=timeline --out="$out/timeline.svg"
  fi
fi

if compgen -G "$out/records/*.jsonl" >/dev/null; then
  for format in markdown:md json:json csv:csv; do
    "$run" tools/summarize "$out/records" --format="${format%:*}" >"$out/tables.${format#*:}" 2>>"$out/logs/summarize.txt"
  done
  "$run" tools/report "$out/records" --out="$out/report.html" >"$out/logs/report.txt" 2>&1
fi

count() { printf '%s\n' "${results[@]}" | grep --count "^$1 "; }
{
  printf '%s\n' "${results[@]}" | grep --invert-match '^passed ' || true
  if (($(count not-run) > 0)); then echo "The same command, given once more, goes on with what was not run."; fi
  echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped, $(count not-run) not run" \
    "($gpus GPUs, $SECONDS s)"
} | tee "$out/summary.txt"
printf '%s\n' "${results[@]}" >"$out/results.txt"
tar --directory="$out" --exclude=results.tar.gz --create --gzip --file="$out/results.tar.gz" . 2>/dev/null
echo "records, tables and logs: $out (all of it in results.tar.gz)"
(($(count failed) == 0))
