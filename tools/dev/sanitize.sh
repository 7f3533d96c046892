#!/usr/bin/env bash
# tools/dev/sanitize.sh [CONFIG...] [-- TARGET...]: runs the tests under AddressSanitizer with LeakSanitizer and
# UndefinedBehaviorSanitizer, and under ThreadSanitizer, both even if the first finds something.
# Default: asan tsan, all tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

configs=()
while (($# > 0)); do
  if [[ $1 == -- ]]; then
    shift
    break
  fi
  configs+=("$1")
  shift
done
((${#configs[@]} > 0)) || configs=(asan tsan)
targets=("$@")
((${#targets[@]} > 0)) || targets=(//...)

failed=()
for config in "${configs[@]}"; do
  echo "== $config"
  # Each in an output folder of its own, so that the next ordinary build starts where the last one ended.
  ./bazelw test --config="$config" --keep_going --build_tests_only --experimental_convenience_symlinks=ignore \
    "${targets[@]}" || failed+=("$config")
done

if ((${#failed[@]} > 0)); then
  echo "sanitize: failed: ${failed[*]}"
  exit 1
fi
echo "sanitize: ${configs[*]} found nothing"
