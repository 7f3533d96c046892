#!/usr/bin/env bash
# make_wheel.sh ZIPPER OUT WHAT_IF FILE...: a wheel in the directory OUT of a program and Python files. The same bytes for the
# same files: zipper gives every entry one date.
set -euo pipefail
zipper=$1 out=$2 what_if=$3
shift 3

version=0.1.0 info=gradsync-0.1.0.dist-info
# The program needs this glibc. Without shared libraries it needs none: then 2.17, the oldest that PyTorch supports.
glibc=$(objdump --dynamic-syms "$what_if" 2>/dev/null | grep --only-matching --perl-regexp 'GLIBC_\K2\.[0-9]+' |
  sort --version-sort | tail -n 1 || true)
tag=py3-none-manylinux_$(tr . _ <<<"${glibc:-2.17}")_$(uname -m)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/gradsync" "$stage/$info"
install -m 755 "$what_if" "$stage/gradsync/what_if"
strip "$stage/gradsync/what_if"
for file in "$@"; do install -m 644 "$file" "$stage/gradsync/"; done
cat >"$stage/$info/METADATA" <<END
Metadata-Version: 2.1
Name: gradsync
Version: $version
Summary: Predicts what PyTorch's DistributedDataParallel will take, from steps that do not use it
Requires-Python: >=3.9
Requires-Dist: torch>=2.1
END
printf 'Wheel-Version: 1.0\nGenerator: gradsync\nRoot-Is-Purelib: false\nTag: %s\n' "$tag" >"$stage/$info/WHEEL"
printf '[console_scripts]\ngradsync = gradsync.__main__:main\n' >"$stage/$info/entry_points.txt"

cd "$stage"
mapfile -t files < <(find . -type f -printf '%P\n' | LC_ALL=C sort)
for file in "${files[@]}"; do
  printf '%s,sha256=%s,%s\n' "$file" \
    "$(sha256sum "$file" | cut -c 1-64 | tr a-f A-F | basenc --base16 --decode | basenc --base64url | tr -d =)" \
    "$(stat --format=%s "$file")"
done >"$info/RECORD"
echo "$info/RECORD,," >>"$info/RECORD"
"$OLDPWD/$zipper" cC "$OLDPWD/$out/gradsync-$version-$tag.whl" "${files[@]}" "$info/RECORD"
