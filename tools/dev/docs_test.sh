#!/usr/bin/env bash
# docs.sh in a workspace with stand-ins for Bazel and the tools: what it makes, compares and says.
set -euo pipefail

docs=$PWD/tools/dev/docs.sh
cd "$TEST_TMPDIR"
mkdir -p tools/dev docs/published docs/records/a bazel-bin/tools
cp "$docs" tools/dev/
printf '#!/bin/sh\n' >bazelw
# The record's text as a table, between what a document does not want.
cat >bazel-bin/tools/summarize <<'TOOL'
#!/bin/sh
printf '\n## A title (%s)\n\n**A sentence.**\n\n| %s |\n\n## Flags\n\n- a flag\n' "$1" "$(cat "$2"/*.jsonl)"
TOOL
cat >bazel-bin/tools/report <<'TOOL'
#!/bin/sh
cat "$1"/*.jsonl >"${3#--out=}"
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

<!-- end -->
<!-- begin: published docs/published -->
**A sentence.**

| published |

<!-- end -->
<!-- picture: docs/images/a.svg report docs/records/a --figure=cost -->
![A](docs/images/a.svg)
DOCUMENT
diff expected README.md || fail "the document"
[[ $(<docs/images/a.svg) == kept ]] || fail "the picture"
[[ $(<docs/other.md) == 'No tables.' ]] || fail "other documents stay"
run --check
((status == 0)) || fail "a second time nothing differs"

echo '<!-- begin: ddp docs/records/a -->' >>docs/other.md
run
((status == 1)) || fail "a begin without an end"
grep -q 'docs/other.md: a begin without an end' output || fail "and where"
echo PASSED
