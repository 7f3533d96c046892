#!/usr/bin/env bash
# docs.sh in a workspace with stand-ins for Bazel and the tools: what it makes, compares and says.
set -euo pipefail

docs=$PWD/tools/dev/docs.sh
cd "$TEST_TMPDIR"
mkdir -p tools/dev docs/published docs/records/a docs/recordings bazel-bin/tools
cp "$docs" tools/dev/
printf '#!/bin/sh\n' >bazelw
# The two checks, which have tests of their own: they fail if there is a file complaints, and note what they are given.
printf 'import os, sys; print(*sys.argv, file=open("checked", "w")); sys.exit(os.path.exists("complaints_prose"))\n' \
  >tools/dev/prose_figures.py
printf 'import os, sys; sys.exit(os.path.exists("complaints_commands"))\n' >tools/dev/record_commands.py
# The record's text as a table, between what a document does not want.
cat >bazel-bin/tools/summarize <<'TOOL'
#!/bin/bash
note="- what a column means: $(printf 'so much and %.0s' {1..9})more"
if [[ $1 == --table=cells ]]; then
  printf '%s\n' '' '## Cells' '' '| variant     | step (ms) | delta (%) |' '|:--|--:|--:|' \
    '| **a b@c**   |      12.5 |           |' '| other       |      13.0 | +1.0 [0.5, 1.5] |' '| other:one   |      14.0 | |' '| twice | 1 | |' '| twice | 1 | |' \
    '' 'More:' '' '| variant | peak |' '|:--|--:|' '| **a b@c** | 7.03 |'
  exit
