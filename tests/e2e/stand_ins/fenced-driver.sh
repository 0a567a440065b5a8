#!/bin/bash
# The program `gym` with a driver that records the numbers below $WANTED, one a line, and fences its output by inode as
# the collector does. What it does after two numbers stands in the file <job id>.<restart count> of the folder plays, one word: work
# (on to the end), stall (until it is told to drain or to stop), zombie (until the file rise is there, then on, whatever
# it is told), crash, hopeless, exhausted.
[[ $1 == eval ]] || { echo "gym 9"; exit 0; }
asked='' new=0
trap 'asked=yes' TERM USR1
out=$NEMO_GYM_BENCH_DIR/artifacts/rollouts.jsonl
run=${NEMO_GYM_LINK##*/}
PLAYS=${NEMO_GYM_BENCH_DIR%/*/*}/plays
play=work
[[ ! -e $PLAYS/$run ]] || read -r play <"$PLAYS/$run"

# say STATE STATUS [HOPELESS]: the last word, and the end.
say() {
  {
    printf '%s\n' "state $1" "status $2" "expected $WANTED" "recorded $(wc -l <"$out")" "new $new"
    [[ -z ${3-} ]] || printf 'hopeless %s\n' "$3"
  } >"$NEMO_GYM_LINK/collected.new"
  mv -- "$NEMO_GYM_LINK/collected.new" "$NEMO_GYM_LINK/collected"
  exit "$2"
}

: >>"$out"
cp -- "$out" "$out.$run"
mv -- "$out.$run" "$out"
exec 9>>"$out"
exec 8<> <(:)
for ((number = 0; number < WANTED; number++)); do
  ! grep -qx "$number" "$out" || continue
  if ((new == 2)) && [[ $play != work ]]; then
    : >"$PLAYS/at-$run"
    case $play in
      crash) exit 1 ;;
      hopeless) say failed 1 'the data are missing' ;;
      exhausted) say exhausted 76 ;;
      zombie)
        until [[ -e $PLAYS/rise ]]; do read -r -t 0.02 -u 8; done
        echo "$number" >&9
        : >"$PLAYS/risen"
        [[ $(stat -Lc %i /proc/self/fd/9) == $(stat -c %i "$out") ]] || exit 1
        ;;
      *)
        until [[ -n $asked || -e $NEMO_GYM_DRAIN_FILE ]]; do read -r -t 0.02 -u 8; done
        say drained 75
        ;;
    esac
  fi
  [[ -z $asked && ! -e $NEMO_GYM_DRAIN_FILE ]] || say drained 75
  echo "$number" >&9
  ((++new))
done
say complete 0
