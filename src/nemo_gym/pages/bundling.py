"""The pages of `gym view` as files."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from starlette.types import ASGIApp

from nemo_gym.errors import ConfigError
from nemo_gym.reports import to_stderr
from nemo_pages.bundle import write_bundle
from nemo_runs.counts import counted
from nemo_runs.durable.beside import folder_beside


def write_files(app: ASGIApp, folder: Path, unpublished: Collection[str]) -> None:
    """Write all pages into a folder that does not exist; it is there whole or not at all.

    ``unpublished``: addresses below which questions and answers are that must not be passed on. Logs are left
    out too. Raises `ConfigError` where the folder exists or cannot be written.
    """
    folder = folder.absolute()
    if os.path.lexists(folder):
        raise ConfigError(f"--bundle {folder}: it exists already; name a folder that does not")

    def may_be_passed_on(address: str) -> bool:
        path = address.partition("?")[0]
        return not path.endswith("/log") and not any(path.startswith(f"{each}/") for each in unpublished)

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(folder) as made:
            written = write_bundle(app, made / folder.name, keep=may_be_passed_on)
            (made / folder.name).rename(folder)
    except OSError as error:
        raise ConfigError(f"--bundle {folder}: it cannot be written ({error.strerror or error})") from error
    said = f"{counted(written.pages, 'page')} written to {folder / 'index.html'}"
    if written.left_out:
        said += (
            f"; {counted(len(written.left_out), 'page')} left out: logs, unpublished questions, or too many"
        )
    to_stderr(f"{said}.")
