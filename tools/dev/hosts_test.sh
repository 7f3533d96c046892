#!/usr/bin/env bash
# hosts.sh with a stand-in for `ip`, so that all hosts are this one: what ranks are told, and how it ends.
set -euo pipefail

if ((EUID != 0)); then
  echo "SKIPPED: hosts.sh needs root"
  exit 0
fi
hosts=$PWD/tools/dev/hosts.sh
cd "$TEST_TMPDIR"
mkdir -p bin
cat >bin/ip <<'IP'
#!/bin/bash
if [[ "$1 $2" != 'netns exec' ]]; then exit; fi
if [[ $4 == cat ]]; then echo 7; else HOST=${3##*-} exec "${@:4}"; fi
IP
printf '#!/bin/sh\necho "$*" >>tc\n' >bin/tc
cat >program <<'PROGRAM'
#!/bin/bash
echo "host $HOST: rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, ${GRADSYNC_LINK_RATE-no limit}, ${GRADSYNC_LAUNCH+${GRADSYNC_LAUNCH#*,} }$*" >>ranks
[[ $RANK ]] && echo "${GRADSYNC_LAUNCH%,*}" >>sets
[[ $RANK != "${FAILS-}" ]] || exit 3
PROGRAM
chmod +x bin/* program
export PATH=$TEST_TMPDIR/bin:$PATH

fail() {
  echo "FAILED: $1"
  cat output ranks
  exit 1
}
export GRADSYNC_LINK_RATE=7  # not of these links
run() {  # run STATUS ARGUMENT...
  local status=0
  rm -f ranks tc sets
  touch ranks tc sets
  "$hosts" "${@:2}" >output 2>&1 || status=$?
  ((status == $1)) || fail "hosts.sh ${*:2}: status $status, expected $1"
}

for arguments in '' 2 '0 ./program' '--ranks=x 2 ./program' '--rate=fast 2 ./program' '--speed=1 2 ./program'; do
  # shellcheck disable=SC2086  # several arguments
  run 2 $arguments
done
run 0 --ranks=2 2 ./program --flag
diff <(sort ranks) - <<'RANKS' || fail "the ranks"
host 0: rank 0 of 4, 0 of 2, no limit, --flag
host 0: rank 1 of 4, 1 of 2, no limit, --flag
host 1: rank 2 of 4, 0 of 2, no limit, --flag
host 1: rank 3 of 4, 1 of 2, no limit, --flag
RANKS
grep -qx 'hosts.sh: host 1 sent 0 bytes' output || fail "what was sent"
run 0 --repeats=2 --rate=1mbit,2mbit 2 ./program
diff <(sed -n 's/.*rank 0 of 2, 0 of 1, //p' ranks) <(printf '%s\n' '1000000, 0 ' '2000000, 0 ' '1000000, 1 ' '2000000, 1 ') ||
  fail "launches"
(($(sort -u sets | wc -l) == 1)) || fail "one set"
run 2 --rate=1.5gbit 2 ./program
grep -qx 'hosts.sh: --rate=1.5gbit: expected whole numbers such as 200mbit,4gbit' output || fail "what is wrong with the rate"
# With more than two hosts, what each receives is limited too.
run 0 --rate=1gbit 3 ./program
(($(grep -c ' dev link0 root .* rate 1gbit ' tc) == 3 && $(grep -c ' dev port. root .* rate 1gbit ' tc) == 3)) || fail "limits of three"
# Whichever rank fails, and at whichever rate.
for rank in 0 1 2; do FAILS=$rank run 3 3 ./program; done
FAILS=0 run 3 --rate=200mbit,4gbit 2 ./program
[[ $(grep -c 'rank 0 of 2, 0 of 1, 200000000, ' ranks) == 1 && $(grep -c ', 4000000000, ' ranks) == 2 ]] || fail "rates"
(($(grep -c ' rate 4gbit ' tc) == 2)) || fail "limits"
echo PASSED
