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
  verdict+=" $name: $((SECONDS - begin)) s"
  case $status in
    0) ;;
    124 | 137) verdict+=", no end after $limit s" ;;
    *) verdict+=", status $status" ;;
  esac
  echo "   $verdict"
  if [[ $verdict != passed* ]]; then tail --lines=3 "$out/logs/$name.txt" | sed 's/^/   | /'; fi
  echo "$verdict" >"$out/done/$name"
  results+=("$verdict")
}

# Says whether there is PyTorch for part peers; sets modes, and writes peer_python, which goes on with the libraries that
# Python would have without this script.
find_pytorch() {
  if ! "${PYTHON:-python3}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>"$out/logs/pytorch.txt"; then
    results+=("skipped peers: ${PYTHON:-python3} has no PyTorch that sees the GPU; PYTHON names another")
    return 1
  fi
  # shellcheck disable=SC2016  # for the script that is written
  printf '#!/usr/bin/env bash\nexport LD_LIBRARY_PATH=$GRADSYNC_OUTER_LD_LIBRARY_PATH\nexec %q "$@"\n' \
    "${PYTHON:-python3}" >"$out/peer_python"
  chmod +x "$out/peer_python"
  modes=eager,compiled
  if ! timeout 180 "${PYTHON:-python3}" runfiles/gradsync/bench/peers/pytorch_ddp.py --check cuda \
    </dev/null 2>"$out/logs/pytorch_compile.txt"; then
    modes=eager
    results+=("skipped torch.compile: $(tail --lines=1 "$out/logs/pytorch_compile.txt")")
  fi
}

# With one GPU for two ranks nccl goes over sockets: that shows function, and the tables say shared-gpu.
share=()
if ((gpus == 1)); then share=(GRADSYNC_NCCL_SHARE_GPU=1); fi
# benchmark PART NAME TYPES LIMIT PROGRAM FLAG...: if its part is chosen, an item for each type, or one for -.
benchmark() {
  local type to=records
  has "$1" || return 0
  if [[ $1 == profile || $1 == trace ]]; then to=traced; fi
  for type in ${3//,/ }; do
    local -a typed=(--dtype="${type/tf32/f32}")
    if [[ $type == tf32 ]]; then typed+=(--tf32); fi
    if [[ $type == - ]]; then type='' typed=(); fi
    item "$2${type:+_$type}" "$4" env "${share[@]}" "$run" "bench/$5" "${typed[@]}" "${@:6}" --out="$out/$to"
  done
}
one=(--device=cuda --backend=nccl --world_size=1)
ranks=(--device=cuda --world_size=$((gpus > 1 ? gpus : 2)))
batch=(--batch_size=4 --seq_len=256)
small=(--model=small --batch_size=2 --seq_len=128)
# The check of xl takes minutes on the host for 2e9 parameters; small has it.
xl=(--model=xl --verify=false "${batch[@]}")

benchmark cpu cpu_all_reduce - 60 all_reduce --sizes=1MiB --iterations=5 --warmup_iterations=2
benchmark cpu cpu_ddp - 120 ddp --strategies=none,core --steps=3 --warmup_steps=1 --batch_size=1 --seq_len=64

if has tests; then
  while read -r test needed; do
    name=${test//\//.}
    if ((needed > gpus)); then
      results+=("skipped $name: needs $needed GPUs")
      continue
    fi
    scratch=$(mktemp --directory)
    # Tests find their files from there.
    item "$name" 300 env --chdir="$here/runfiles/gradsync" TEST_TMPDIR="$scratch" "$run" "$test"
    rm -rf "$scratch"
  done <tests
fi

benchmark all_reduce nccl_alone - 120 all_reduce "${one[@]}" --sizes=1MiB,100MiB
nccl=(all_reduce_nccl_shared - 300 all_reduce "--sizes=1MiB,10MiB" --iterations=10)
if ((gpus > 1)); then nccl=(all_reduce_nccl - 300 all_reduce "--sizes=1MiB,10MiB,100MiB,1GiB" --iterations=100); fi
benchmark all_reduce "${nccl[@]}" "${ranks[@]}" --backend=nccl
benchmark all_reduce all_reduce_gloo - 300 all_reduce "${ranks[@]}" --backend=gloo --sizes=1MiB,10MiB,100MiB --iterations=20

benchmark ddp ddp_small f32,tf32,bf16 200 ddp "${one[@]}" "${batch[@]}" --model=small --steps=30
for backend in nccl gloo; do
  benchmark ddp ddp_small_ranks_$backend - 300 ddp "${ranks[@]}" --backend=$backend "${small[@]}" --steps=10
done
benchmark ddp ddp_xl f32,tf32,bf16 400 ddp "${one[@]}" "${xl[@]}" --strategies=none,core --steps=20
((gpus < 2)) || benchmark ddp ddp_xl_ranks f32,tf32,bf16 500 ddp "${ranks[@]}" --backend=nccl "${xl[@]}" --steps=20

if has peers && find_pytorch; then
  # The largest first. Its limit allows for minutes of compilation, and for the 8 GB of weights that go over.
  for model in xl small; do
    benchmark peers peers_$model bf16,f32,tf32 530 ddp "${one[@]}" "${batch[@]}" --model=$model --strategies=none \
      --steps=20 --verify=false --with_peers=pytorch --peer_modes="$modes" --peer_python="$out/peer_python"
  done
fi

# Where a step's time goes, beside what its arithmetic takes at the peak that was measured just before.
benchmark profile profile_xl bf16,f32,tf32 300 ddp "${one[@]}" "${xl[@]}" --strategies=none --steps=5 --profile
# One strategy after the other, so that each has the memory to itself.
benchmark memory memory_xl f32,bf16 400 ddp "${one[@]}" "${xl[@]}" --order=blocks --steps=3 --warmup_steps=2 \
  --strategies=none,naive,flat,bucketed_async,core
for backend in nccl gloo; do
  benchmark compare compare_$backend - 400 compare "${ranks[@]}" --backend=$backend --buffer_elements=3Mi,12Mi,27Mi \
    --batch_size=32 --image_size=224 --steps=20 --warmup_steps=5
done

benchmark trace trace - 200 ddp "${ranks[@]}" --backend=nccl "${small[@]}" --strategies=naive,overlap,core --steps=5 --trace

if compgen -G "$out/records/*.jsonl" >/dev/null; then
  for format in markdown:md json:json csv:csv; do
    "$run" tools/summarize "$out/records" --format="${format%:*}" >"$out/tables.${format#*:}" \
      2>>"$out/logs/summarize.txt" || results+=("failed tables.${format#*:}: see logs/summarize.txt")
  done
fi

count() { printf '%s\n' "${results[@]}" | grep --count "^$1 "; }
{
  printf '%s\n' "${results[@]}" | grep --invert-match '^passed ' || true
  if (($(count not-run) > 0)); then echo "The same command, given once more, goes on with what was not run."; fi
  echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped, $(count not-run) not run" \
    "($gpus GPUs, $SECONDS s)"
} | tee "$out/summary.txt"
printf '%s\n' "${results[@]}" >"$out/results.txt"
# 1: the folder changed meanwhile, because the archive lies in it.
tar --directory="$out" --exclude=results.tar.gz --warning=no-file-changed --create --gzip --file="$out/results.tar.gz" . ||
  (($? == 1)) || { echo "run_gpu.sh: records, tables and logs: $out, but results.tar.gz cannot be written" >&2; exit 1; }
echo "records, tables and logs: $out (all of it in results.tar.gz)"
(($(count failed) == 0))
