#!/usr/bin/env bash
# tools/dev/lint.sh [FILE...]: clang-tidy with .clang-tidy's checks over the C++ sources, or over the files given,
# and shellcheck's over the scripts. It writes compile_commands.json, from Bazel's own commands; editors read it too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for tool in clang-tidy-16 shellcheck jq; do
  if ! command -v "$tool" >/dev/null; then
    echo "lint.sh: $tool is missing: BAZELW_EXTRAS=\"dev clang\" ./bazelw info installs it" >&2
    exit 1
  fi
done

mapfile -t scripts < <(git ls-files bazelw .ci/run '*.sh')
shellcheck "${scripts[@]}"

# Clang does not know all of GCC's options, and objects to new meanings of __DATE__.
# shellcheck disable=SC2016  # jq's own variables
./bazelw aquery --output=jsonproto --noshow_progress 'mnemonic("CppCompile", //...)' 2>/dev/null |
  jq --arg workspace "$PWD" --arg output_base "$(./bazelw info output_base 2>/dev/null)" '[
    .actions[].arguments
    | map(select(. != "-fno-canonical-system-headers" and . != "-fopenmp" and . != "-Wno-restrict"
      and (startswith("-D__") | not)))
    | {
        directory: $workspace,
        file: .[index("-c") + 1],
        arguments: map(sub("^external/"; $output_base + "/external/")),
      }
    | select(.file | startswith("external/") or startswith("bazel-out/") | not)
  ]' >compile_commands.json

mapfile -t files < <(if (($# > 0)); then printf '%s\n' "$@"; else jq --raw-output '.[].file' compile_commands.json | sort -u; fi)
own="^($PWD/)?(model|comm|ddp|bench|tools|tests)/.*\.h$"
printf '%s\0' "${files[@]}" |
  xargs -0 --max-procs="$(nproc)" --max-args=4 \
    clang-tidy-16 -p . --quiet --header-filter="$own" --extra-arg=-Wno-unknown-pragmas --extra-arg=-fsized-deallocation \
    2> >(grep --invert-match ' warnings generated\.$' >&2)
