"""The files that a job reads from its folder, sealed by their content when it is queued.

They lie in a folder that is named by their digest, so that another version's are another folder and equal
ones are the same. The job script names the folder and each file's digest, and reads nothing that differs.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import nemo_gym
import nemo_slurm
from nemo_gym.orchestration.plan import JobPlan

SHELL_PARTS: Final = (
    "header",
    "full_disk",
    "services",
    "driver",
    "decide",
    "chain_facts",
    "chain",
    "end_marker",
)
"""The static files of every job script in the order in which it reads them; its scheduler's is not named."""
NOT_SEALED: Final = (
    "# Not sealed: this digest of all else, and secrets, of which one that has expired may be replaced."
)
SEALED_AGAIN: Final = "# Sealed again."
_UNSEALED = re.compile(r"(?ms)^# Not sealed:.*?^# Sealed again\.\n")
_OWN_DIGEST = re.compile(r"(?m)^GYM_SCRIPT='[0-9a-f]*'$")


def shell_parts(plan: JobPlan) -> list[str]:
    """The static files of one job's script, in the order in which it reads them."""
    own = ["clean_environment", "slurm_steps", "slurm_queue"] if plan.scheduler == "slurm" else []
    install = ["install"] if plan.install is not None else []
    return [SHELL_PARTS[0], *own, f"scheduler_{plan.scheduler}", *SHELL_PARTS[1:], *install]


def sealed_files(plan: JobPlan) -> dict[str, bytes]:
    """Name and content of every file that one job reads from its folder but its data."""
    return dict(_files(plan))


def _files(plan: JobPlan) -> Iterator[tuple[str, bytes]]:
    from nemo_gym.orchestration import otel, resolve

    for part in shell_parts(plan):
        yield f"{part}.sh", shell_file(part).read_bytes()
    yield "states.tsv", pkgutil.get_data("nemo_slurm", "states.tsv") or b""
    if plan.run is not None:
        yield "run.yaml", resolve.to_yaml(plan.run).encode()
    if plan.otel is not None:
        yield "collector.yaml", otel.collector_text(plan.otel.config)


def shell_file(part: str) -> Path:
    """Where a static shell file lies in this installation."""
    if part == "clean_environment":
        return Path(nemo_slurm.__file__).with_name(f"{part}.sh")
    return Path(nemo_gym.__file__).parent / "shell" / f"{part}.sh"


def check_of_the_seal() -> str:
    """The part of a job script that stands in the script itself."""
    return shell_file("seal").read_text(encoding="utf-8").partition("\n")[2]


def digest_lines(sealed: Mapping[str, bytes]) -> str:
    """A line for each file, as ``sha256sum --check`` reads it."""
    return "\n".join(f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(sealed.items()))


def folder_name(sealed: Mapping[str, bytes]) -> str:
    """The name of the folder in which these files lie."""
    return hashlib.sha256(digest_lines(sealed).encode()).hexdigest()[:16]


def with_own_digest(script: str) -> str:
    """A job script that says what it must be without its secrets."""
    return _OWN_DIGEST.sub(f"GYM_SCRIPT='{script_digest(script)}'", script, count=1)


def script_digest(script: str) -> str:
    """The digest of all that is sealed in a job script; ``gym_digest_script`` of the shell says the same."""
    return hashlib.sha256(_UNSEALED.sub("", script).encode("utf-8", "surrogateescape")).hexdigest()
