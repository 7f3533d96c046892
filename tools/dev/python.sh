#!/usr/bin/env bash
# tools/dev/python.sh COMMAND: checks of the Python package in tools/pytorch, outside Bazel. COMMAND is
#   format     ruff lays the sources out
#   lint       ruff (layout and rules), vermin (the oldest Python), mypy (types). mypy reads PyTorch's own types and
#              needs PYTORCH, an interpreter that has it; by default the one that .ci/run keeps
#   install    makes the sdist and the wheel, and installs both, the folder, and the folder as editable, in fresh
#              environments of python3 and of the newest Python that is found. Needs a network
#   test       pytest of the tests; those that need PyTorch are skipped
#   tools      makes the environment of the tools alone
# The tools of python_tools.txt are installed once, below ~/.cache/gradsync.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

package=tools/pytorch
list=tools/dev/python_tools.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gradsync
tools=$cache/python_tools
pytorch=${PYTORCH:-$cache/pytorch-2.15.0/bin/python}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Makes the environment anew when the list has changed. Another python.sh may have been first.
make_tools() {
  if cmp --silent "$list" "$tools/made"; then return; fi
  rm -rf "$tools" && python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --requirement "$list" &&
    cp "$list" "$tools/made"
}

lint() {
  local oldest
  oldest=$(sed --quiet 's/^requires-python = ">=\(.*\)"$/\1/p' $package/pyproject.toml)
  "$tools/bin/ruff" format --check $package
  "$tools/bin/ruff" check $package
  "$tools/bin/vermin" --quiet --no-tips --eval-annotations --violations --target="$oldest-" $package/gradsync
  if [[ ! -x $pytorch ]]; then
    echo "python.sh: no PyTorch in $pytorch: mypy is skipped" >&2
    return
  fi
  "$tools/bin/mypy" --config-file=$package/pyproject.toml --cache-dir="$cache/mypy" --python-executable="$pytorch" \
    $package/gradsync
}

# The interpreters to install for: Debian 12 has 3.11, Debian 13 has 3.13.
pythons() {
  local newest
  echo python3
  for newest in python3.14 python3.13 python3.12; do
    if "$newest" -c 'import ensurepip' 2>/dev/null; then
      echo "$newest"
      return
    fi
  done
  echo "python.sh: no newer Python than python3 is here: only that one is tried" >&2
}

expected_answer() { PYTHONPATH=$package python3 -m gradsync what_if "$1"; }

# install_one PYTHON NAME ARGUMENT...: pip installs these in a fresh environment, whose gradsync then works, wherever it runs.
install_one() {
  local python=$1 name=$2 recording=$PWD/docs/recordings/lstm.loopback.jsonl.gz environment=$scratch/environment version
  shift 2
  rm -rf "$environment"
  "$python" -m venv "$environment"
  if [[ " $* " == *' --no-build-isolation '* ]]; then
    "$environment/bin/pip" install --quiet "$(grep '^hatchling==' $list)" editables
  fi
  "$environment/bin/pip" install --quiet --disable-pip-version-check "$@"
  version=$(cd "$scratch" && "$environment/bin/gradsync" --version)
  (cd "$scratch" && "$environment/bin/gradsync" what_if "$recording") >"$scratch/answer"
  expected_answer "$recording" | diff - "$scratch/answer"
  [[ $version == "gradsync $("$environment/bin/python" -c \
    'from importlib import metadata; print(metadata.version("gradsync"))')" ]]
  "$environment/bin/python" -c '
import importlib.resources, gradsync
assert importlib.resources.files(gradsync).joinpath("py.typed").is_file()'
  echo "$("$environment/bin/python" --version): $name: $version"
}

# The archives hold the license and every source, and nothing that a build has left.
check_archives() {
  local wheel sdist
  wheel=$(echo "$scratch"/dist/*.whl)
  sdist=$(echo "$scratch"/dist/*.tar.gz)
  cmp LICENSE $package/LICENSE
  python3 -m zipfile --list "$wheel" | awk 'NR > 1 { print $1 }' | sort >"$scratch/in_wheel"
  tar --list --gzip --file="$sdist" | sed 's|^[^/]*/||' | sort >"$scratch/in_sdist"
  (cd $package && git ls-files gradsync && git ls-files --others --exclude-standard gradsync) | sort >"$scratch/sources"
  grep '^gradsync/' "$scratch/in_wheel" | diff "$scratch/sources" -
  grep '^gradsync/' "$scratch/in_sdist" | diff "$scratch/sources" -
  grep --quiet --extended-regexp '\.dist-info/licenses/LICENSE$' "$scratch/in_wheel"
  grep --quiet --line-regexp LICENSE "$scratch/in_sdist"
}

install() {
  local python
  cp -R $package "$scratch/source"  # where a build may leave what it likes
  (cd "$scratch" && "$tools/bin/python" -m build --outdir "$scratch/dist" "$scratch/source") >"$scratch/log" 2>&1 || {
    tail -n 20 "$scratch/log" >&2
    return 1
  }
  check_archives
  for python in $(pythons); do
    install_one "$python" wheel "$scratch"/dist/*.whl
    install_one "$python" sdist "$scratch"/dist/*.tar.gz
    install_one "$python" folder "$scratch/source"
    install_one "$python" 'folder, editable' --editable "$scratch/source"
    install_one "$python" 'folder, without isolation' --no-build-isolation "$scratch/source"
  done
}

case ${1:-} in
  format | lint | install | test | tools) ;;
  *)
    echo "python.sh: expected format, lint, install, test or tools" >&2
    exit 2
    ;;
esac
make_tools
case $1 in
  format) "$tools/bin/ruff" format $package && "$tools/bin/ruff" check --fix --select=I $package ;;
  tools) ;;
  test) "$tools/bin/pytest" --quiet -p no:cacheprovider $package ;;
  *) "$1" ;;
esac
