#!/usr/bin/env bash
# measure.sh in a workspace with stand-ins for Bazel and the benchmarks: what it runs, keeps, replaces and says.
set -euo pipefail

measure=$PWD/tools/dev/measure.sh
cd "$TEST_TMPDIR"
mkdir -p tools/dev docs/records/{once,other} bazel-bin/bench
cp "$measure" tools/dev/
printf '#!/bin/sh\n' >bazelw
# A record says how its program was called.
cat >bazel-bin/bench/ddp <<'PROGRAM'
#!/bin/bash
out=${*: -1}
mkdir -p "${out#--out=}"
echo "{\"base_command\":\"$0 $1\",\"command_line\":\"$0 $*\"}" >"${out#--out=}/$1.jsonl"
if [[ $1 == second ]]; then echo '{}' >"${out#--out=}/second.trace.json"; fi
if [[ $1 == stopped ]]; then kill -TERM "$PPID"; fi
[[ $1 != fails ]]
PROGRAM
chmod +x bazelw bazel-bin/bench/ddp
cat >docs/records/commands.txt <<'COMMANDS'
# A comment that names once and other.

once 1 bench/ddp first --peer_python=TORCH/bin/python \
    --variants=none,core
twice 1 bench/ddp first --corpus=tinyshakespeare.txt
twice 2 bench/ddp second
broken 1 bench/ddp fails
stopped 1 bench/ddp stopped
COMMANDS
echo old | tee docs/records/once/old.jsonl.gz >docs/records/other/old.jsonl.gz

fail() {
  echo "FAILED: $1"
  cat output
  find docs
  exit 1
}
run() {
  status=0
  TORCH=/a/b CORPUS=/c/text tools/dev/measure.sh "$@" >output 2>&1 || status=$?
}

for arguments in '' nothing 'once on' '-h'; do
  # shellcheck disable=SC2086  # two arguments
  run $arguments
  ((status == 2)) || fail "'$arguments' is refused"
  [[ -e docs/records/once/old.jsonl.gz ]] || fail "and nothing is touched"
done

run --list
((status == 0)) || fail "the list"
[[ $(head --lines=1 output) == 'once 1 bench/ddp first --peer_python=TORCH/bin/python --variants=none,core' ]] ||
  fail "a command is one line"
(($(wc --lines <output) == 5)) || fail "each command, and no comment"

run once twice
((status == 0)) || fail "measuring"
[[ $(zcat docs/records/once/*) == \
  '{"base_command":"bench/ddp first","command_line":"bench/ddp first --peer_python=TORCH/bin/python --variants=none,core --out=DIR"}' ]] || fail "a record"
[[ ! -e docs/records/once/old.jsonl.gz ]] || fail "the old one"
[[ $(zcat docs/records/twice/first*) == *' --corpus=tinyshakespeare.txt --out=DIR"}' ]] || fail "the text is not named"
[[ -e docs/records/twice/second.jsonl.gz ]] || fail "a second command"
[[ $(zcat docs/records/twice/second.trace.json.gz) == '{}' ]] || fail "a trace"
! grep --quiet --text second.jsonl docs/records/twice/second.jsonl.gz || fail "equal records are equal files"
[[ -e docs/records/other/old.jsonl.gz ]] || fail "what was not asked for stays"

run once twice once
((status == 0)) || fail "a name given twice"
(($(grep -c '^measure.sh: once' output) == 1)) || fail "is measured once"
[[ $(zcat docs/records/once/*) == *'"}' ]] || fail "and kept"

cp -r docs/records/once before
run once broken
((status != 0)) || fail "a program that fails"
[[ ! -e docs/records/broken ]] || fail "and its records"
diff -r before docs/records/once || fail "what is there stays"
kept=$(sed --quiet 's/^measure.sh: what was measured is in //p' output)
[[ $(<"$kept/once/first.jsonl") == *'"command_line"'* ]] || fail "what was measured before is kept"
rm -r "$kept"
run stopped
((status == 143)) || fail "measure.sh is stopped"
kept=$(sed --quiet 's/^measure.sh: what was measured is in //p' output)
[[ -e $kept/stopped/stopped.jsonl ]] || fail "what was measured before the stop is kept"
rm -r "$kept"
sed -i '/broken/d; /stopped/d' docs/records/commands.txt
run --all
((status == 0)) || fail "everything"
(($(grep -c '^measure.sh: ' output) == 3)) || fail "each command once"
# The stand-in is given real paths.
cat >bazel-bin/bench/ddp <<'PROGRAM'
#!/bin/bash
echo "$*" >&2
exit 1
PROGRAM
run once
grep -q -- '--peer_python=/a/b/bin/python' output || fail "PyTorch's place"
run twice
grep -q -- '--corpus=/c/text ' output || fail "the text's place"
echo PASSED
