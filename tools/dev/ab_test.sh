#!/usr/bin/env bash
# ab.sh in a repository whose commits are stand-ins for programs: what is built and launched when, and how it ends.
set -euo pipefail
for tool in git jq; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is missing" && exit; }
done

ab=$PWD/tools/dev/ab.sh
mkdir "$TEST_TMPDIR/repository"
cd "$TEST_TMPDIR/repository"
export HOME=$TEST_TMPDIR GRADSYNC_AB=$TEST_TMPDIR/scratch LOG=$TEST_TMPDIR/log
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a

# Builds programs that say who they are and what they were given. A commit's number is its speed.
cat >bazelw <<'BAZELW'
#!/bin/bash
[[ $(<speed) != broken ]] || exit 1
mkdir -p bazel-bin/bench/{ddp,compare}.runfiles bazel-bin/tools
for program in ddp compare; do
  ln -sf ../$program.real bazel-bin/bench/$program
  cat >bazel-bin/$program.real <<PROGRAM
#!/bin/bash
echo "$program $(<speed): \$*" >>"\$LOG"
out=\${2#--out=}
mkdir -p "\$out"
echo $(<speed) >>"\$out/speed"
[[ $(<speed) != crash ]]
PROGRAM
done
cat >bazel-bin/tools/summarize <<'PROGRAM'
#!/bin/bash
here=$(head -n 1 "$1/speed") there=$(head -n 1 "${2#--baseline=}/speed")
[[ $here != strange ]] || exit 2
if [[ $here =~ ^[0-9]+$ ]] && ((here > there)); then exit 3; fi
[[ $* == *--format=json* ]] || exit 0
high=4.9 verdict='no difference shown'
case $here in
  noisy) high=5 ;;
  few) high=null verdict='too few steps' ;;
  new) high=null verdict='only here' ;;
  wide) high=5 verdict='too wide to show 10 %' ;;
  fast) high=null verdict=faster ;;
esac
echo "{\"tables\": [{\"columns\": [\"difference_high (%)\", \"verdict\"], \"rows\": [[4, \"no difference shown\"],
  [$high, \"$verdict\"]]}]}"
PROGRAM
chmod +x bazel-bin/*.real bazel-bin/tools/*
BAZELW
chmod +x bazelw
git init --quiet
echo /bazel-bin >.gitignore
for speed in 10 20 broken 10 crash strange noisy few wide fast new; do
  echo "$speed" >speed
  git add .
  git commit --quiet --allow-empty --message="$speed"
  git tag "$speed$(git tag | grep -c "^$speed" || true)"
done

expect() {  # expect STATUS ARGUMENT...
  local status=0
  : >"$LOG"
  "$ab" "${@:2}" >output 2>&1 </dev/null || status=$?
  ((status == $1)) || { echo "FAILED: ab.sh ${*:2}: status $status, expected $1"; cat output "$LOG"; exit 1; }
}

expect 0 --launches=2 100 101 -- --model=tiny --time=1s
expect 1 100 200 -- --model=tiny
expect 0 200 100 --
expect 125 100 broken0 --
[[ ! -s $LOG ]] || { echo "FAILED: nothing runs before both are built"; exit 1; }
expect 125 100 crash0 --
expect 125 100 strange0 --
expect 125 100 noisy0 --
expect 0 --find=5.1 100 noisy0 --
expect 125 100 few0 --
expect 125 100 wide0 --
expect 0 100 fast0 --
expect 0 100 new0 --
for arguments in '' '100 200' '100 --' '100 200 101 --' '100 nothing --' '--launches=0 100 200 --' '--other 100 200 --'; do
  # shellcheck disable=SC2086  # several arguments
  expect 129 $arguments
done

# Who comes first changes, a pair shares its seed, and what was measured before is not compared again.
expect 1 --program=compare --launches=3 100 200 -- --model=tiny
results=$TEST_TMPDIR/scratch/results
diff - "$LOG" <<EXPECTED || { echo "FAILED: the order"; exit 1; }
compare 10: --seed=0 --out=${results}_a --model=tiny
compare 20: --seed=0 --out=${results}_b --model=tiny
compare 20: --seed=1 --out=${results}_b --model=tiny
compare 10: --seed=1 --out=${results}_a --model=tiny
compare 10: --seed=2 --out=${results}_a --model=tiny
compare 20: --seed=2 --out=${results}_b --model=tiny
EXPECTED
[[ $(wc --lines <"${results}_a/speed") == 3 ]] || { echo "FAILED: old results"; exit 1; }

# As git bisect has it.
cp "$ab" "$TEST_TMPDIR/ab.sh"
git checkout --quiet --detach 101
for speed in 10 20 20 20; do
  echo "$speed" >speed
  git commit --quiet --allow-empty --all --message="then $speed"
done
git bisect start HEAD 101 >/dev/null
git bisect run "$TEST_TMPDIR/ab.sh" 101 HEAD -- --model=tiny >output 2>&1 || true
[[ $(git log -1 --format=%s refs/bisect/bad) == 'then 20' && $(git log -1 --format=%s refs/bisect/bad~) == 'then 10' ]] ||
  { echo "FAILED: bisect names another commit"; cat output; exit 1; }
echo PASSED
