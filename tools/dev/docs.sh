#!/usr/bin/env bash
# tools/dev/docs.sh [--check]: makes every table and picture of the documents anew, from the records that
# are kept in docs/records (compressed: *.gz) and docs/published. It measures nothing. With --check it changes
# nothing, shows what differs and exits with 1 if anything does.
#
# What stands between such lines of a document is a table, or the sentences above it:
#   <!-- begin: ddp docs/records/tiny -->              summarize --table=ddp docs/records/tiny
#   <!-- begin: screen docs/records/tiny -->           summarize --format=screen docs/records/tiny
#   <!-- begin: prediction_errors docs/recordings -->  tools/dev/prediction_errors.py docs/recordings, or likewise
#                                                      accelerator_errors.py
#   <!-- begin: answer what_if docs/recordings/gpu/gpt2.jsonl.gz ... -->    or what `gradsync what_if` prints
#   <!-- begin: published FILE -->                     what published.py prints of published steps
#   <!-- begin: lines 1-9 screen docs/records/tiny --> only those lines of a screen or an answer
#   <!-- begin: rows ^core ddp docs/records/tiny -->   only rows of a table whose first cell matches, without its sentences
#   <!-- begin: names kFacts -->  what bench/records/names.h says of this part of a record
#   <!-- begin: file ddp/strategies/core_update.cc -->  or that file
#   <!-- begin: commands beyond link -->               or what measured these records, of docs/records/commands.txt, or
#                                                      these recordings, of docs/recordings/commands.txt
#   <!-- begin: warnings -->                           or every warning, with its meaning
#   <!-- begin: machines docs/records/tiny ... -->     or the machines that measured these records
#   <!-- begin: commits -->                            or the commits of the document's records, if there are several
#   <!-- end -->
# One cell of a table stands inside of a sentence, on one line (TABLE and DIRECTORY as above, then its row and column):
#   <!-- value: ddp docs/records/tiny; naive@gloo; sync_cost (ms) -->64.2 [55.8, 72.5]<!-- end -->
# prose_figures.py checks that prose beside such blocks has no other figures, and record_commands.py that each document
# shows the commands that measured its records.
# A picture is made by the command in the line above it, which writes the file named first:
#   <!-- picture: docs/images/cost.svg report docs/records/small --figure=cost -->
#   <!-- picture: docs/images/scaling.svg what_if docs/recordings/... --world_size=2,4,8 -->     drawn by `gradsync what_if`
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

# What fails is noted in a file, because parts of this run in processes of their own.
fail() { : >"$scratch/failed"; }
# What a picture shows, as its description says: its bytes differ between releases of matplotlib.
digest() { sed --quiet 's|.*<dc:description>\(.*\)</dc:description>.*|\1|p' "$1"; }

