"""The files that a job reads from its folder, sealed by their content when it is queued.

They lie in a folder that is named by their digest, so that another version's are another folder and equal
ones are the same. The job script names the folder and each file's digest, and reads nothing that differs.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import nemo_gym
import nemo_slurm
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan.values import JobPlan

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
_JOB: Final = JobPaths(Path())
_UNSEALED = re.compile(r"(?ms)^# Not sealed:.*?^# Sealed again\.\n")
_OWN_DIGEST = re.compile(r"(?m)^GYM_SCRIPT='[0-9a-f]*'$")


def shell_parts(plan: JobPlan) -> list[str]:
    """The static files of one job's script, in the order in which it reads them."""
    own = ["clean_environment", "slurm_steps", "slurm_queue"] if plan.slurm is not None else []
    further = ["install"] if plan.install is not None else []
    further += ["notify"] if plan.notify is not None else []
    further += ["shared_job"] if plan.benchmarks else ["sharer"] if plan.shared else []
    return [SHELL_PARTS[0], *own, f"scheduler_{plan.scheduler}", *SHELL_PARTS[1:], *further]


def sealed_files(plan: JobPlan) -> dict[str, bytes]:
    """Name and content of every file that one job reads from its folder but its data."""
    return dict(_files(plan))


def _files(plan: JobPlan) -> Iterator[tuple[str, bytes]]:
    from nemo_gym.orchestration.config import resolve
    from nemo_gym.orchestration.plan import telemetry

    for part in shell_parts(plan):
        yield f"{part}.sh", shell_file(part).read_bytes()
    yield "states.tsv", pkgutil.get_data("nemo_slurm", "states.tsv") or b""
    if plan.run is not None:
        yield _JOB.run_config.name, resolve.to_yaml(plan.run).encode()
    if plan.otel is not None:
        yield _JOB.collector_config.name, telemetry.collector_text(plan.otel.config)
    if plan.notify is not None:
        yield _JOB.recipients.name, plan.notify.model_dump_json().encode() + b"\n"


def data_digests(plan: JobPlan) -> dict[str, str]:
    """Digests of the rows that a job reads, in hexadecimal, by name; none of data that is not there yet.

    A copy in the job's folder is named from there, data that stays where it is by its absolute path.
    """
    wanted: dict[str, Path] = {}
    for source, target in sorted(plan.inputs.items()):
        wanted[str(target.relative_to(plan.job_dir))] = source
    rows = _rows_of(plan.run or {})
    if rows is not None and not rows.is_relative_to(plan.job_dir):
        wanted[str(rows)] = rows
    return {
        name: digest for name, path in wanted.items() if "\n" not in name and (digest := file_digest(path))
    }


def _rows_of(run: Mapping[str, Any]) -> Path | None:
    """The file of rows that a run names by an absolute path."""
    found = run.get("input_jsonl_fpath")
    if not found:
        datasets = run.get("benchmark", {}).get("datasets", {})
        found = datasets.get(run.get("split"), {}).get("jsonl_fpath")
    return Path(found) if found and Path(found).is_absolute() else None


def file_digest(path: Path) -> str:
    """The digest of a file in hexadecimal; empty when it cannot be read."""
    try:
        about = path.stat()
        return _digest_at(path, about.st_mtime_ns, about.st_size, about.st_ino) if path.is_file() else ""
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _digest_at(path: Path, *_state: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def shell_file(part: str) -> Path:
    """Where a static shell file lies in this installation."""
    if part == "clean_environment":
        return Path(nemo_slurm.__file__).with_name(f"{part}.sh")
    return Path(nemo_gym.__file__).parent / "shell" / f"{part}.sh"


def check_of_the_seal() -> str:
    """The part of a job script that is in the script itself."""
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
