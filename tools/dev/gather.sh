#!/usr/bin/env bash
# tools/dev/gather.sh [--out=DIR] [--without=LIST] [TARGET...]: builds benchmarks and tests and gathers them, with the
# shared libraries and files that they need, in a folder that runs on another machine: x86-64 Linux whose glibc is not
# older than this one's, with an NVIDIA driver. There, DIR/run_gpu.sh runs everything and leaves records behind;
# DIR/run PROGRAM runs one. docs/gpu.md says more.
#
#   --out=DIR       where to; made anew. Default: gathered
#   --without=LIST  libraries that the other machine has, separated by commas: cuda (its runtime, cuBLASLt and
#                   NVRTC), cudnn, nccl; or none. Default: cuda
#   CUDA_ARCHITECTURES in the environment: the GPUs to compile kernels for. Default: 80,90 (A100 and H100), and PTX for
#                   later ones
#   TARGET...       programs and tests. Default: every GPU test, the benchmarks and the tools that read their records
set -euo pipefail
workspace=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bazelw=$workspace/bazelw

fail() {
  echo "gather.sh: $*" >&2
  exit 2
}

out=gathered
without=cuda
targets=()
for argument in "$@"; do
  case $argument in
    --out=?*) out=${argument#*=} ;;
    --without=?*) without=${argument#*=} ;;
    -*) fail "$argument: expected --out=DIR, --without=LIST or a target such as //bench:ddp" ;;
    //*:*) targets+=("$argument") ;;
    *) fail "$argument: expected a target such as //bench:ddp" ;;
  esac
done
for part in ${without//,/ }; do
  [[ $part =~ ^(cuda|cudnn|nccl|none)$ ]] || fail "--without=$without: expected cuda, cudnn, nccl or none"
done
out=$(realpath --canonicalize-missing "$out")
if [[ -e $out && ! -e $out/COMMIT ]]; then fail "--out=$out: is there already, and was not made by gather.sh"; fi

# From bazelw's directory, because it takes labels from there.
cd "$workspace"
export CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-80,90}
query() { "$bazelw" query --noshow_progress "$@"; }

if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(query 'attr(tags, "\bgpu\b", tests(//...))' | sort)
  ((${#targets[@]} > 0)) || fail "found no GPU test"
  targets+=(//bench:all_reduce //bench:compare //bench:ddp //bench:gpus //tools:summarize)
fi
found=$(query "tests(set(${targets[*]}))") || fail "cannot tell which targets are tests"
read -r -d '' -a tests <<<"$found" || true
"$bazelw" build "${targets[@]}" || fail "the targets above do not build"
bin=$("$bazelw" info bazel-bin 2>/dev/null)

rm -rf "$out"
mkdir -p "$out/lib" "$out/runfiles"
touch "$out/COMMIT"  # empty until all is there: this folder may be made anew

# Every program with the tree of files beside it, as Bazel laid it out.
for target in "${targets[@]}"; do
  path=${target#//}
  cp --recursive --dereference --force --no-preserve=mode "$bin/${path/://}.runfiles/." "$out/runfiles/"
done
rm -f "$out/runfiles/MANIFEST"
programs=()
while IFS= read -r -d '' file; do
  if head --bytes=4 "$file" | grep --quiet --text $'^\x7fELF'; then programs+=("$file"); fi
done < <(find "$out/runfiles" -type f -print0 2>/dev/null)
strip --strip-all "${programs[@]}"
chmod +x "${programs[@]}"

# Which part of --without a library belongs to; "system" for the C library and the driver, which never travel; "mpi" and
# "verbs" for what only replaces the other machine's own, because Open MPI's mpirun and libraries must be of one version,
# and a network's drivers belong to its libibverbs.
part_of() {
  case $1 in
    ld-linux-* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.* | \
      libcuda.so.* | libnvidia-*) echo system ;;
    libcudnn*) echo cudnn ;;
    libnccl.so.*) echo nccl ;;
    libmpi.so.* | libopen-*.so.* | libhwloc.so.* | libevent_*.so.* | libudev.so.*) echo mpi ;;
    libibverbs.so.* | libnl-*.so.*) echo verbs ;;
    libcudart.so.* | libcublas.so.* | libcublasLt.so.* | libnvrtc* | libnvJitLink.so.*) echo cuda ;;
    *) echo own ;;
  esac
}
takes() { [[ $1 == own || ($1 != system && ,$without, != *,"$1",*) ]]; }

