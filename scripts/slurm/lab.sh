# shellcheck shell=bash
# What up.sh and down.sh share: where the lab is, and which processes are its own. Sourced, never run.

lab_root=0
[ "$(id -u)" != 0 ] || lab_root=1
lab=${SLURM_LAB:-}
if [ -z "$lab" ]; then
  if [ "$lab_root" = 1 ]; then lab=/var/lib/slurm-lab; else lab=$HOME/.slurm-lab; fi
fi
lab_run=$lab/run
# shellcheck disable=SC2034 # up.sh and down.sh use it
lab_linked="slurm.conf gres.conf cgroup.conf plugstack.conf"
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'slurm-lab: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# One at a time; no daemon inherits the lock, they are started with descriptor 9 closed.
lab_lock() {
  exec 9>"$lab/lock"
  flock -w 120 9 || die "another up.sh or down.sh holds $lab/lock"
}

# lab_owns PID: does it carry this lab's mark? (sshd overwrites its environment, so its arguments count too)
lab_owns() {
  tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF "SLURM_LAB_ID=$lab" ||
    tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$lab/"
}

# lab_pid NAME PROGRAM: prints the number of our daemon; false for a zombie or for a stranger with its number.
lab_pid() {
  local pid
  [ -s "$lab_run/$1.pid" ] || return 1
  pid=$(cat "$lab_run/$1.pid")
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 1
  if grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; then return 1; fi
  lab_owns "$pid" || return 1
  echo "$pid"
}

# lab_start NAME PROGRAM ARGS…: start a daemon in the foreground, detached, unless it runs already. It works in
# the folder of the lab: one that goes while it runs would be complained of in the output of every step.
lab_start() {
  local name=$1 program=$2
  shift 2
  if lab_pid "$name" "$program" >/dev/null; then return 0; fi
  setsid env -C "$lab" "$@" </dev/null >>"$lab/log/$name.out" 2>&1 9>&- &
  echo $! >"$lab_run/$name.pid"
}

# lab_stop NAME PROGRAM SECONDS
lab_stop() {
  local pid until=$((SECONDS + $3))
  if pid=$(lab_pid "$1" "$2"); then
    kill -s TERM "$pid" 2>/dev/null || true
    while lab_pid "$1" "$2" >/dev/null; do
      if [ $SECONDS -ge $until ]; then
        kill -s KILL "$pid" 2>/dev/null || true
        break
      fi
      sleep 0.05
    done
  fi
  rm -f "$lab_run/$1.pid"
}

# lab_await SECONDS WHAT COMMAND…
lab_await() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >"$lab/log/await.out" 2>&1; do
    if [ $SECONDS -ge $until ]; then
      tail -n 5 "$lab/log/await.out" >&2
      die "no sign of $what; the logs are in $lab/log"
    fi
    sleep 0.1
  done
}
