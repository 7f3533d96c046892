#!/usr/bin/env bash
# docs.sh in a workspace with stand-ins for Bazel and the tools: what it refuses. What it makes is compared in every
# document by `docs.sh --check`, which CI runs.
set -euo pipefail

docs=$PWD/tools/dev/docs.sh
cd "$TEST_TMPDIR"
mkdir -p tools/dev docs/published docs/records/{a,b} bazel-bin/tools
cp "$docs" tools/dev/
printf '#!/bin/sh\n' >bazelw
cat >bazel-bin/tools/summarize <<'TOOL'
#!/bin/bash
printf '\n## A title\n\n| %s |\n' "$(cat "$2"/*.jsonl)"
TOOL
# Its bytes are others each time.
cat >bazel-bin/tools/report <<'TOOL'
#!/bin/sh
printf '<dc:description>%s</dc:description>\n%s\n' "$(cat "$1"/*.jsonl)" $$ >"${3#--out=}"
TOOL
chmod +x bazelw bazel-bin/tools/*
for name in a b; do echo "{\"gradsync_commit\":\"0123456789$name\",\"dirty\":false}" | gzip >docs/records/$name/x.jsonl.gz; done
printf 'a 1 bench/ddp\nb 1 bench/ddp\n' >docs/records/commands.txt
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
