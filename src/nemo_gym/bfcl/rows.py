"""The rows of BFCL, made by bfcl-eval's own loaders in the interpreter that has them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from nemo_gym import package_environments
from nemo_gym.bfcl import categories, environment
from nemo_gym.errors import DataError
from nemo_gym.reports import to_stderr

_MODULE = "nemo_gym.bfcl.worker.rows"


def write_rows(output: Path, wanted: object = None, *, version: str) -> None:
    """Write the rows of the wanted categories, by default of all that are here, one JSON object a line.

    ``version`` is that of bfcl-eval for which the caller was written. Raises `nemo_gym.errors.GymError`.
    """
    if version != environment.version():
        raise DataError(f"bfcl: made for bfcl-eval {version}, and this gym has {environment.version()}.")
    names = categories.check(categories.ALL if wanted is None else wanted)
    python = environment.ensure_python(to_stderr)
    _run(python, output, names)


def _run(python: Path, output: Path, names: Iterable[str]) -> None:
    done = subprocess.run(
        [str(python), "-P", "-m", _MODULE, str(output), *names],
        env=package_environments.worker_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DataError(f"bfcl: the data of bfcl-eval {environment.version()} cannot be read: {last}.")