# place MADE FILE: FILE becomes what was made, or is compared with it.
place() {
  if cmp --silent "$1" "$2"; then return; fi
  if [[ $2 == *.svg && -e $2 && $(digest "$1") && $(digest "$1") == "$(digest "$2")" ]]; then return; fi
  if $check; then
    echo "docs.sh: $2 differs from what its records say; tools/dev/docs.sh makes it anew" >&2
    diff --text --unified=0 "$2" "$1" | head --lines=20 >&2 || true
    fail
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

# The rows of a table whose first cell, without marks of bold text, matches an extended regular expression without spaces.
rows_of() {  # rows_of PATTERN, of standard input
  awk -F ' *[|] *' -v pattern="$1" '
    /^[*][*]/ { left_out = 1; next }
    /^$/ && left_out { left_out = 0; next }
    !/^[|]/ { heading = 0; print; next }
    ++heading <= 2 { print; next }
    { cell = $2; gsub(/[*][*]/, "", cell) }
    cell ~ pattern { print; ++count }
    END { exit !count }' || { echo "docs.sh: no row matches $1" >&2; return 1; }
}

package() {  # package COMMAND...: what Debian's Python makes of the package for PyTorch, whose `gradsync what_if` prints it
  PYTHONPATH=tools/pytorch PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$@" </dev/null
}

fenced() { printf '%s\n%s\n%s\n' '```' "$("$@")" '```'; }  # fenced COMMAND...

# lines_about NAME FILE: the lines of FILE about NAME.
lines_about() { awk -v name="$1" '/^[a-z]/ { on = $1 == name } /^(#|$)/ { on = 0 } on { print }' "$2"; }

commands() {  # commands NAME...
  echo '```'
  for name in "$@"; do
    lines_about "$name" docs/records/commands.txt |
      sed 's|^[a-z][a-z0-9_]* [0-9]* ||; s|^bench/\([a-z_]*\)|./bazelw run //bench:\1 --|; s| bench/| bazel-bin/bench/|
        /\\$/! s|$| --out=DIR|'
    lines_about "$name" docs/recordings/commands.txt | sed 's|^[a-z][a-z0-9_]* ||'
  done
  echo '```'
}

value() {  # value 'TABLE DIRECTORY; ROW; COLUMN': this cell of the table
  local row=${1#*; } column=${1##*; }
  local -a words
  read -r -a words <<<"${1%%; *}"
  table "${words[@]}" | awk -F ' *[|] *' -v row="${row%; *}" -v column="$column" '
    !/^[|]/ { at = 0; next }
    { gsub(/[*][*]/, "") }
    !at { for (i = 2; i <= NF; ++i) if ($i == column) at = i; if (!at) at = 1; next }
    at > 1 && $2 == row && $at != "" { cell = $at; ++count }
    END { if (count != 1) exit 1; print cell }' ||
    { echo "docs.sh: not one cell of a table: $1" >&2; return 1; }
}

with_values() {  # with_values LINE: its values made anew
  local rest=$1 spec made=''
  while [[ $rest == *'<!-- value: '* ]]; do
    [[ $rest == *'<!-- value: '*' -->'*'<!-- end -->'* ]] || { echo "docs.sh: a value without an end: $1" >&2; return 1; }
    spec=${rest#*'<!-- value: '}
    spec=${spec%%' -->'*}
    made+="${rest%%'<!-- value: '*}<!-- value: $spec -->$(value "$spec")<!-- end -->"
    rest=${rest#*'<!-- end -->'}
  done
  printf '%s\n' "$made$rest"
}

# shellcheck disable=SC2016  # backquotes of Markdown
warnings() {  # what the rows of kChecks say, each on one line
  printf '%s\n' '| warning | meaning |' '|:--|:--|'
  tr '\n' ' ' <tools/measurements/validity.cc | sed 's/" *"//g' | grep --only-matching '{Warning::[^,]*, *"[^"]*", *"[^"]*"' |
    sed 's/.*, *"\(.*\)", *"\(.*\)"/| `\1` | \2 |/'
}

# shellcheck disable=SC2016  # backquotes of Markdown
names() {  # names PART: the rows of bench/records/names.h for this part of a record, each on one line
  printf '%s\n' '| name | value | meaning |' '|:--|:--|:--|'
  tr '\n' ' ' <bench/records/names.h | sed 's/" *"//g' |
    grep --only-matching "{$1, *\"[^\"]*\", *k[A-Za-z]*, *[^\"]*\"[^\"]*\"" |
    sed 's/.*, *"\(.*\)", *\(k[A-Za-z]*\), [^"]*"\(.*\)"/| `\1` | \2 | \3 |/
      s/ kBool / true or false /; s/ kInt / whole number /; s/ kNumber / number /; s/ kText / text /
      s/ kKnown / whole number, or "unknown" /'
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

machines() {  # machines DIR...: a line for each machine, with the records that it measured
  local dir
  for dir in "$@"; do
    printf '%s\t%s\n' "$(table ddp "$dir" | sed --quiet 's/^- Measured //p')" "${dir##*/}"
  done | awk -F '\t' '{ names[$1] = names[$1] (names[$1] ? ", " : "") $2; if (!seen[$1]++) order[++n] = $1 }
    END { for (i = 1; i <= n; ++i) print "Measured " order[i] (n > 1 ? " (" names[order[i]] ")" : "") }'
}

# What explains the columns of a table stands under the document's first one that needs it.
once() {
  awk '/^- / && length > 100 && seen[$0]++ { next } /^$/ { ++blank; next } /^<!-- end -->$/ { blank = 0 }
    { while (blank > 0) { print ""; --blank } print }'
}

picture() {  # picture FILE PROGRAM ARGUMENT...: below $scratch
  if [[ $2 == what_if ]]; then
    package -m gradsync "${@:2}" --plot="$scratch/$1" >"$scratch/points"
  else
    (cd "$scratch" && "$programs/$2" "${@:3}" --out="$1" </dev/null)
  fi
}

remake() {  # remake DOCUMENT: as it should be
  local line inside=false
  local -a words cut
  while IFS= read -r line; do
    if [[ $line == '<!-- end -->' ]]; then
      $inside || { echo "docs.sh: $1: an end without a begin" >&2; return 1; }
      inside=false
    fi
    if ! $inside; then with_values "$line"; fi
    if [[ $line =~ ^'<!-- begin: '(.*)' -->'$ ]]; then
      read -r -a words <<<"${BASH_REMATCH[1]}"
      cut=(cat)
      if [[ ${words[0]} == rows ]]; then
        cut=(rows_of "${words[1]}")
        words=("${words[@]:2}")
      elif [[ ${words[0]} == lines ]]; then
        cut=(sed --quiet "$((1 + ${words[1]%-*})),$((1 + ${words[1]#*-}))p;1p;\$p")  # with the fences
        words=("${words[@]:2}")
      fi
      case ${words[0]} in
        commands) commands "${words[@]:1}" ;;
        prediction_errors) package tools/dev/prediction_errors.py "${words[@]:1}" ;;
        accelerator_errors) package tools/dev/accelerator_errors.py "${words[@]:1}" | sed '/  no$/d' ;;  # rows that count
        warnings) warnings ;;
        names) names "${words[@]:1}" ;;
        published) fenced package tools/dev/published.py "${words[@]:1}" ;;
        answer) fenced package -m gradsync "${words[@]:1}" | "${cut[@]}" ;;  # what_if ARGUMENT...
        machines) machines "${words[@]:1}" ;;
        commits) printf '%s' "${commits:+$commits$'\n'}" ;;
        *) table "${words[@]}" | sed '/./,$!d' | "${cut[@]}" ;;  # from the first line that is not empty
      esac
      inside=true
    elif [[ $line =~ ^'<!-- picture: '(.*)' -->'$ ]]; then
      read -r -a words <<<"${BASH_REMATCH[1]}"
      picture "${words[@]}" >&2
      place "$scratch/${words[0]}" "${words[0]}" >&2
    fi
  done <"$1"
  if $inside; then echo "docs.sh: $1: a begin without an end" >&2; return 1; fi
}

