#!/usr/bin/env bash
# Stop the cluster that up.sh started: only processes that it recorded or that carry its mark.
#   down.sh          stop the daemons, keep state and accounting
#   down.sh --wipe   … and remove the state folder and what up.sh changed elsewhere
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/slurm/lab.sh
. "$here/lab.sh"
[ -d "$lab" ] || exit 0
lab_lock
export SLURM_CONF=$lab/etc/slurm.conf

end_jobs() {
  local ids
  lab_pid slurmctld slurmctld >/dev/null || return 0
  timeout 10 scancel --state=PENDING --quiet -u "$(id -un)" 2>/dev/null || true
  ids=$(timeout 5 squeue -h -o %A 2>/dev/null | sort -u || true)
  [ -n "$ids" ] || return 0
  # shellcheck disable=SC2086 # one word an id
  timeout 20 scancel -s KILL --full $ids 2>/dev/null || true
  # shellcheck disable=SC2086
  timeout 20 scancel $ids 2>/dev/null || true
  local _
  for _ in $(seq 100); do
    [ -n "$(timeout 5 squeue -h 2>/dev/null)" ] || break
    sleep 0.1
  done
}

# Step daemons outlive their slurmd; they carry the mark from its environment.
end_steps() {
  local folder
  for folder in /proc/[0-9]*; do
    [ "$(cat "$folder/comm" 2>/dev/null)" = slurmstepd ] || continue
    if lab_owns "${folder#/proc/}"; then kill -s KILL "${folder#/proc/}" 2>/dev/null || true; fi
  done
}

unlink_configuration() {
  local file
  for file in $lab_linked; do
    [ "$(readlink "/etc/slurm/$file" 2>/dev/null)" = "$lab/etc/$file" ] || continue
    rm -f "/etc/slurm/$file"
    if [ -e "/etc/slurm/$file.before-lab" ]; then mv "/etc/slurm/$file.before-lab" "/etc/slurm/$file"; fi
  done
}

unmap_host_name() {
  grep -q '# slurm-lab$' /etc/hosts || return 0
  grep -v '# slurm-lab$' /etc/hosts >"$lab/hosts.new"
  cat "$lab/hosts.new" >/etc/hosts
}

end_jobs
lab_stop sshd sshd 5
for file in "$lab_run"/n[0-9]*.pid; do
  [ -e "$file" ] || continue
  case $file in *.own.pid) continue ;; esac
  lab_stop "$(basename "$file" .pid)" slurmd 5
done
lab_stop slurmctld slurmctld 15
lab_stop slurmdbd slurmdbd 15
lab_stop mariadbd mariadbd 20
lab_stop munged munged 5
end_steps
[ "$lab_root" = 0 ] || unlink_configuration
if [ "${1:-}" = --wipe ]; then
  [ "$lab_root" = 0 ] || unmap_host_name
  rm -rf -- "$lab"
fi
