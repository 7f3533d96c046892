#!/usr/bin/env bash
# ./run PROGRAM [ARGUMENT...]: runs a gathered program, such as bench/ddp, with the libraries beside it and those that
# gather.sh left to this machine. Open MPI and libibverbs are this machine's, if it has them.
# ./run --libraries: prints where those are; exit status 1 if one is nowhere to be found.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Directories, most wanted first. PyTorch brings cuDNN and NCCL along, and often a CUDA runtime.
places() {
  local site mpirun
  echo "${GRADSYNC_OUTER_LD_LIBRARY_PATH//:/$'\n'}"
  if mpirun=$(command -v mpirun); then printf '%s\n' "$(dirname "${mpirun%/*}")"/lib{64,}; fi
  printf '%s\n' "$here"/lib/{mpi,verbs}
  echo "${CUDA_HOME:-/usr/local/cuda}/lib64"
  printf '%s\n' /usr/local/cuda-13*/lib64
  site=$("${PYTHON:-python3}" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null) || return 0
  printf '%s\n' "$site"/nvidia/*/lib
}

missing() {  # missing PATH: the libraries that programs do not find with it
  { find "$here/runfiles" -type f -perm -u+x -exec env LD_LIBRARY_PATH="$1" ldd {} + 2>/dev/null || true; } |
    awk '$2 == "=>" && $3 == "not" { print $1 }' | sort --unique
}

# Sets LD_LIBRARY_PATH, and in the variable that tells programs started from here, which need not look again.
find_libraries() {
  local path=$here/lib name place
  for name in $(missing "$path"); do
    for place in $(places); do
      if [[ -e $place/$name ]]; then
        if [[ :$path: != *:$place:* ]]; then path+=:$place; fi
        break
      fi
    done
  done
  echo "$path"
}

# What other programs, such as a peer's Python, are to go on with.
export GRADSYNC_OUTER_LD_LIBRARY_PATH=${GRADSYNC_OUTER_LD_LIBRARY_PATH-${LD_LIBRARY_PATH-}}
: "${GRADSYNC_LIBRARIES:=$(find_libraries)}"
export GRADSYNC_LIBRARIES
export LD_LIBRARY_PATH=$GRADSYNC_LIBRARIES${GRADSYNC_OUTER_LD_LIBRARY_PATH:+:$GRADSYNC_OUTER_LD_LIBRARY_PATH}
export RUNFILES_DIR=$here/runfiles

if [[ ${1-} == --libraries ]]; then
  echo "${GRADSYNC_LIBRARIES//:/$'\n'}"
  lacking=$(missing "$LD_LIBRARY_PATH")
  [[ -z $lacking ]] || {
    echo "not found on this machine, and left to it by gather.sh --without: ${lacking//$'\n'/ }" >&2
    exit 1
  }
  exit
fi
program=$here/runfiles/gradsync/${1:?expected a program, such as bench/ddp}
shift
exec "$program" "$@"
