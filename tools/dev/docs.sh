#!/usr/bin/env bash
# tools/dev/docs.sh [--check]: makes every table and picture of the documents anew, from the records that
# are kept in docs/records (compressed: *.gz) and docs/published. It measures nothing. With --check it changes
# nothing, shows what differs and exits with 1 if anything does.
#
# What stands between such lines of a document is a table, or the sentences above it:
#   <!-- begin: ddp docs/records/tiny -->              summarize --table=ddp docs/records/tiny
#   <!-- begin: screen docs/records/tiny -->           summarize --format=screen docs/records/tiny
#   <!-- begin: what_if docs/recordings -->            or what what_if says of PyTorch's steps in each file there
#   <!-- begin: answer what_if docs/recordings/gpu/gpt2.jsonl ... -->    or what that program prints
#   <!-- begin: file ddp/strategies/core_update.cc -->  or that file
#   <!-- begin: commands beyond link -->               or what measured these records, of docs/records/commands.txt
#   <!-- begin: commits -->                            or the commits of the document's records, if there are several
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

./bazelw build --noshow_progress //tools:report //tools:summarize //tools:what_if >&2
programs=$PWD/bazel-bin/tools
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/docs/images"
cp -R docs/published "$scratch/docs/"
if [[ -d docs/records ]]; then
  while IFS= read -r -d '' file; do
    mkdir -p "$scratch/${file%/*}"
    gzip --decompress --stdout "$file" >"$scratch/${file%.gz}"
  done < <(find docs -name '*.gz' \( -path 'docs/records/*' -o -path 'docs/recordings/gpu/*' \) -print0)
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
    local fence=$'```'
    printf '%scpp\n%s\n%s\n' "$fence" "$(cat "$2")" "$fence"
    return
  fi
  if [[ $1 == screen ]]; then
    echo '```'
    (cd "$scratch" && "$programs/summarize" --format=screen "${@:2}" </dev/null)
    echo '```'
    return
  fi
  (cd "$scratch" && "$programs/summarize" --table="$1" "${@:2}" </dev/null) |
    awk '/^## / && ++heading == 2 {exit} /^`--details`/ {exit} /^## / {next} {print}'
}