mapfile -t documents < <(find README.md CONTRIBUTING.md docs tools/pytorch -name '*.md' | sort)
for document in "${documents[@]}"; do
  commits=$(commits "$document")
  remake "$document" | once >"$scratch/document"
  place "$scratch/document" "$document"
  if [[ $commits ]] && ! grep --quiet '^<!-- begin: commits -->' "$document"; then
    echo "docs.sh: $document: $commits It needs a line '<!-- begin: commits -->'" >&2
    fail
  fi
done

package tools/dev/prose_figures.py tools/dev/prose_figures.txt "${documents[@]}" || fail
package tools/dev/record_commands.py || fail

# A reader has a minute.
if (($(wc --lines <README.md) > 130)); then
  echo "docs.sh: README.md has $(wc --lines <README.md) lines, expected at most 130" >&2
  fail
fi

# tools/dev/measure.sh can measure all of them anew.
if ! diff <(sed --quiet 's/^\([a-z][a-z0-9_]*\) .*/\1/p' docs/records/commands.txt | sort --unique) \
  <(find docs/records -mindepth 1 -type d -printf '%f\n' | sort) >"$scratch/diff"; then
  echo "docs.sh: docs/records/commands.txt (<) and the directories beside it (>) differ:" >&2
  cat "$scratch/diff" >&2
  fail
fi
[[ ! -e $scratch/failed ]]