fi
printf '\n## A title (%s)\n\n**A sentence.**\n\n| %s |\n\n%s\n\n## Warnings\n\n- a warning\n' "$1" "$(cat "$2"/*.jsonl)" "$note"
TOOL
cat >bazel-bin/tools/report <<'TOOL'
#!/bin/sh
# Its bytes are others each time.
printf '<dc:description>%s</dc:description>\n%s\n' "$(cat "$1"/*.jsonl)" $$ >"${3#--out=}"
TOOL
chmod +x bazelw bazel-bin/tools/*
echo kept | gzip >docs/records/a/x.jsonl.gz
echo published >docs/published/y.jsonl
cat >README.md <<'DOCUMENT'
# Title
<!-- begin: ddp docs/records/a -->
old
<!-- end -->
<!-- begin: published docs/published -->
<!-- end -->
<!-- picture: docs/images/a.svg report docs/records/a --figure=cost -->
![A](docs/images/a.svg)
DOCUMENT
echo 'No tables.' >docs/other.md
echo 'a 1 bench/ddp' >docs/records/commands.txt
touch docs/recordings/commands.txt

fail() {
  echo "FAILED: $1"
  cat output README.md
  exit 1
}
run() {
  status=0
  tools/dev/docs.sh "$@" >output 2>&1 || status=$?
}

cp README.md before
run --check
((status == 1)) || fail "what differs fails a check"
grep -q '^docs.sh: README.md differs' output || fail "which document"
grep -q '^docs.sh: docs/images/a.svg differs' output || fail "which picture"
grep -qF -- '-old' output || fail "what differs"
cmp before README.md || fail "a check changes nothing"
[[ ! -e docs/images ]] || fail "a check makes nothing"

run
((status == 0)) || fail "making documents"
cat >expected <<'DOCUMENT'
# Title
<!-- begin: ddp docs/records/a -->
**A sentence.**

| kept |

- what a column means: so much and so much and so much and so much and so much and so much and so much and so much and so much and more
<!-- end -->
<!-- begin: published docs/published -->
**A sentence.**

| published |
<!-- end -->
<!-- picture: docs/images/a.svg report docs/records/a --figure=cost -->
![A](docs/images/a.svg)
DOCUMENT
diff expected README.md || fail "the document"
[[ $(head --lines=1 docs/images/a.svg) == '<dc:description>kept</dc:description>' ]] || fail "the picture"
[[ $(<docs/other.md) == 'No tables.' ]] || fail "other documents stay"
run --check
((status == 0)) || fail "a second time nothing differs"
sed --in-place s/kept/old/ docs/images/a.svg
run --check
((status == 1)) || fail "a picture of other numbers fails a check"
sed --in-place /description/d docs/images/a.svg
run --check
((status == 1)) || fail "so does one that does not say which"
run

# A screen is a block of code, and README has at most 130 lines.
printf '# Title\n<!-- begin: screen docs/records/a -->\n<!-- end -->\n' >README.md
run
((status == 0)) || fail "a screen"
[[ $(sed --quiet 3p README.md) == '```' && $(sed --quiet 5p README.md) == '## A title (--format=screen)' ]] || fail "a block of code"
printf '# Title\n<!-- begin: lines 2-4 screen docs/records/a -->\n<!-- end -->\n' >README.md
run
((status == 0)) || fail "lines of a screen"
[[ $(wc --lines <README.md) == 8 && $(sed --quiet 4p README.md) == '## A title (--format=screen)' && $(sed --quiet 7p README.md) == '```' ]] ||
  fail "which lines of a screen"
mkdir tools/records
printf '    {Warning::kA, "a", "so much is "\n     "a lot",\n     [] { return "x"; }},\n' >tools/records/validity.cc
printf '    {Warning::kB, "n<10",\n     "few", B},\n' >>tools/records/validity.cc
printf '# Title\n<!-- begin: warnings -->\n<!-- end -->\n' >README.md
run
((status == 0)) || fail "warnings"
[[ $(sed --quiet '5,6p;7q' README.md) == $'| `a` | so much is a lot |\n| `n<10` | few |' ]] || fail "each with its meaning"
printf 'x\n%.0s' {1..131} >README.md
run --check
((status == 1)) || fail "a long README fails"
grep -q '^docs.sh: README.md has 131 lines, expected at most 130' output || fail "how long README is"
printf '# Title\n' >README.md

# The commits of a document's records.
record() {  # record DIR COMMIT DIRTY: of two ranks
  mkdir -p "docs/records/$1"
  echo "{\"gradsync_commit\":\"$2\",\"dirty\":$3}" | gzip | tee "docs/records/$1/y.jsonl.gz" >"docs/records/$1/x.jsonl.gz"
}
record b 0123456789abcdef false
record c 0123456789abcdef false
record d 0123456789abcdef true
printf '%s 1 bench/ddp\n' b c d >>docs/records/commands.txt
echo 'See docs/records/b and docs/records/c.' >docs/other.md
run --check
((status == 0)) || fail "one commit needs no words"
echo 'And docs/records/d.' >>docs/other.md
run --check
((status == 1)) || fail "two need some"
grep -q "docs/other.md: Measured at 012345678: b, c; at 012345678, with changes: d. It needs" output || fail "which"
printf '%s\n' '<!-- begin: commits -->' '<!-- end -->' >>docs/other.md
run
((status == 0)) || fail "making them"
grep -qx "Measured at 012345678: b, c; at 012345678, with changes: d." docs/other.md || fail "the words"
run --check
((status == 0)) || fail "and checking them"

# What measured records.
cat >>docs/records/commands.txt <<'COMMANDS'

# A comment about ab.
ab 1 bench/ddp --a \
    --b
ab 2 hosts.sh 2 bench/ddp --c

# Another comment.
abc 1 bench/ddp
COMMANDS
mkdir docs/records/ab docs/records/abc
printf '%s\n' '<!-- begin: commands ab -->' '<!-- end -->' >docs/commands.md
run
((status == 0)) || fail "making commands"
diff - docs/commands.md <<'DOCUMENT' || fail "the commands"
<!-- begin: commands ab -->
```
./bazelw run //bench:ddp -- --a \
    --b --out=DIR
hosts.sh 2 bazel-bin/bench/ddp --c --out=DIR
```
<!-- end -->
DOCUMENT

# What Python prints, of the package and beside it.
mkdir -p tools/pytorch/gradsync
echo 'import sys; print("errors", *sys.argv[1:])' >tools/dev/prediction_errors.py
echo 'import sys; print("answer", *sys.argv[1:])' >tools/pytorch/gradsync/__main__.py
printf '<!-- begin: %s -->\n<!-- end -->\n' 'prediction_errors docs/recordings' 'answer what_if a --link=1Gbit' >docs/what_if.md
run
((status == 0)) || fail "making predictions"
diff - docs/what_if.md <<'DOCUMENT' || fail "predictions"
<!-- begin: prediction_errors docs/recordings -->
errors docs/recordings
<!-- end -->
<!-- begin: answer what_if a --link=1Gbit -->
```
answer what_if a --link=1Gbit
```
<!-- end -->
DOCUMENT
rm docs/what_if.md

# Recordings' commands need no --out, and a comment between two commands belongs to neither.
cat >docs/recordings/commands.txt <<'COMMANDS'
# A comment about b.
rec python a.py OUT \
    --y
# A comment.
rec b.py
COMMANDS
printf '%s\n' '# In between.' 'abc 2 bench/suite --d' >>docs/records/commands.txt
printf '%s\n' '<!-- begin: commands rec abc -->' '<!-- end -->' >docs/commands.md
run
((status == 0)) || fail "making commands of recordings"
diff - docs/commands.md <<'DOCUMENT' || fail "the commands of recordings"
<!-- begin: commands rec abc -->
```
python a.py OUT \
    --y
b.py
./bazelw run //bench:ddp -- --out=DIR
./bazelw run //bench:suite -- --d --out=DIR
```
<!-- end -->
DOCUMENT

# Cells of tables inside of sentences.
value() { printf '<!-- value: cells docs/records/a; %s -->%s<!-- end -->' "$1" "$2"; }
sentences() {  # sentences STEP DELTA PEAK OTHER_STEP: with these values
  echo "A step takes $(value 'a b@c; step (ms)' "$1") ms, $(value 'other; delta (%)' "$2") % more."
  echo "$(value 'a b@c; peak' "$3") and $(value 'other; step (ms)' "$4") begin and end a line: $(value 'a b@c; peak' "$3")"
}
sentences 9 '' 1 1 >docs/values.md
cp docs/values.md old
run --check
((status == 1)) || fail "a value of other records fails a check"
grep -q '^docs.sh: docs/values.md differs' output || fail "which document has it"
cmp docs/values.md old || fail "a check changes no value"
run
((status == 0)) || fail "making values"
diff docs/values.md <(sentences 12.5 '+1.0 [0.5, 1.5]' 7.03 13.0) || fail "the values"
run --check
((status == 0)) || fail "values that are right"
for wrong in 'a b@c; delta (%)' 'nobody; step (ms)' 'other; peak' 'a b@c; variant ' 'twice; step (ms)'; do
  printf "%s\n" "$(value "$wrong" 1)" >docs/values.md
  run --check
  ((status == 1)) || fail "no such cell: $wrong"
  grep -qF "docs.sh: not one cell of a table: cells docs/records/a; $wrong" output || fail "which cell: $wrong"
done
echo 'A <!-- value: cells docs/records/a; other; step (ms) -->9 ms' >docs/values.md
run --check
((status == 1)) || fail "a value without an end"
grep -q 'docs.sh: a value without an end: A ' output || fail "where an end is missing"
rm docs/values.md

# The checks see every document, and their complaints fail a run.
run --check
((status == 0)) || fail "without complaints"
[[ $(<checked) == 'tools/dev/prose_figures.py tools/dev/prose_figures.txt README.md docs/commands.md docs/other.md' ]] ||
  fail "which documents are checked: $(<checked)"
for check in prose commands; do
  touch "complaints_$check"
  run --check
  ((status == 1)) || fail "a complaint of $check"
  rm "complaints_$check"
done

# Every directory of records has its command.
sed -i '/^c /d' docs/records/commands.txt
run --check
((status == 1)) || fail "a command that is missing"
grep -q '^> c$' output || fail "whose"
printf '%s 1 bench/ddp\n' c e >>docs/records/commands.txt
run --check
((status == 1)) || fail "a command whose records are missing"
grep -q '^< e$' output || fail "which one"
sed -i '/^e /d' docs/records/commands.txt

echo '<!-- begin: ddp docs/records/a -->' >>docs/other.md
run
((status == 1)) || fail "a begin without an end"
grep -q 'docs/other.md: a begin without an end' output || fail "and where"
echo PASSED
