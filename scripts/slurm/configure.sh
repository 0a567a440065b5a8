# shellcheck shell=bash
# Writes the lab's configuration files. Sourced by up.sh, which sets the names that are used here.
# shellcheck disable=SC2154 # they are set there

# Slurm's daemons bind to what gethostname() resolves to (NoInAddrAny): that must be the loopback interface.
map_host_name() {
  resolves_to_loopback && return
  [ "$lab_root" = 1 ] || die "'$host' does not resolve to 127.x; add the line '127.0.0.1 $host' to /etc/hosts"
  say "mapping $host to 127.0.0.1 in /etc/hosts"
  # the first match wins, so it goes to the top; the file may be a bind mount, so its inode is kept
  { echo "127.0.0.1 $host # slurm-lab"; cat /etc/hosts; } >"$lab/hosts.new"
  cat "$lab/hosts.new" >/etc/hosts
  resolves_to_loopback || die "'$host' still does not resolve to 127.x"
}

resolves_to_loopback() {
  getent ahostsv4 "$host" | awk 'NR == 1 {print $1}' | grep -q '^127\.'
}

write_database_conf() {
  cat >"$etc/my.cnf" <<CONF
[mariadbd]
datadir=$database
socket=$database_socket
pid-file=$lab/mysqlrun/mysqld.pid
skip-networking
skip-name-resolve
skip-log-bin
performance_schema=OFF
innodb_buffer_pool_size=128M
innodb_log_file_size=32M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=0
innodb_flush_method=nosync
max_connections=50
CONF
}

# gres/gpu wants a File that exists, not one that is a GPU.
write_gres_conf() {
  local i file
  mkdir -p "$lab/dev"
  for ((i = 0; i < gpus; i++)); do
    if [ -e "$lab/dev/gpu$i" ]; then continue; fi
    if [ "$lab_root" = 1 ] && mknod -m 666 "$lab/dev/gpu$i" c 1 3 2>/dev/null; then continue; fi
    ln -sfn /dev/null "$lab/dev/gpu$i"
  done
  case $gpus in
    0) file=/dev/null ;;
    1) file=$lab/dev/gpu0 ;;
    *) file="$lab/dev/gpu[0-$((gpus - 1))]" ;;
  esac
  echo "NodeName=$node_names Name=gpu Count=$gpus File=$file" >"$etc/gres.conf"
}

# OUT_OF_MEMORY comes from a memory cgroup alone (22.05); without one OverMemoryKill makes it FAILED 0:9.
write_cgroup_conf() {
  task_plugin=task/none
  memory_limit=JobAcctGatherParams=OverMemoryKill
  if [ "$lab_root" = 1 ] && [ "$want_cgroup" != 0 ] && [ -w /sys/fs/cgroup/memory/cgroup.procs ] &&
    [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    task_plugin=task/cgroup memory_limit=
    cat >"$etc/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
AllowedRAMSpace=100
CONF
    return
  fi
  rm -f "$etc/cgroup.conf"
  # from 23.11 on slurmd loads a plugin unless this disables it; 22.05 does not know the word
  if [ "$(printf '%s\n' 23.11 "$(slurmd -V | sed 's/.* //')" | sort -V | head -n 1)" = 23.11 ]; then
    echo 'CgroupPlugin=disabled' >"$etc/cgroup.conf"
  fi
}

# DependencyParameters is not set on purpose: so --kill-on-invalid-dep=yes matters. True when the file changed.
write_slurm_conf() {
  cat >"$etc/slurm.conf.new" <<CONF
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$munge_socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SrunPortRange=$((port + 40))-$((port + 99))
TreeWidth=50

StateSaveLocation=$lab/spool/ctld
SlurmdSpoolDir=$lab/spool/%n
SlurmctldPidFile=$lab_run/slurmctld.own.pid
SlurmdPidFile=$lab_run/%n.own.pid
SlurmctldLogFile=$lab/log/slurmctld.log
SlurmdLogFile=$lab/log/%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
LogTimeFormat=iso8601_ms
MailProg=/bin/true
ReturnToService=2

ProctrackType=proctrack/linuxproc
TaskPlugin=$task_plugin
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE

SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=10000,batch_sched_delay=0,bf_interval=1,bf_resolution=60,bf_window=1440
PriorityType=priority/basic
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
DefMemPerCPU=64
EnforcePartLimits=ALL
JobRequeue=0
OverTimeLimit=0
InactiveLimit=0
KillWait=2
MinJobAge=10
MaxJobCount=20000
MaxArraySize=1001
WaitTime=0
CompleteWait=0
BatchStartTimeout=10
MessageTimeout=10
TCPTimeout=2
SlurmctldTimeout=10
SlurmdTimeout=$slurmd_timeout
UnkillableStepTimeout=60
FirstJobId=1000

PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PreemptExemptTime=0

JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
$memory_limit

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$host
AccountingStoragePort=$((port + 1))
# with munge this is the socket of the munged to use towards slurmdbd; AuthInfo does not cover it
AccountingStoragePass=$munge_socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment

CONF
  local i all=MaxTime=INFINITE\ DefaultTime=60\ State=UP
  for ((i = 1; i <= nodes; i++)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 11 + i)) CPUs=$cpus RealMemory=$memory Gres=gpu:$gpus State=UNKNOWN"
  done >>"$etc/slurm.conf.new"
  # a job in `high` cancels one in `low` and requeues one in `lowq`
  cat >>"$etc/slurm.conf.new" <<CONF
PartitionName=main Nodes=$node_names Default=YES PriorityTier=10 PreemptMode=OFF $all
PartitionName=low Nodes=$node_names PriorityTier=1 PreemptMode=CANCEL $all
PartitionName=lowq Nodes=$node_names PriorityTier=1 PreemptMode=REQUEUE $all
PartitionName=high Nodes=$node_names PriorityTier=100 PreemptMode=OFF $all
CONF
  local changed=0
  cmp -s "$etc/slurm.conf.new" "$etc/slurm.conf" 2>/dev/null || changed=1
  mv "$etc/slurm.conf.new" "$etc/slurm.conf"
  [ $changed = 1 ]
}

