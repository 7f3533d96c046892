#!/usr/bin/env bash
# tools/dev/check_names.sh: every name of a sample, a check or a fact in bench/records/names.h has a reader: a tool, or a
# test of the program that writes it. What nothing reads is not worth recording.
set -euo pipefail
cd "$(dirname "$0")/../.."

names=$(grep --only-matching --perl-regexp '^    \{k(Samples|Checks|Facts), "\K[^"]+' bench/records/names.h)
unread=()
for name in $names; do
  git grep --quiet --extended-regexp "\"${name//\*/[a-z0-9_]*}\"" -- 'tools/*.cc' 'tools/*.h' 'tests/*.cc' \
    'bench/*_test.cc' 'bench/*_test.h' ':!bench/records' ':!*/test_records.cc' || unread+=("$name")
done
((${#unread[@]} == 0)) && exit
echo "check_names.sh: nothing reads: ${unread[*]}" >&2
exit 1
