#!/usr/bin/env bash
# run_gpu.sh in a folder whose programs are stand-ins: what it runs with how many GPUs, what it says of how that ended,
# and that it goes on where it stopped.
set -euo pipefail

script=$PWD/tools/dev/run_gpu.sh
cd "$TEST_TMPDIR"
cp "$script" .
mkdir -p runfiles/gradsync
echo 0123-dirty >COMMIT
printf '%s\n' 'model/a_test 1' 'model/b_test 2' 'model/c_test 1' >tests
# Logs what it is called with; the environment says what it finds, and what fails.
cat >run <<'RUN'
#!/bin/bash
case $1 in
  --libraries) [[ ! ${NO_LIBRARIES-} ]] && echo /lib ;;
  bench/gpus) seq "$GPUS" ;;
  *)
    echo "${GRADSYNC_NCCL_SHARE_GPU-} $* in ${PWD##*/}" >>"$LOG"
    for argument; do
      if [[ $argument == --out=*/records ]]; then touch "${argument#--out=}/$$.jsonl"; fi
      if [[ $argument == --trace ]]; then touch "$OUT/traced/a.trace.json"; fi
    done
    if [[ $1 == model/c_test ]]; then echo '[  SKIPPED ] C.C'; fi
    [[ " ${FAILS-} " != *" $1 "* ]]
    ;;
esac
RUN
# It has PyTorch, which cannot compile.
printf '#!/bin/bash\n[[ $* != *--check* ]] || { echo no compiler >&2; exit 1; }\n' >python
chmod +x run python
export GPUS=1 LOG=$TEST_TMPDIR/log OUT=$TEST_TMPDIR/out PYTHON=$TEST_TMPDIR/python

fail() {
  echo "FAILED: $1"
  cat output "$LOG"
  exit 1
}
run() {  # run STATUS ARGUMENT...
  local status=0
  : >"$LOG"
  ./run_gpu.sh --out="$OUT" "${@:2}" >output 2>&1 </dev/null || status=$?
  ((status == $1)) || fail "run_gpu.sh ${*:2}: status $status, expected $1"
}
called() { grep -qF -- "$1" "$LOG" || fail "it does not run $1"; }
said() { grep -qxE -- "$1" output || fail "it does not say $1"; }

run 2 --part=all
NO_LIBRARIES=1 run 2
GPUS=0 run 0 --part=cpu
(($(wc --lines <"$LOG") == 5)) || fail "two programs, three kinds of tables, and nothing else"
rm -r "$OUT"

# One GPU: whatever has two ranks shares it.
FAILS='model/a_test bench/compare' run 1
called ' model/a_test in gradsync'
called '1 bench/all_reduce --device=cuda --world_size=2 --backend=gloo --sizes=1MiB,10MiB,100MiB --iterations=20 --out='
called '--sizes=1MiB,10MiB --iterations=10 --device=cuda --world_size=2 --backend=nccl'
called 'bench/ddp --dtype=f32 --tf32 --device=cuda --backend=nccl --world_size=1 --batch_size=4 --seq_len=256 --model=small'
called '--with_peers=pytorch --peer_modes=eager --peer_python='
called "--profile --out=$OUT/traced"
called "--trace --out=$OUT/traced"
called "tools/summarize $OUT/records --format=csv"
said 'failed model.a_test: [0-9]+ s, status 1'
said 'failed compare_nccl: [0-9]+ s, status 1'
said 'skipped model.b_test: needs 2 GPUs'
said 'skipped model.c_test: [0-9]+ s'
said 'skipped torch.compile: no compiler'
said '25 passed, 3 failed, 3 skipped, 0 not run \(1 GPUs, [0-9]+ s\)'
tar --list --file="$OUT/results.tar.gz" ./tables.md ./results.txt ./logs/trace.txt >/dev/null || fail "results.tar.gz"

# What is done is not done again, unless somebody wants it.
rm "$OUT/done/model.a_test"
run 1 --part=tests,compare
[[ $(grep -c 'test in' "$LOG") == 1 ]] || fail "one test again"
said 'failed compare_gloo: [0-9]+ s, status 1'
said '1 passed, 2 failed, 2 skipped, 0 not run .*'

# Nor do tables that cannot be made pass, or an archive that cannot be written.
FAILS=tools/summarize run 1 --part=cpu
for file in tables.md tables.json tables.csv; do said "failed $file: see logs/summarize.txt"; done
said '2 passed, 3 failed, .*'
run 0 --part=cpu
rm "$OUT/results.tar.gz"
mkdir "$OUT/results.tar.gz"
run 1 --part=cpu
said "run_gpu.sh: records, tables and logs: $OUT, but results.tar.gz cannot be written"
! grep -q 'all of it' output || fail "it says that all is in the archive"
rmdir "$OUT/results.tar.gz"

# Two GPUs share nothing. Nobody starts what cannot end in time.
rm -r "$OUT"
GPUS=2 run 0 --part=tests,ddp,all_reduce
called ' model/b_test in gradsync'
called '--sizes=1MiB,10MiB,100MiB,1GiB --iterations=100 --device=cuda --world_size=2 --backend=nccl'
called 'bench/ddp --dtype=bf16 --device=cuda --world_size=2 --backend=nccl --model=xl --verify=false --batch_size=4'
! grep -q '^1 ' "$LOG" || fail "GPUs are shared"
run 0 --part=memory --time=30
said 'not-run memory_xl_bf16: no time left'
said 'The same command, given once more, goes on with what was not run.'
echo PASSED