write_slurmdbd_conf() {
  (
    umask 077
    cat >"$etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$munge_socket
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=$(id -un)
CommunicationParameters=NoInAddrAny
PidFile=$lab_run/slurmdbd.own.pid
LogFile=$lab/log/slurmdbd.log
DebugLevel=info
LogTimeFormat=iso8601_ms
MessageTimeout=10
CommitDelay=0
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=$database_user
StoragePass=lab
StorageLoc=slurm_acct_db
CONF
  )
}

# The plugin that takes Pyxis' options, and the shim that shortens slurmctld's 30 s period.
build_plugins() {
  mkdir -p "$lab/lib"
  if [ "$here/spank_container.c" -nt "$lab/lib/spank_container.so" ]; then
    gcc -O1 -Wall -shared -fPIC -o "$lab/lib/spank_container.so" "$here/spank_container.c"
  fi
  echo "required $lab/lib/spank_container.so" >"$etc/plugstack.conf"
  if [ "$here/fastctld.c" -nt "$lab/lib/fastctld.so" ]; then
    gcc -O1 -Wall -shared -fPIC -o "$lab/lib/fastctld.so" "$here/fastctld.c"
  fi
}

write_ssh_conf() {
  mkdir -p "$ssh"
  chmod 700 "$ssh"
  [ -s "$ssh/host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$ssh/host_key"
  [ -s "$ssh/id" ] || ssh-keygen -q -t ed25519 -N '' -C slurm-lab -f "$ssh/id"
  cp "$ssh/id.pub" "$ssh/authorized_keys"
  chmod 600 "$ssh/authorized_keys"
  cat >"$ssh/sshd_config" <<CONF
ListenAddress 127.0.0.1
Port $((port + 2))
HostKey $ssh/host_key
PidFile none
AuthorizedKeysFile $ssh/authorized_keys
AllowUsers $(id -un)
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitUserEnvironment no
SetEnv SLURM_CONF=$etc/slurm.conf
Subsystem sftp internal-sftp
MaxStartups 100:30:200
MaxSessions 100
CONF
  echo "[127.0.0.1]:$((port + 2)) $(cut -d' ' -f1,2 "$ssh/host_key.pub")" >"$ssh/known_hosts"
  cat >"$ssh/config" <<CONF
Host lab
  HostName 127.0.0.1
  Port $((port + 2))
  User $(id -un)
  IdentityFile $ssh/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile $ssh/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
CONF
}

# As root the default place too, so that commands over ssh and jobs with an empty environment find it, unless another
# lab that is still there has it.
link_configuration() {
  local file taken
  mkdir -p /etc/slurm
  taken=$(readlink /etc/slurm/slurm.conf) || taken=''
  if [ -n "$taken" ] && [ "$taken" != "$etc/slurm.conf" ] && [ -e "$taken" ]; then return 0; fi
  for file in $lab_linked; do
    if [ -e "/etc/slurm/$file" ] && [ ! -L "/etc/slurm/$file" ] && [ ! -e "/etc/slurm/$file.before-lab" ]; then
      mv "/etc/slurm/$file" "/etc/slurm/$file.before-lab"
    fi
    if [ -e "$etc/$file" ]; then ln -sfn "$etc/$file" "/etc/slurm/$file"; else rm -f "/etc/slurm/$file"; fi
  done
}

write_environment() {
  cat >"$lab/env.sh" <<CONF
export SLURM_CONF=$etc/slurm.conf
export SLURM_LAB=$lab
export SLURM_LAB_NODES=$nodes
export SLURM_LAB_SSH_CONFIG=$ssh/config
export SLURM_LAB_SSH_PORT=$((port + 2))
CONF
}
