#!/usr/bin/env bash
# tools/dev/check_names.sh: every name of a sample, a check or a fact in bench/records/names.h has a reader: a tool, or a
# test of the program that writes it. What nothing reads is not worth recording. And names of strategies and backends are
# only where CONTRIBUTING.md allows them.
set -euo pipefail
cd "$(dirname "$0")/../.."

names=$(grep --only-matching --perl-regexp '^    \{k(Samples|Checks|Facts), "\K[^"]+' bench/records/names.h)
unread=()
for name in $names; do
  git grep --quiet --extended-regexp "\"${name//\*/[a-z0-9_]*}\"" -- 'tools/*.cc' 'tools/*.h' 'tests/*.cc' \
    'bench/*_test.cc' 'bench/*_test.h' ':!bench/records' ':!*/test_records.cc' || unread+=("$name")
done
status=0
if ((${#unread[@]} > 0)); then
  echo "check_names.sh: nothing reads: ${unread[*]}" >&2
  status=1
fi

# Prints lines of code that match the pattern, without comments.
lines() { git grep --line-number --extended-regexp "$1" -- "${@:2}" | sed 's|[ :]//.*||' | grep --extended-regexp "$1" || true; }

# "none" and "overlap" are words of their own.
strategies=$(basename --suffix=.cc ddp/strategies/*.cc | grep --invert-match --line-regexp 'none\|overlap' | paste --serial --delimiters='|')
backends=$(grep --only-matching --perl-regexp '^      \{"\K[a-z_]+' comm/factory.cc | paste --serial --delimiters='|')
named=$(lines "\"($strategies)[\":@,]" '*.cc' '*.h' ':!ddp/strategies' ':!bench/presets' ':!tools/analysis/baselines.h' \
  ':!bench/peers/options.cc' ':!tests' ':!*_test.*' ':!*_suite.*' ':!*/test_*' ':!*/testing/*')
# Beside the defaults of flags, and a group of memory_limit, which is no backend.
asked=$(lines "\"($backends)\"" 'model/*.cc' 'model/*.h' 'ddp/*.cc' 'ddp/*.h' 'bench/*.cc' 'bench/*.h' 'tools/*.cc' 'tools/*.h' \
  ':!bench/presets' ':!*_test.*' ':!*_suite.*' ':!*/test_*' ':!*/testing/*' |
  grep --invert-match 'backends = {\|kMemoryLimitGroup\|libraries.Set(' || true)
if [[ $named$asked != '' ]]; then
  printf 'check_names.sh: what names a strategy, or asks for a backend by name:\n%s\n' "$named$asked" >&2
  status=1
fi
exit "$status"
