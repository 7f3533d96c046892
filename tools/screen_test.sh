#!/usr/bin/env bash
# summarize --format=screen fits on a screen: of every kept record, and of those of the suite together.
set -euo pipefail

fail() {
  echo "FAILED: $1"
  cat "$TEST_TMPDIR/screen"
  exit 1
}
records=docs/records
count=0
check() {  # check DIRECTORY...: their screen
  tools/summarize --format=screen "$@" >"$TEST_TMPDIR/screen"
  (($(wc --lines <"$TEST_TMPDIR/screen") <= 29)) || fail "$*: more than 29 lines"
  (($(LC_ALL=C.UTF-8 wc --max-line-length <"$TEST_TMPDIR/screen") <= 110)) || fail "$*: more than 110 columns"
  # Words that a table may have and the screen has not.
  ! grep --quiet --word-regexp --ignore-case 'floor\|cell\|flags' "$TEST_TMPDIR/screen" || fail "$*: words"
  count=$((count + 1))
}
for directory in "$records"/*; do check "$directory"; done
((count > 10)) || fail "no records"
# What is wrong is said at the end, however much comes before it.
check_last() {  # check_last DIRECTORY...: the same, and the last lines are there
  check "$@"
  [[ $(tail --lines=3 "$TEST_TMPDIR/screen" | grep --only-matching '^checks \|^warnings ') == $'checks \nwarnings ' ]] || fail "$*: the end"
}
for other in tiny small quick; do
  check_last "$records"/{$other,convergence}
  grep --quiet '^held-out text, 2 ranks  *bits per byte ' "$TEST_TMPDIR/screen" || fail "$other: nothing is learnt"
  grep --quiet '^core  *[0-9.]* ' "$TEST_TMPDIR/screen" || fail "$other: no row"
done
check_last "$records"/{quick,small,tiny,peers_tiny,link,convergence,sharding}
for line in core zero1:gather=forward 'not shown:' bf16_wire:learning_rate=0.003@shm; do
  grep --quiet "^$line " "$TEST_TMPDIR/screen" || fail "of all, no $line"
done
check "$records"/{all_reduce,tiny,small,grid,resnet50}
for part in '^tiny b2 s64 over shm  *Use ' '^small b1 s64 over gloo  *\(Use\|Equal\|Undecided\)' \
  '^ *tiny b2 s64 gloo  *tiny b2 s64 shm  *small b1 s64 gloo  *small b1 s64 shm$' '^core  *[0-9.]* ms' '^zero1 .*\[.*\] ' '^no synchronisation ' '^the baseline adds ' '^the fastest adds ' \
  '^all_reduce .*GB/s' '^tiny  *best: core in .* of 8$' \
  '^checks  *[0-9]* of [0-9]* rows .*every sum is right' '^warnings .*oversubscribed'; do
  grep --quiet -- "$part" "$TEST_TMPDIR/screen" || fail "no $part"
done
# Rows over a backend without a baseline have no difference.
tools/summarize --format=screen "$records/sharding_ranks" >"$TEST_TMPDIR/screen"
grep --quiet '^Not compared, because there is no core over shm: zero1@shm (123 ms) and zero3:shared=1@shm (123 ms)\.$' \
  "$TEST_TMPDIR/screen" || fail "rows that are not compared"
# One run of several.
run=$(find "$records/link" -name '*.jsonl.gz' -printf '%f\n' | cut --delimiter=. --fields=2 | sort | head --lines=1)
tools/summarize --format=screen --run="$run" "$records/link" >"$TEST_TMPDIR/screen"
grep --quiet '^tiny b2 s64 over gloo' "$TEST_TMPDIR/screen" || fail "--run"
