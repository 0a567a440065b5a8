#!/usr/bin/env bash
# Bring up a real Slurm cluster on this one machine, for tests and for trying things out: four emulated nodes,
# accounting, an sshd, everything on the loopback interface. Run it again at any time: it starts what is missing.
#
#   up.sh              install what is missing (root on Debian), configure, start, wait until jobs are taken
#   . "$(up.sh --env)" the variables that clients need: SLURM_CONF, SLURM_LAB_SSH_CONFIG, …
#
# SLURM_LAB         folder of its state                          /var/lib/slurm-lab, or ~/.slurm-lab if not root
# SLURM_LAB_PORT    the first of 100 TCP ports                   17000
# SLURM_LAB_NODES   nodes, n1 … nN                               4
# SLURM_LAB_CPUS, SLURM_LAB_MEM, SLURM_LAB_GPUS   what each claims: CPUs, MiB, GPUs   8, 4096, 2
# SLURM_LAB_FAST    1: slurmctld looks at time limits every second instead of every 30 s        1
# SLURM_LAB_TMO     SlurmdTimeout in seconds, after which a silent node has failed              5
# SLURM_LAB_CGROUP  auto: a limit by memory cgroup (v1) for each job where there is one; 0: none
set -euo pipefail
umask 022
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/slurm/lab.sh
. "$here/lab.sh"
# shellcheck source=scripts/slurm/configure.sh
. "$here/configure.sh"

if [ "${1:-}" = --env ]; then
  echo "$lab/env.sh"
  exit 0
fi

port=${SLURM_LAB_PORT:-17000}
nodes=${SLURM_LAB_NODES:-4}
cpus=${SLURM_LAB_CPUS:-8}
memory=${SLURM_LAB_MEM:-4096}
gpus=${SLURM_LAB_GPUS:-2}
slurmd_timeout=${SLURM_LAB_TMO:-5}
want_cgroup=${SLURM_LAB_CGROUP:-auto}
host=$(hostname)
node_names="n[1-$nodes]"
[ "$nodes" != 1 ] || node_names=n1
etc=$lab/etc ssh=$lab/ssh database=$lab/mysql
munge_socket=$lab/mungesock/munge.socket
database_socket=$lab/mysqlrun/mysqld.sock
database_user=$(id -un)
[ "$lab_root" = 0 ] || database_user=mysql
# Every daemon has this in its environment; down.sh ends only what carries it.
export SLURM_LAB_ID=$lab SLURM_CONF=$etc/slurm.conf

start_munge() {
  if [ ! -s "$lab/munge/munge.key" ]; then
    (umask 077 && dd if=/dev/urandom of="$lab/munge/munge.key" bs=128 count=1 status=none)
  fi
  lab_start munged munged munged --foreground --num-threads=4 --key-file="$lab/munge/munge.key" \
    --seed-file="$lab/munge/munged.seed" --socket="$munge_socket" --pid-file="$lab/munge/munged.pid" \
    --log-file="$lab/munge/munged.log"
}

# A unix socket and no TCP.
start_database() {
  mkdir -p "$lab/mysqlrun"
  chown -R "$database_user" "$lab/mysqlrun"
  write_database_conf
  if [ ! -e "$database/.made" ]; then
    rm -rf "$database"
    mkdir -p "$database"
    chown "$database_user" "$database"
    mariadb-install-db --no-defaults --user="$database_user" --datadir="$database" --skip-test-db \
      --auth-root-authentication-method=normal --skip-name-resolve >"$lab/log/mariadb-install.out" 2>&1 ||
      die "the database could not be made; see $lab/log/mariadb-install.out"
    touch "$database/.made"
  fi
  lab_start mariadbd mariadbd mariadbd --defaults-file="$etc/my.cnf" --user="$database_user"
}

as_database_root() { mariadb --no-defaults -u root --socket="$database_socket" "$@"; }

