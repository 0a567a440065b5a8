#!/usr/bin/env bash
# See that the system's commands are there; install what is missing where that is possible (root on Debian).
set -euo pipefail

# command and the Debian package that has it
needed="bash:bash git:git grep:grep mount:mount ps:procps shellcheck:shellcheck unshare:util-linux"

missing_commands() {
    local pair
    for pair in $needed; do
        command -v "${pair%%:*}" >/dev/null || echo "$pair"
    done
}

missing=$(missing_commands)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    packages=$(printf '%s\n' "$missing" | cut -d: -f2 | sort -u)
    echo "system packages: installing" "$packages" >&2
    apt-get update -qq
    # shellcheck disable=SC2086 # one word a package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
    missing=$(missing_commands)
    [ -n "$missing" ] || exit 0
fi

for pair in $missing; do
    echo "system packages: the command '${pair%%:*}' is missing; install the package '${pair##*:}'" >&2
done
# A person may go on without them; an automatic run must not pass by leaving things out.
[ "${CI:-}" != true ]
