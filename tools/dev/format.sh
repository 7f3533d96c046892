#!/usr/bin/env bash
# tools/dev/format.sh [--check]: formats the C++ and CUDA sources as .clang-format says, or, with --check, changes
# nothing, names what differs and exits with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mode=(-i)
case ${1:-} in
  '') ;;
  --check) mode=(--dry-run --Werror) ;;
  *)
    echo "format.sh: unknown argument $1; it takes --check or nothing" >&2
    exit 2
    ;;
esac

if ! command -v clang-format >/dev/null; then
  echo "format.sh: clang-format is missing: BAZELW_EXTRAS=dev ./bazelw info installs it" >&2
  exit 1
fi

git ls-files -z --cached --others --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' |
  while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
  xargs -0 --no-run-if-empty --max-procs="$(nproc)" --max-args=20 clang-format "${mode[@]}"
