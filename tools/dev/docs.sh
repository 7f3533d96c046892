#!/usr/bin/env bash
# tools/dev/docs.sh [--check]: makes every table and picture of the documents anew, from the records that
# are kept in docs/records (compressed: *.gz) and docs/published. It measures nothing. With --check it changes
# nothing, shows what differs and exits with 1 if anything does.
#
# What stands between such lines of a document is a table, or the sentences above it:
#   <!-- begin: ddp docs/records/tiny -->              summarize --table=ddp docs/records/tiny
#   <!-- begin: file ddp/strategies/core_update.cc -->  or that file
#   <!-- end -->
# A picture is made by the command in the line above it, which writes the file named first:
#   <!-- picture: docs/images/cost.svg report docs/records/small --figure=cost -->
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

check=false
case ${1:-} in
  '') ;;
  --check) check=true ;;
  *)
    echo "docs.sh: unknown argument $1; it takes --check or nothing" >&2
    exit 2
    ;;
esac

./bazelw build --noshow_progress //tools:report //tools:summarize >&2
programs=$PWD/bazel-bin/tools
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/docs/images"
cp -R docs/published "$scratch/docs/"
if [[ -d docs/records ]]; then
  while IFS= read -r -d '' file; do
    mkdir -p "$scratch/${file%/*}"
    gzip --decompress --stdout "$file" >"$scratch/${file%.gz}"
  done < <(find docs/records -name '*.gz' -print0)
fi

failed=false
# place MADE FILE: FILE becomes what was made, or is compared with it.
place() {
  if cmp --silent "$1" "$2"; then return; fi
  if $check; then
    echo "docs.sh: $2 differs from what its records say; tools/dev/docs.sh makes it anew" >&2
    diff --text --unified=0 "$2" "$1" | head --lines=20 >&2 || true
    failed=true
  else
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2"
    echo "$2"
  fi
}

# The table, and what is said of it, without its heading and what follows.
table() {  # table NAME ARGUMENT...
  if [[ $1 == file ]]; then
    local fence=$'\x60\x60\x60'
    printf '%scpp\n%s\n%s\n' "$fence" "$(cat "$2")" "$fence"
    return
  fi
  (cd "$scratch" && "$programs/summarize" --table="$1" "${@:2}" </dev/null) |
    awk '/^## / && ++heading == 2 {exit} /^`--details`/ {exit} /^## / {next} {print}'
}

remake() {  # remake DOCUMENT: as it should be
  local line inside=false
  local -a words
  while IFS= read -r line; do
    if [[ $line == '<!-- end -->' ]]; then
      $inside || { echo "docs.sh: $1: an end without a begin" >&2; return 1; }
      inside=false
    fi
    if ! $inside; then printf '%s\n' "$line"; fi
    if [[ $line =~ ^'<!-- begin: '(.*)' -->'$ ]]; then
      read -r -a words <<<"${BASH_REMATCH[1]}"
      table "${words[@]}" | sed '/./,$!d'  # from the first line that is not empty
      inside=true
    elif [[ $line =~ ^'<!-- picture: '(.*)' -->'$ ]]; then
      read -r -a words <<<"${BASH_REMATCH[1]}"
      (cd "$scratch" && "$programs/${words[1]}" "${words[@]:2}" --out="${words[0]}" </dev/null >&2)
      place "$scratch/${words[0]}" "${words[0]}" >&2
    fi
  done <"$1"
  if $inside; then echo "docs.sh: $1: a begin without an end" >&2; return 1; fi
}

while read -r document; do
  remake "$document" >"$scratch/document"
  place "$scratch/document" "$document"
done < <(find README.md CONTRIBUTING.md docs -name '*.md' | sort)
! $failed