declare -A left=()
take() {  # take PATH
  local name=${1##*/} part
  part=$(part_of "$name")
  if [[ $part == mpi || $part == verbs ]]; then
    mkdir -p "$out/lib/$part"
    cp --dereference --no-clobber "$1" "$out/lib/$part/$name"
  elif takes "$part"; then
    cp --dereference --no-clobber "$1" "$out/lib/$name"
  elif [[ $part != system ]]; then
    left[$name]=1
  fi
}
libraries_of() { ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort --unique; }
while read -r library; do
  take "$library"
  # cuDNN, cuBLAS and NVRTC load the rest of themselves when they need it.
  if [[ ${library##*/} == libcudnn.so.* || ${library##*/} == libnvrtc.so.* ]]; then
    for sibling in "${library%/*}"/libcudnn_*.so."${library##*.}" "${library%/*}"/lib{cublas,nvJitLink}.so.[0-9]* \
      "${library%/*}"/libnvrtc*.so.[0-9]*; do
      if [[ -e $sibling && $sibling != *.alt.* ]]; then take "$sibling"; fi
    done
  fi
done < <(libraries_of "${programs[@]}")

# Which test needs how many GPUs.
declare -A gpus_of=()
if ((${#tests[@]} > 0)); then
  for count in 1 2 4 8; do
    tag="requires-gpu-nvidia:$count"
    ((count > 1)) || tag=gpu
    for test in $(query "attr(tags, \"\\b$tag\\b\", set(${tests[*]}))"); do gpus_of[$test]=$count; done
  done
  for test in "${tests[@]}"; do
    path=${test#//}
    echo "${path/://} ${gpus_of[$test]-0}"
  done >"$out/tests"
fi
touch "$out/tests"

cp "$workspace/tools/dev/run_gpu.sh" "$workspace/tools/dev/run_gathered.sh" "$out/"
mv "$out/run_gathered.sh" "$out/run"
chmod +x "$out/run" "$out/run_gpu.sh"
# As stamped into the benchmarks.
commit=$(awk '$1 == "STABLE_GRADSYNC_COMMIT" { print $2 }' "$("$bazelw" info output_path 2>/dev/null)/stable-status.txt")
echo "$commit" >"$out/COMMIT"

# Nothing may come from this machine by accident.
library_path=$out/lib:$out/lib/mpi:$out/lib/verbs
missing=$(env --ignore-environment LD_LIBRARY_PATH="$library_path" ldd "${programs[@]}" 2>/dev/null |
  awk '$2 == "=>" && $3 == "not" { print $1 }' | sort --unique)
[[ -z $missing ]] || fail "not found: $missing"
elsewhere=$(env --ignore-environment LD_LIBRARY_PATH="$library_path" ldd "${programs[@]}" 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort --unique | grep --invert-match "^$out/lib/" || true)
for library in $elsewhere; do
  name=${library##*/}
  if [[ $(part_of "$name") != system && ! ${left[$name]+x} ]]; then fail "$library was left behind"; fi
done

size() { du --apparent-size --summarize --block-size=M "$@" | cut --fields=1; }
echo "$out: commit $commit, ${#programs[@]} programs, ${#tests[@]} of them tests"
echo "  programs and their files: $(size "$out/runfiles")B, libraries: $(size "$out/lib")B"
echo "  as tar.gz: $(($(tar --directory="$out" --create . | gzip | wc --bytes) / 1000000)) MB"
if ((${#left[@]} > 0)); then
  echo "  left to the other machine: $(printf '%s\n' "${!left[@]}" | sort | tr '\n' ' ')"
fi
echo "  needs glibc $(objdump --dynamic-syms "${programs[@]}" "$out"/lib/{,mpi/,verbs/}*.so.* 2>/dev/null | grep --only-matching 'GLIBC_2\.[0-9]*' |
  sort --unique --version-sort | tail --lines=1 | cut --delimiter=_ --fields=2) or newer"
