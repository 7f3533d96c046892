#!/usr/bin/env bash
# tools/dev/check_release.sh [OPTION...] RELEASE: README's two commands (the suite with its smoke preset) in a bare
# system of that release of Debian, which debootstrap makes, on a clone of HEAD, as somebody types them who
# has installed git and nothing else. Says at the end what failed, and leaves nothing behind. Takes root, 5 GB below
# $TMPDIR, and an hour or more on a small machine. Exits with 0 if both passed, 1 if not, 2 if it could not try.
#   --cuda         lends the system this machine's /usr/local/cuda
#   --root=DIR     makes the system in DIR, or goes on with the one that is there, and keeps it
#   --cache=DIR    keeps what is compiled in DIR/RELEASE, for another time
# shellcheck disable=SC2317  # functions that a trap and another shell call
set -euo pipefail

workspace=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

fail() {
  echo "check_release.sh: $1" >&2
  exit 2
}

cuda=''
root=''
cache=''
release=''
for argument; do
  case $argument in
    --cuda) cuda=/usr/local/cuda ;;
    --root=*) root=${argument#*=} ;;
    --cache=*) cache=${argument#*=} ;;
    -*) fail "unknown option $argument" ;;
    *)
      [[ $release == '' ]] || fail "one release at a time, not $release and $argument"
      release=$argument
      ;;
  esac
done
[[ $release != '' ]] || fail "which release? tools/dev/check_release.sh trixie"
[[ $cuda == '' || -x $cuda/bin/nvcc ]] || fail "--cuda: there is no $cuda/bin/nvcc"
(($(id -u) == 0)) || fail "making a system takes root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: BAZELW_EXTRAS=dev ./bazelw info installs it"
# From where this machine's apt takes its packages.
# shellcheck disable=SC2016  # apt expands them
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Identifier: Packages' 'Component: main' |
  awk '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
[[ $mirror != '' ]] || fail "apt has no packages of Debian here"

scratch=$(mktemp -d)
cleanup() {
  local running
  running=$(jobs -p)
  if [[ $running != '' ]] && kill "$running" 2>/dev/null; then wait; fi
  # Whatever was mounted went with the namespace, so that this removes files of the bare system alone.
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

root=$(realpath --canonicalize-missing "${root:-$scratch/root}")
if [[ $cache != '' ]]; then
  mkdir -p "$cache/$release"
  cache=$(realpath "$cache/$release")
fi

make_system() {
  if [[ ! -e $root/etc/os-release ]]; then
    debootstrap --variant=minbase --include=ca-certificates,git "$release" "$root" "$mirror" >"$scratch/log" 2>&1 || {
      tail -n 15 "$scratch/log" >&2
      fail "debootstrap makes no $release from $mirror"
    }
  fi
  cp --dereference /etc/resolv.conf "$root/etc/"
  # An installer writes it; debootstrap does not always.
  if [[ ! -e $root/etc/hosts ]]; then printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"; fi
  # Proxies and the like: how this machine reaches the mirror.
  apt-config dump | sed -nE '/^Acquire::(http|https|Retries|Check-Date|Check-Valid-Until)/p' \
    >"$root/etc/apt/apt.conf.d/99host"
  rm -rf "$root/root/gradsync" "$root/root/.bazelrc"
  git clone --quiet --no-hardlinks "$workspace" "$root/root/gradsync"
}

# Makes it the root directory. Not by chroot, under which Bazel could make no sandbox.
enter_system() {
  mount --bind "$root" "$root"
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  if [[ $cuda != '' ]]; then
    mkdir -p "$root$cuda"
    mount --bind -o ro "$(realpath "$cuda")" "$root$cuda"
  fi
  if [[ $cache != '' ]]; then
    mkdir -p "$root/cache"
    mount --bind "$cache" "$root/cache"
    echo 'build --disk_cache=/cache' >"$root/root/.bazelrc"
  fi
  mkdir -p "$root/host"
  cd "$root"
  pivot_root . host
  umount --lazy /host
  cd /root/gradsync
}

try() {  # try COMMAND: adds to the summary how it went
  local begin=$SECONDS result=PASSED
  printf '\n== %s\n' "$1"
  "${stranger[@]}" bash -c "$1" </dev/null 2>&1 | tee /tmp/log || result=FAILED
  {
    echo "$result ($((SECONDS - begin)) s): $1"
    sed -n 's/^Executed [0-9]/  &/p' /tmp/log
    if [[ $result == FAILED ]]; then
      grep -E ' error: |^(ERROR|FAILED): |^//.* (FAILED|TIMEOUT|NO STATUS)' /tmp/log || tail -n 15 /tmp/log
    fi
  } >>/tmp/summary
}

# What all of it does, in namespaces of its own: mounts and processes end with them.
be_stranger() {
  trap 'exit 143' TERM
  make_system
  enter_system
  stranger=(env --ignore-environment HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  : >/tmp/summary
  try './bazelw run //bench:suite -- --preset=smoke'
  try './bazelw test --keep_going //...'
  printf '\n%s at %s, %s CUDA; %s\n' "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)" \
    "$(git rev-parse --short=9 HEAD)" "$([[ $cuda == '' ]] && echo without || echo with)" \
    "$(dpkg-query --show --showformat='${Package} ${Version}, ' g++ libdnnl-dev libgloo-dev | sed 's/, $//')"
  cat /tmp/summary
  ! grep -q ^FAILED /tmp/summary
}

if [[ $(git -C "$workspace" status --porcelain) != '' ]]; then
  echo "check_release.sh: what is not committed is not tried" >&2
fi
export workspace release root cache cuda mirror scratch
export -f fail make_system enter_system try be_stranger
unshare --mount --pid --fork --kill-child bash -euo pipefail -c be_stranger &
status=0
wait "$!" || status=$?
((status < 124)) || fail "killed: status $status"
exit "$status"
