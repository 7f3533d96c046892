#!/usr/bin/env bash
# docs.sh in a workspace with stand-ins for Bazel and the tools: what it refuses. What it makes is compared in every
# document by `docs.sh --check`, which CI runs.
set -euo pipefail

docs=$PWD/tools/dev/docs.sh
cd "$TEST_TMPDIR"
mkdir -p tools/dev docs/published docs/records/{a,b} docs/recordings bazel-bin/tools
cp "$docs" tools/dev/
printf '#!/bin/sh\n' >bazelw
# The two checks, which have tests of their own: they fail if there is a file complaints_*, and note what they are given.
printf 'import os, sys; print(*sys.argv, file=open("checked", "w")); sys.exit(os.path.exists("complaints_prose"))\n' \
  >tools/dev/prose_figures.py
printf 'import os, sys; sys.exit(os.path.exists("complaints_commands"))\n' >tools/dev/record_commands.py
cat >bazel-bin/tools/summarize <<'TOOL'
#!/bin/bash
if [[ $1 == --table=cells ]]; then
  printf '%s\n' '' '## Cells' '' '**Only other rows are slow.**' '' '| variant     | step (ms) | delta (%) |' '|:--|--:|--:|' '| **a b@c**   |      12.5 |           |' \
    '| other       |      13.0 | +1.0 [0.5, 1.5] |' '| other:one   |      14.0 | |' '| twice | 1 | |' '| twice | 1 | |' \
    '' 'More:' '' '| variant | peak |' '|:--|--:|' '| **a b@c** | 7.03 |'
  exit
fi
printf '\n## A title\n\n| %s |\n' "$(cat "$2"/*.jsonl)"
TOOL
# Its bytes are others each time.
cat >bazel-bin/tools/report <<'TOOL'
#!/bin/sh
printf '<dc:description>%s</dc:description>\n%s\n' "$(cat "$1"/*.jsonl)" $$ >"${3#--out=}"
TOOL
chmod +x bazelw bazel-bin/tools/*
mkdir tools/pytorch
for name in a b; do echo "{\"gradsync_commit\":\"0123456789$name\",\"dirty\":false}" | gzip >docs/records/$name/x.jsonl.gz; done
printf 'a 1 bench/ddp\nb 1 bench/ddp\n' >docs/records/commands.txt
touch docs/recordings/commands.txt
cat >README.md <<'DOCUMENT'
<!-- begin: ddp docs/records/a -->
old
<!-- end -->
<!-- picture: docs/images/a.svg report docs/records/a --figure=cost -->
DOCUMENT

fail() {
  echo "FAILED: $1"
  cat output README.md
  exit 1
}
check() {  # check STATUS LINE ARGUMENT...: docs.sh ends with this status, and says this
  local status=0
  tools/dev/docs.sh "${@:3}" >output 2>&1 || status=$?
  ((status == $1)) || fail "status $status, expected $1"
  grep --quiet -- "$2" output || fail "it does not say: $2"
}

cp README.md before
check 1 '^docs.sh: README.md differs' --check
check 1 '^docs.sh: docs/images/a.svg differs' --check
check 1 '^-old$' --check
cmp before README.md || fail "a check changes nothing"
[[ ! -e docs/images ]] || fail "a check makes nothing"
check 0 '^README.md$'
check 0 '' --check
sed --in-place 's|description>{|description>x{|' docs/images/a.svg
check 1 '^docs.sh: docs/images/a.svg differs' --check
sed --in-place /description/d docs/images/a.svg
check 1 '^docs.sh: docs/images/a.svg differs' --check
check 0 ''

echo 'See docs/records/a and docs/records/b.' >docs/other.md
echo '{"gradsync_commit":"9876543210","dirty":true}' | gzip >docs/records/b/x.jsonl.gz
check 1 'docs/other.md: Measured at 012345678: a; at 987654321, with changes: b. It needs' --check
rm docs/other.md

# Cells of tables inside of sentences.
value() { printf '<!-- value: cells docs/records/a; %s -->%s<!-- end -->' "$1" "$2"; }
sentences() {  # sentences STEP DELTA PEAK OTHER_STEP: with these values
  echo "A step takes $(value 'a b@c; step (ms)' "$1") ms, $(value 'other; delta (%)' "$2") % more."
  echo "$(value 'a b@c; peak' "$3") and $(value 'other; step (ms)' "$4") begin and end a line: $(value 'a b@c; peak' "$3")"
}
sentences 9 '' 1 1 >docs/values.md
cp docs/values.md old
check 1 '^docs.sh: docs/values.md differs' --check
cmp docs/values.md old || fail "a check changes no value"
check 0 '^docs/values.md$'
diff docs/values.md <(sentences 12.5 '+1.0 [0.5, 1.5]' 7.03 13.0) || fail "the values"
check 0 '' --check
for wrong in 'a b@c; delta (%)' 'nobody; step (ms)' 'other; peak' 'a b@c; variant ' 'twice; step (ms)'; do
  printf '%s\n' "$(value "$wrong" 1)" >docs/values.md
  check 1 "^docs.sh: not one cell of a table: cells docs/records/a; $wrong" --check
done
echo 'A <!-- value: cells docs/records/a; other; step (ms) -->9 ms' >docs/values.md
check 1 '^docs.sh: a value without an end: A ' --check
rm docs/values.md

# The checks see every document, and their complaints fail a run.
echo x >docs/other.md
check 0 '' --check
[[ $(<checked) == 'tools/dev/prose_figures.py tools/dev/prose_figures.txt README.md docs/other.md' ]] ||
  fail "which documents are checked: $(<checked)"
for complaints in prose commands; do
  touch "complaints_$complaints"
  check 1 '' --check
  rm "complaints_$complaints"
done
rm docs/other.md

# Rows whose first cell matches, in the first table of a name. Sentences above it are about all rows, and left out.
rows() {  # rows PATTERN ROW...
  printf '%s\n' "<!-- begin: rows $1 cells docs/records/a -->" '| variant     | step (ms) | delta (%) |' '|:--|--:|--:|' "${@:2}" '' \
    'More:' '' '| variant | peak |' '|:--|--:|' '<!-- end -->'
}
rows ^other >docs/rows.md
check 0 '^docs/rows.md$'
diff docs/rows.md <(rows ^other '| other       |      13.0 | +1.0 [0.5, 1.5] |' '| other:one   |      14.0 | |') || fail "the rows"
rows '^a.b@c$' >docs/rows.md
check 0 ''
grep --quiet '^| \*\*a b@c\*\*   |' docs/rows.md || fail "a bold row"
grep --quiet 'Only other rows' docs/rows.md && fail "a sentence about all rows"
rows nothing >docs/rows.md
check 1 '^docs.sh: no row matches nothing$' --check
rm docs/rows.md

printf 'x\n%.0s' {1..131} >README.md
check 1 '^docs.sh: README.md has 131 lines, expected at most 130' --check
echo x >README.md
sed -i '/^b /d' docs/records/commands.txt
check 1 '^> b$' --check
printf '%s 1 bench/ddp\n' b c >>docs/records/commands.txt
check 1 '^< c$' --check
sed -i '/^c /d' docs/records/commands.txt
echo '<!-- begin: ddp docs/records/a -->' >docs/other.md
check 1 'docs/other.md: a begin without an end'
echo '<!-- end -->' >docs/other.md
check 1 'docs/other.md: an end without a begin'
echo PASSED
