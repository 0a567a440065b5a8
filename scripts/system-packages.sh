#!/usr/bin/env bash
# See that the system's commands are there; install what is missing where that is possible (root on Debian).
#   system-packages.sh             what the project needs
#   system-packages.sh slurm-lab   what scripts/slurm/up.sh needs: a real Slurm with accounting, and an sshd
set -euo pipefail

# command and the Debian package that has it
case ${1:-} in
    '')
        # PostgreSQL's programs are not on the search path, and their folder has the version's number in its name.
        needed="bash:bash flock:util-linux git:git setsid:util-linux shellcheck:shellcheck initdb:postgresql
            zsh:zsh fish:fish bwrap:bubblewrap chromium:chromium"
        ;;
    slurm-lab)
        needed="slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client slurmdbd:slurmdbd munged:munge
            mariadbd:mariadb-server sshd:openssh-server ssh:openssh-client gcc:gcc ps:procps
            /usr/include/slurm/spank.h:libslurm-dev /usr/include/stdio.h:libc6-dev
            /usr/lib/x86_64-linux-gnu/slurm-wlm/accounting_storage_mysql.so:slurm-wlm-mysql-plugin
            /usr/lib/x86_64-linux-gnu/slurm-wlm/select_cons_tres.so:slurm-wlm-basic-plugins"
        ;;
    *)
        echo "system packages: '$1' is not a group; say slurm-lab, or nothing" >&2
        exit 2
        ;;
esac
PATH=$PATH:/usr/sbin:/sbin
for folder in /usr/lib/postgresql/*/bin; do
    PATH=$PATH:$folder
done

is_there() {
    case $1 in
        /*) [ -e "${1/x86_64-linux-gnu/$(uname -m)-linux-gnu}" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

missing_commands() {
    local pair
    for pair in $needed; do
        is_there "${pair%%:*}" || echo "$pair"
    done
}

# A package must not start its daemon by itself: an sshd or a database would listen on every address.
install_packages() {
    local policy=/usr/sbin/policy-rc.d made=''
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        made=yes
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    [ -z "$made" ] || rm -f $policy
}

missing=$(missing_commands)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    packages=$(printf '%s\n' "$missing" | cut -d: -f2 | sort -u)
    echo "system packages: installing ${packages//$'\n'/ }" >&2
    # shellcheck disable=SC2086 # one word a package
    install_packages $packages
    missing=$(missing_commands)
    [ -n "$missing" ] || exit 0
fi

for pair in $missing; do
    echo "system packages: '${pair%%:*}' is missing; install the package '${pair##*:}'" >&2
done
# A person may go on without them; an automatic run must not pass by leaving things out.
[ "${1:-}" != slurm-lab ] && [ "${CI:-}" != true ]
