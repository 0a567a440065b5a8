"""The fake cluster's programs on a PATH: thin scripts that open the cluster's state, answer and leave."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import nemo_slurm
from nemo_slurm.testing.listings import ProgramCall
from nemo_slurm.testing.programs import PROGRAMS, answer
from nemo_slurm.testing.state import StoredCluster

_SOURCES = Path(nemo_slurm.__file__).parents[1]
_ENTRY = """\
import sys
sys.path.insert(0, {sources!r})
from nemo_slurm.testing.on_path import main
main({folder!r}, sys.argv[1], sys.argv[2:])
"""


def install(folder: Path) -> None:
    """Write the programs of a cluster whose state is in ``folder``."""
    entry = folder / "program.py"
    entry.write_text(_ENTRY.format(sources=str(_SOURCES), folder=str(folder.absolute())), encoding="utf-8")
    (folder / "bin").mkdir(exist_ok=True)
    for name in (*PROGRAMS, "srun"):
        program = folder / "bin" / name
        line = " ".join(
            shlex.quote(word) for word in [sys.executable, "-I", "-S", str(entry.absolute()), name]
        )
        program.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        program.chmod(0o755)


def main(folder: str, name: str, argv: Sequence[str]) -> None:
    """Be one of the programs."""
    if name == "srun":
        _srun(list(argv))
    with StoredCluster(Path(folder) / "state.json").open() as model:
        done = answer(model, ProgramCall(name, argv, os.environ, os.getcwd()))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    sys.exit(done.status)


def _srun(argv: list[str]) -> None:
    """Run a step in the place of this process; options are ``--key=value`` or flags."""
    while argv and argv[0].startswith("-"):
        word = argv.pop(0)
        if word == "--":
            break
        if word.startswith("--output="):
            target = word.removeprefix("--output=").replace("%j", os.environ.get("SLURM_JOB_ID", "0"))
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
    if not argv:
        sys.stderr.write("srun: fatal: No command given to execute.\n")
        sys.exit(1)
    os.environ.update({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"})
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - to become that program is what srun is for
    except OSError as error:
        sys.stderr.write(f"slurmstepd: error: execve(): {argv[0]}: {error.strerror}\n")
        sys.exit(2)
