#!/usr/bin/env bash
# Pin what pyproject.toml and requirements/*.in ask for: versions and hashes, no addresses.
# The arguments `--upgrade` or `--upgrade-package NAME` move pins; without them only what must change changes.
set -euo pipefail
cd "$(dirname "$0")/.."

pin() {
    local output=$1
    shift
    .venv/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
        --no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
        --annotation-style=line --output-file="$output" "$@"
}

# Packages whose dependencies are left out on purpose: a compiler of pins would ask for those too.
pin_alone() {
    local output=$1 input=$2 requirement folder
    requirement=$(grep -v '^#' "$input")
    folder=$(mktemp -d)
    .venv/bin/pip download --quiet --no-deps --only-binary :all: --dest "$folder" "$requirement"
    printf '%s \\\n    %s\n' "$requirement" "$(.venv/bin/pip hash "$folder"/*.whl | tail -n 1)" >"$output"
    rm -r "$folder"
}

# Packages for video and sound are left out: their builds are for another torch, and importing them fails.
pin_vllm() {
    local output=$1 input=$2
    shift 2
    pin "$output" "$@" "$input"
    awk '/^[^ #]/ { left_out = /^(torchvision|torchaudio|torchcodec)==/ } !left_out' "$output" >"$output.new"
    mv "$output.new" "$output"
}

pin requirements/base.txt "$@" pyproject.toml
pin requirements/server.txt "$@" requirements/server.in
pin requirements/dev.txt "$@" requirements/dev.in
pin requirements/verifiers.txt "$@" requirements/verifiers.in
pin requirements/mcp.txt "$@" requirements/mcp.in
pin requirements/serve.txt "$@" requirements/serve.in
pin requirements/inspect.txt "$@" requirements/inspect.in
pin_vllm requirements/tests/vllm.txt requirements/tests/vllm.in "$@"
pin_alone requirements/models.txt requirements/models.in