grant_database() {
  if [ -e "$database/.granted" ]; then return; fi
  as_database_root -e "create database if not exists slurm_acct_db;
    create or replace user '$database_user'@'localhost' identified by 'lab';
    grant all on slurm_acct_db.* to '$database_user'@'localhost';" 2>"$lab/log/grant.err" ||
    die "the database takes no user; see $lab/log/grant.err"
  touch "$database/.granted"
}

start_accounting() {
  lab_await 30 mariadb as_database_root -e 'select 1'
  grant_database
  lab_start slurmdbd slurmdbd env MARIADB_UNIX_PORT="$database_socket" MYSQL_UNIX_PORT="$database_socket" slurmdbd -D
  lab_await 60 slurmdbd sacctmgr -n list cluster
  if [ -n "$(sacctmgr -nP list cluster lab format=cluster)" ]; then return; fi
  {
    sacctmgr -i add cluster lab || true
    sacctmgr -i add account lab Cluster=lab || true
    sacctmgr -i add user "$(id -un)" Account=lab Cluster=lab || true
  } >>"$lab/log/sacctmgr.out" 2>&1
}

start_controller() {
  local -a fast=()
  local was_up=0 i
  [ "${SLURM_LAB_FAST:-1}" != 1 ] || fast=("LD_PRELOAD=$lab/lib/fastctld.so")
  if lab_pid slurmctld slurmctld >/dev/null; then was_up=1; fi
  lab_start slurmctld slurmctld env "${fast[@]}" slurmctld -D -i
  lab_await 30 slurmctld scontrol ping
  for ((i = 1; i <= nodes; i++)); do
    mkdir -p "$lab/spool/n$i"
    lab_start "n$i" slurmd slurmd -D -N "n$i"
  done
  if [ $was_up = 1 ] && [ "$changed" = 1 ]; then scontrol reconfigure >/dev/null 2>&1 || true; fi
}

start_sshd() {
  write_ssh_conf
  if [ "$lab_root" = 1 ]; then mkdir -p /run/sshd && chmod 755 /run/sshd; fi
  lab_start sshd sshd /usr/sbin/sshd -D -e -f "$ssh/sshd_config"
}

# Every node takes jobs; one that was left drained or down is resumed.
nodes_ready() {
  local node state ready=0
  while read -r node state; do
    case $state in
      idle | mixed | allocated | completing) ready=$((ready + 1)) ;;
      *drain* | *down* | inval* | fail*) scontrol update "nodename=$node" state=resume || true ;;
    esac
  done < <(sinfo -hN -p main -o '%N %T' | sort -u)
  [ "$ready" = "$nodes" ]
}

nodes_settled() { nodes_ready && sleep 0.3 && nodes_ready; }

mkdir -p "$lab"
lab_lock
"$here/../system-packages.sh" slurm-lab
map_host_name
mkdir -p "$etc" "$lab_run" "$lab/log" "$lab/spool/ctld" "$lab/munge" "$lab/mungesock"
chmod 755 "$lab" "$etc" "$lab_run" "$lab/log" "$lab/spool" "$lab/mungesock"
chmod 700 "$lab/munge"
if [ "$lab_root" = 1 ] && ! su -s /bin/sh "$database_user" -c "cd '$lab'" 2>/dev/null; then
  die "the database's user, $database_user, may not enter $lab: chmod a+x the folders above it, or choose another SLURM_LAB"
fi
start_munge
start_database
write_gres_conf
write_cgroup_conf
changed=0
if write_slurm_conf; then changed=1; fi
write_slurmdbd_conf
build_plugins
[ "$lab_root" = 0 ] || link_configuration
lab_await 10 munge munge -n -S "$munge_socket"
start_accounting
start_controller
start_sshd
write_environment
lab_await 60 "$nodes nodes" nodes_settled
lab_await 10 sshd ssh -o BatchMode=yes -F "$ssh/config" lab true
say "up: $nodes nodes, $(sinfo --version); for a terminal: . $lab/env.sh"
