"""The batch script of a start: its directives, the profile's setup lines, and our program. Pure."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import PurePosixPath

from nemo_helix_server.executors.base import ResourceNeeds
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_slurm import scripts
from nemo_slurm.errors import UnusableValueError

_MEBIBYTE = 1 << 20
_PROGRAM = "nemo_helix_server.executors.slurm.on_cluster.allocation"


def job_name(job: str, step: str, token: str) -> str:
    """The name under which people see it in the queue; by its end, a part of the token, it is recognized."""
    shown = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{job}-{step}")[:50].strip("-") or "baton"
    return f"{shown}-{folders.name_mark(token)}"


def render(
    settings: SlurmSettings,
    needs: ResourceNeeds,
    *,
    name: str,
    run: PurePosixPath,
    code: PurePosixPath,
    exclude: tuple[str, ...] = (),
) -> str:
    """The whole script; raises `nemo_slurm.errors.UnusableValueError` for a value that it cannot hold."""
    program = (
        f"exec env -u PYTHONHOME PYTHONPATH={shlex.quote(str(code))} PYTHONNOUSERSITE=1 "
        f"{shlex.quote(settings.python)} -P -m {_PROGRAM} {shlex.quote(str(run))}"
    )
    log = shlex.quote(str(run / folders.SCHEDULER_LOG))
    lines = [f"#SBATCH {word}" for word in _directives(settings, needs, name, run, exclude)]
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "unset SLURM_EXPORT_ENV  # it would keep srun from handing on the environment",
            "umask 077",
            f"chmod go= -- {log}  # Slurm has made it, with a mode of its own",
            *settings.setup,
            program,
            "",
        ]
    )


def _directives(
    settings: SlurmSettings, needs: ResourceNeeds, name: str, run: PurePosixPath, exclude: tuple[str, ...]
) -> list[str]:
    several = needs.nodes > 1
    merged = scripts.merged(
        ("the profile", settings.directives()),
        (
            "the step",
            {
                "nodes": needs.nodes,
                "ntasks-per-node": 1,
                "cpus-per-task": math.ceil(needs.cpus) if needs.cpus else settings.cpus,
                **_memory(settings, needs),
                **_gpus(settings, needs.gpus),
                "exclude": ",".join(exclude) or None,
                "kill-on-invalid-dep": "yes",
                "no-requeue": True,
                "no-kill": False if several else None,
            },
        ),
        ("options", settings.options),
    )
    own = {
        "job-name": name,
        "output": str(run / folders.SCHEDULER_LOG),
        "open-mode": "append",
        "export": "NONE",
        "chdir": str(run),
    }
    return [*scripts.options(own, where="the job's folder"), *scripts.options(merged, where="the profile")]


def _memory(settings: SlurmSettings, needs: ResourceNeeds) -> dict[str, scripts.OptionValue]:
    """What is asked for on each node, by the option that the site takes."""
    option = settings.memory_option
    wanted = f"{math.ceil(needs.memory_bytes / _MEBIBYTE)}M" if needs.memory_bytes else settings.memory
    if option == "none" or wanted is None:
        return {}
    if option == "mem":
        if "mem-per-cpu" in settings.options:
            raise UnusableValueError(
                "options.mem-per-cpu: a step's memory is asked for by --mem, and a job has one of the two; "
                "set memory_option: mem-per-cpu, or none where the amount in options is for all steps"
            )
        return {option: wanted.removesuffix("i")}
    mebibytes = math.ceil(needs.memory_bytes / _MEBIBYTE) if needs.memory_bytes else _mebibytes(wanted)
    cores = math.ceil(needs.cpus) if needs.cpus else settings.cpus or 1
    return {option: f"{math.ceil(mebibytes / cores)}M"}


def _mebibytes(shown: str) -> int:
    return int(shown[:-2]) * (1024 if shown.endswith("Gi") else 1)


def _gpus(settings: SlurmSettings, count: int) -> dict[str, scripts.OptionValue]:
    if not count:
        return {}
    asked = f"{settings.gpu_type}:{count}" if settings.gpu_type else str(count)
    named: dict[str, scripts.OptionValue] = {"gres": f"gpu:{asked}", "gpus-per-node": asked}
    return {key: value for key, value in named.items() if key == settings.gpu_option}
