#!/usr/bin/env bash
# bazelw with stand-ins for dpkg-query, apt-get, sudo, id and bazel: what it installs, says and runs.
set -euo pipefail

bazelw=$PWD/bazelw
list=$PWD/tools/dev/packages.txt
scratch=$TEST_TMPDIR
export CUDA_HOME=$scratch/cuda XDG_CACHE_HOME=$scratch/cache
unset CUDNN_FRONTEND CUDA_ARCHITECTURES
tools=$scratch/bin
calls=$scratch/calls
mkdir -p "$tools" "$scratch/workspace/tools/dev" "$scratch/workspace/model" "$scratch/workspace/third_party/shim"
cp "$bazelw" "$scratch/workspace/bazelw"
printf '# a comment\n\nlibone-dev\ng++\nformatter dev\nplotter report\n' >"$scratch/workspace/tools/dev/packages.txt"

stand_in() {  # stand_in NAME BODY: a program on PATH that logs its call and runs BODY
  # shellcheck disable=SC2016  # the stand-in expands them
  printf '#!/bin/bash\necho "%s $*" >>%q\n%s\n' "$1" "$calls" "$2" >"$tools/$1"
  chmod +x "$tools/$1"
}

run_bazelw() {  # runs it in directory $1 with the remaining arguments; sets status, leaves output and calls
  local directory=$1
  shift
  : >"$calls"
  status=0
  (cd "$directory" && PATH=$tools:/usr/bin:/bin BAZEL=$tools/bazel "$scratch/workspace/bazelw" "$@") \
    >"$scratch/output" 2>&1 </dev/null || status=$?
}

expect() {  # expect WHAT CONDITION...: a condition is a command
  local what=$1
  shift
  if ! "$@"; then
    printf 'FAILED: %s\n-- status %s, output:\n%s\n-- calls:\n%s\n' "$what" "$status" "$(<"$scratch/output")" "$(<"$calls")"
    exit 1
  fi
}
called() { grep -qF -- "$1" "$calls"; }
not_called() { ! grep -qF -- "$1" "$calls"; }
said() { grep -qF -- "$1" "$scratch/output"; }
exited() { ((status == $1)); }

# shellcheck disable=SC2016
stand_in bazel 'echo "in $PWD" >>'"$(printf %q "$calls")"'; exit 7'
stand_in apt-get ''
stand_in id 'echo 0'
stand_in sudo 'exit 1'
stand_in python3 'exit 1'

stand_in dpkg-query ''
stand_in uname 'echo aarch64'
run_bazelw / build //...
expect "another processor ends it" exited 1
expect "which" said "this processor is aarch64: gradsync is compiled for x86-64 with AVX2"
expect "nothing installed or built" test "$(sort -u "$calls")" == "uname -m"
rm "$tools/uname"
printf 'flags\t\t: fpu avx avx2 fma bmi1\nbugs : bmi2\n' >"$scratch/cpuinfo"
BAZELW_CPUINFO=$scratch/cpuinfo run_bazelw / build //...
expect "an older processor ends it" exited 1
expect "what it lacks" said "this processor lacks BMI2: gradsync is compiled for x86-64 with AVX2"
printf 'flags\t\t: fpu avx avx2 fma bmi1 bmi2\n' >"$scratch/cpuinfo"
export BAZELW_CPUINFO=$scratch/cpuinfo

stand_in dpkg-query 'printf "g++:installed\nlibone-dev:amd64:installed\n"'
run_bazelw "$scratch/workspace/model" build --config=x '//a b'
expect "Bazel's own exit status" exited 7
expect "the arguments as given" called "bazel build --config=x //a b"
expect "the current directory kept" called "in $scratch/workspace/model"
expect "nothing installed" not_called apt-get
run_bazelw /
expect "the workspace from outside" called "in $scratch/workspace"
run_bazelw "$scratch/workspace/third_party/shim"
expect "not another WORKSPACE" called "in $scratch/workspace"

