#!/usr/bin/env bash
# Tests which libraries run_gathered.sh takes: from where, and in which order. A false ldd says what a program needs.
set -euo pipefail
script=$PWD/tools/dev/run_gathered.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

mkdir -p bin system opt/bin opt/lib module folder/lib/{mpi,verbs} folder/runfiles/gradsync/bench
cp "$script" folder/run
touch folder/lib/own.so.1 folder/lib/mpi/libmpi.so.40 folder/lib/verbs/libibverbs.so.1
cat >folder/runfiles/gradsync/bench/ddp <<'END'
#!/bin/sh
echo "$*: $LD_LIBRARY_PATH"
END
cat >bin/ldd <<'END'
#!/bin/bash
for name in own.so.1 libmpi.so.40 libibverbs.so.1; do
  found=not
  for place in ${LD_LIBRARY_PATH//:/ } SCRATCH/system; do
    if [[ -e $place/$name ]]; then found=$place/$name && break; fi
  done
  echo "  $name => $found found"
done
END
sed -i "s|SCRATCH|$scratch|" bin/ldd
chmod +x bin/ldd folder/run folder/runfiles/gradsync/bench/ddp

runs() {  # runs WHEN PATH [ASSIGNMENT...]: with that LD_LIBRARY_PATH, relative to the scratch directory
  local expected=--steps=1: part found
  for part in ${2//:/ }; do expected+=:$scratch/$part; done
  found=$(env --unset=LD_LIBRARY_PATH PATH="$scratch/bin:$PATH" PYTHON=false "${@:3}" folder/run bench/ddp --steps=1)
  [[ $found == "${expected/::/: }" ]] || fail "$1: $found, expected ${expected/::/: }"
}

runs "nothing is there" folder/lib:folder/lib/verbs:folder/lib/mpi
touch system/libibverbs.so.1
runs "the system has one of two" folder/lib:folder/lib/mpi
touch opt/bin/mpirun opt/lib/libmpi.so.40
chmod +x opt/bin/mpirun
runs "Open MPI is where mpirun is" folder/lib:opt/lib PATH="$scratch/bin:$scratch/opt/bin:$PATH"
touch module/libmpi.so.40
runs "LD_LIBRARY_PATH has another" folder/lib:module:module PATH="$scratch/bin:$scratch/opt/bin:$PATH" \
  LD_LIBRARY_PATH="$scratch/module"
touch system/libmpi.so.40
runs "the system has all" folder/lib

rm folder/lib/mpi/libmpi.so.40 system/libmpi.so.40
lacking=$(PATH="$scratch/bin:$PATH" PYTHON=false folder/run --libraries 2>&1) && fail "lacks a library, and says nothing"
[[ $lacking == *"left to it by gather.sh --without: libmpi.so.40" ]] || fail "$lacking"
echo PASSED
