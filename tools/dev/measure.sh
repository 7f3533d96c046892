#!/usr/bin/env bash
# tools/dev/measure.sh --list|--all|NAME...: measures records of docs/records anew, with the commands of
# docs/records/commands.txt, and puts them there when all are done. If a command fails, it says where the others' records
# are. tools/dev/docs.sh then makes tables and pictures. --all: all that need no GPU. --list prints each name, its minutes
# and its command. Measure on a quiet machine, and commit before.
#
#   TORCH=...   where Python with PyTorch is installed, for peers_*: a virtual environment
#   CORPUS=...  tinyshakespeare.txt, for nanogpt
#   As root, for what takes hosts.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# One command a line.
list=$(sed --quiet ':join /\\$/ { N; s/ *\\\n */ /; b join }; /^[a-z]/ p' docs/records/commands.txt)
case ${1-} in
  --list) echo "$list" && exit ;;
  --all) mapfile -t names < <(cut --delimiter=' ' --fields=1 <<<"$list" | grep --invert-match '^gpu_' | uniq) ;;
  *) names=("$@") ;;
esac
((${#names[@]} > 0)) || names=('')
# Each once: the first of its records would be in the way of the second.
mapfile -t names < <(printf '%s\n' "${names[@]}" | awk '!seen[$0]++')
for name in "${names[@]}"; do
  if [[ ! $name ]] || ! grep --quiet "^$name " <<<"$list"; then
    echo "measure.sh: ${name:-no argument}: expected --list, --all or names of docs/records/commands.txt" >&2
    exit 2
  fi
done

./bazelw build //bench:all_reduce //bench:compare //bench:convergence //bench:ddp //bench:suite >&2
scratch=$(mktemp -d)
# shellcheck disable=SC2317  # called by the trap
finish() {
  if (($? > 0)) && [[ $(ls "$scratch") ]]; then
    echo "measure.sh: what was measured is in $scratch" >&2
  else
    rm -rf "$scratch"
  fi
}
trap finish EXIT
trap 'exit 143' HUP INT TERM
for name in "${names[@]}"; do
  while read -r _ minutes command; do
    echo "measure.sh: $name, about $minutes minutes" >&2
    command=${command/bench\//bazel-bin/bench/}
    command=${command/TORCH/${TORCH:-/usr}}
    read -r -a words <<<"${command/tinyshakespeare.txt/${CORPUS:-tinyshakespeare.txt}}"
    "${words[@]}" --out="$scratch/$name" </dev/null
    # Where things lay on this machine did not make the record.
    sed --in-place "s#[^ \"]*\(bazel-bin\|/bin\)/bench/#bench/#g; s|\( --out=\)[^ \"]*|\1DIR|
      s|\( --peer_python=\)[^ \"]*|\1TORCH/bin/python|; s|\( --corpus=\)[^ \"]*|\1tinyshakespeare.txt|" \
      "$scratch/$name"/*.jsonl
  done < <(grep "^$name " <<<"$list")
done
for name in "${names[@]}"; do
  find "$scratch/$name" -maxdepth 1 \( -name '*.jsonl' -o -name '*.trace.json' \) -exec gzip --best --no-name {} +
  rm -rf "docs/records/$name"
  mkdir "docs/records/$name"
  mv "$scratch/$name"/*.gz "docs/records/$name/"
done