stand_in dpkg-query 'printf "g++:amd64:config-files\nlibone-dev-extra:amd64:installed\n"; exit 1'
run_bazelw /
expect "what is missing, without extras" called "apt-get install --quiet --yes --no-install-recommends libone-dev g++"
expect "no extras" not_called formatter
expect "Bazel afterwards" exited 7
BAZELW_EXTRAS=dev run_bazelw /
expect "the extras asked for" called "libone-dev g++ formatter"
run_bazelw / run //tools:report -- dev
expect "what the report needs" called "libone-dev g++ plotter"
expect "no others" not_called formatter
BAZELW_EXTRAS=dev run_bazelw / build //tools:report
expect "both" called "libone-dev g++ formatter plotter"
BAZELW_EXTRAS=dev,mpi run_bazelw /
expect "no other extras" exited 1
expect "which there are" said "BAZELW_EXTRAS has 'dev,mpi', expected words out of: dev report"
expect "nothing done" test ! -s "$calls"

# shellcheck disable=SC2016
stand_in apt-get 'if [[ $1 == install ]]; then echo "E: Unable to locate package g++"; exit 100; fi'
run_bazelw /
expect "a failed installation ends it" exited 1
expect "apt's own words" said "E: Unable to locate package g++"
expect "no Bazel" not_called "bazel "

stand_in id 'echo 1000'
run_bazelw /
expect "no root and no sudo ends it" exited 1
expect "the command to type" said "sudo apt-get update && sudo apt-get install --no-install-recommends libone-dev g++"
expect "no attempt" not_called apt-get
# shellcheck disable=SC2016
stand_in sudo 'shift; exec "$@"'
stand_in apt-get ''
run_bazelw /
expect "sudo in place of root" called "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install"

# What Bazel asks before it looks again for libraries.
# shellcheck disable=SC2016
stand_in bazel 'echo "installed $GRADSYNC_INSTALLED" >>'"$(printf %q "$calls")"
mkdir -p "$CUDA_HOME/include"
run_bazelw /
before=$(grep "^installed" "$calls")
run_bazelw /
expect "nothing is new" called "$before"
touch --date="2001-01-01 UTC" "$CUDA_HOME/include"
run_bazelw /
expect "a toolkit is new" not_called "$before"
expect "when" called " 978307200"

# cuDNN's frontend, only where cuDNN is and CUDA is compiled.
export CUDA_ARCHITECTURES=90
# shellcheck disable=SC2016
stand_in bazel 'echo "frontend ${CUDNN_FRONTEND-none}" >>'"$(printf %q "$calls")"
run_bazelw /
[[ -e /usr/include/cudnn.h ]] || expect "no frontend without cuDNN" not_called python3
touch "$CUDA_HOME/include/cudnn.h"
stand_in nvidia-smi 'exit 9'
CUDA_ARCHITECTURES='' run_bazelw /
expect "no frontend without a GPU" not_called python3
stand_in nvidia-smi ''
CUDA_ARCHITECTURES='' run_bazelw /
expect "a GPU" called "python3 -m pip install"
run_bazelw /
expect "the attempt" called "python3 -m pip install"
expect "no frontend is no failure" exited 0
expect "and is said" said "attention in bf16 is slow"
expect "Bazel is told nothing" called "frontend none"
XDG_CACHE_HOME=/proc/none run_bazelw /
expect "nor is a cache that cannot be" exited 0
# shellcheck disable=SC2016
stand_in python3 'for a in "$@"; do if [[ $a == --target=* ]]; then d=${a#*=}/include; mkdir -p "$d"; touch "$d/cudnn_frontend.h"; fi; done'
run_bazelw /
expect "pip, with a hash" called "--require-hashes"
expect "Bazel is told" called "frontend $scratch/cache/gradsync/cudnn_frontend-"
stand_in python3 'exit 1'
run_bazelw /
expect "not installed twice" not_called python3
CUDNN_FRONTEND=/elsewhere run_bazelw /
expect "one's own frontend" called "frontend /elsewhere"

rm "$tools/apt-get" "$tools/dpkg-query"
ln -s /usr/bin/{dirname,readlink,bash,env,uname,grep} "$tools/"
: >"$calls"
status=0
(cd / && PATH=$tools "$scratch/workspace/bazelw") >"$scratch/output" 2>&1 || status=$?
expect "another distribution ends it" exited 1
expect "why" said "no apt-get and dpkg"

# The real list: names only, each once.
duplicates=$(sed -e 's/#.*//' -e '/^$/d' "$list" | awk '{print $1}' | sort | uniq -d)
expect "no package twice: $duplicates" test -z "$duplicates"
echo PASSED