sizes() {  # sizes TEXT: of the numbers that are read, a line each
  tr --delete '+-' | sort --numeric-sort | awk -v text="$1" '
    { v[NR] = $1 }
    END {
      if (NR > 0) printf "%s: %d, median %.1f %%, nine in ten within %.1f %%, the largest %.1f %%.\n", text, NR,
        (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[int((9 * NR + 9) / 10)], v[NR]
    }'
}

compared() {  # compared ARGUMENT...: row, least, most and measured step and error in %, with tabs between, of what_if
  "$programs/what_if" "$@" </dev/null | sed --quiet --regexp-extended \
    's/^(.*[^ ]) +([0-9.]+) to ([0-9.]+) ms +([0-9.]+) ms( \+- [0-9.]+ %)? +([+-][0-9.]+) %.*/\1\t\2\t\3\t\4\t\6/p'
}

what_if() {  # what_if DIRECTORY: PyTorch's steps in each recording, beside their predictions
  local file launch recording=$scratch/recording.jsonl other=$scratch/other.jsonl
  for file in "$1"/*.jsonl.gz; do
    gzip --decompress --stdout "$file" >"$recording"
    basename "$file" .jsonl.gz
    "$programs/what_if" "$recording" </dev/null | awk '/^DDP / { on = 1 } on { sub(/ +$/, ""); print "  " $0 }'
    for launch in 1 2; do
      (($(wc --lines <"$recording") == 2)) || continue
      sed --quiet "${launch}p" "$recording" >"$other"
      compared "$other" | sed "s|^|$file |" >&3
    done
    [[ $file =~ ([a-z]*)\.([0-9]*)gbit ]] || continue
    gzip --decompress --stdout "$1/${BASH_REMATCH[1]}.loopback.jsonl.gz" >"$other"
    compared "$other" --link="${BASH_REMATCH[2]}Gbit,100us" --at="$recording" >&4
  done >"$scratch/what_if" 3>"$scratch/launches" 4>"$scratch/named"
  # The error follows the measured step, and a second run's, if there is one, that.
  sed --quiet 's/.* ms \(+- [0-9.]* %\)\? *\([+-][0-9.]*\) %.*/\2/p' "$scratch/what_if" | sizes 'Errors of predictions'
  sed --quiet 's/.* [+-][0-9.]* % *\([+-][0-9.]*\) %.*/\1/p' "$scratch/what_if" | sizes 'Of second runs'
  awk '/Sizes of buckets/ { pairs += $(NF - 6); named += $NF }
    END { printf "Of %d pairs of bucket sizes whose measured steps differ by more than their intervals, the faster one is predicted: %d.\n", pairs, named }' "$scratch/what_if"
  echo
  cut --fields=5 "$scratch/launches" | sizes 'By one launch of two, of its own steps'
  awk -F '\t' '
    $1 in measured { print 100 * (predicted[$1] / $4 - 1); print 100 * ($4 * (1 + $5 / 100) / measured[$1] - 1) }
    { measured[$1] = $4; predicted[$1] = $4 * (1 + $5 / 100) }' "$scratch/launches" | sizes "Of the other launch's steps"
  cut --fields=5 "$scratch/named" | sizes 'From loopback, of steps over a link whose rate and latency alone are given'
  awk -F '\t' '$4 < $2 || $4 > $3 { ++out } END { printf "Of these %d are outside of what is predicted: %d.\n", NR, out }' "$scratch/named"
  echo
  echo '```'
  cat "$scratch/what_if"
  echo '```'
}

answer() {  # answer PROGRAM ARGUMENT...
  echo '```'
  (cd "$scratch" && "$programs/$1" "${@:2}" </dev/null)
  echo '```'
}

commands() {  # commands NAME...
  echo '```'
  for name in "$@"; do
    awk -v name="$name" '/^[a-z]/ { on = $1 == name } /^$/ { on = 0 } on { print }' docs/records/commands.txt |
      sed 's|^[a-z][a-z0-9_]* [0-9]* ||; s|^bench/\([a-z_]*\)|./bazelw run //bench:\1 --|; s| bench/| bazel-bin/bench/|
        /\\$/! s|$| --out=DIR|'
  done
  echo '```'
}

commits() {  # commits DOCUMENT: which commit measured which of its records, in one line; nothing if there is but one
  local dir
  while read -r dir; do
    sed --quiet "s|.*\"gradsync_commit\":\"\([0-9a-f]\{9\}\).*\"dirty\":\([a-z]*\).*|\1 \2 ${dir##*/}|p" \
      "$scratch/$dir"/*.jsonl
  done < <(grep --only-matching 'docs/records/[a-z0-9_]*' "$1" | sort --unique) | sort --unique | awk '
    { at = $1 ($2 == "true" ? ", with changes" : "") }
    at != last { text = text (NR > 1 ? "; at " : "Measured at ") at ": " $3; ++count; last = at; next }
    { text = text ", " $3 }
    END { if (count > 1) print text "." }'
}

# What explains the columns of a table stands under the document's first one that needs it.
once() {
  awk '/^- / && length > 200 && seen[$0]++ { left_out = 1; next } !left_out || !/^$/ { print } { left_out = 0 }'
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
      case ${words[0]} in
        commands) commands "${words[@]:1}" ;;
        what_if) what_if "${words[@]:1}" ;;
        answer) answer "${words[@]:1}" ;;
        commits) printf '%s' "${commits:+$commits$'\n'}" ;;
        *) table "${words[@]}" | sed '/./,$!d' ;;  # from the first line that is not empty
      esac
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
  commits=$(commits "$document")
  remake "$document" | once >"$scratch/document"
  place "$scratch/document" "$document"
  if [[ $commits ]] && ! grep --quiet '^<!-- begin: commits -->' "$document"; then
    echo "docs.sh: $document: $commits It needs a line '<!-- begin: commits -->'" >&2
    failed=true
  fi
done < <(find README.md CONTRIBUTING.md docs -name '*.md' | sort)

# A reader has a minute.
if (($(wc --lines <README.md) > 150)); then
  echo "docs.sh: README.md has $(wc --lines <README.md) lines, expected at most 150" >&2
  failed=true
fi

# tools/dev/measure.sh can measure all of them anew.
if ! diff <(sed --quiet 's/^\([a-z][a-z0-9_]*\) .*/\1/p' docs/records/commands.txt | sort --unique) \
  <(find docs/records -mindepth 1 -type d -printf '%f\n' | sort) >"$scratch/diff"; then
  echo "docs.sh: docs/records/commands.txt (<) and the directories beside it (>) differ:" >&2
  cat "$scratch/diff" >&2
  failed=true
fi
! $failed
