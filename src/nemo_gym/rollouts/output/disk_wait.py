"""Waiting for disk space: a disk that is full, or a quota that is used up, costs time and no rollout.

What was paid for is kept in memory until it can be written, and nothing new is begun meanwhile. The wait has
a bound; a run that is part of a job reports it to the job in a file that has its space already (see
``shell/full_disk.sh``).
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import LinkPaths
from nemo_runs.durable import disk
from nemo_runs.errors import DiskFullError

Result = TypeVar("Result")

SECONDS_VARIABLE: Final = "NEMO_GYM_FULL_DISK_SECONDS"
LINK_VARIABLE: Final = "NEMO_GYM_LINK"
SECONDS: Final = 1800.0
"""How long disk space is waited for unless `SECONDS_VARIABLE` says otherwise."""
_LOOK: Final = 0.5
"""Seconds between two attempts."""
_WORD: Final = 63
"""Bytes of the job's file without its newline."""


class DiskWait:
    """One wait at a time for the whole process; begins with the first failure, ends with a success."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        report: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limit = _limit(environ)
        self._environ = environ
        self._report = report
        self._monotonic = monotonic
        self._stop = stop
        self._since: float | None = None

    async def stored(self, write: Callable[[], Result]) -> Result:
        """What ``write`` returns, called until it fits; raises its error once the bound is passed."""
        while True:
            try:
                result = write()
            except (DiskFullError, OSError) as error:
                self.missing(error)
            else:
                self.found()
                return result
            await asyncio.sleep(_LOOK)

    def wait(self, write: Callable[[], Result], *, sleep: Callable[[float], object] = time.sleep) -> Result:
        """The same where nothing else goes on; a stop that is asked for ends the wait too."""
        while True:
            try:
                result = write()
            except (DiskFullError, OSError) as error:
                if self._stop():
                    raise
                self.missing(error)
            else:
                self.found()
                return result
            sleep(_LOOK)

    def missing(self, error: Exception) -> None:
        """Something did not fit. Raises ``error`` when it is another one, and when the bound is passed."""
        if not is_full(error):
            raise error
        now = self._monotonic()
        if self._since is None:
            self._since = now
            publish(self._environ, f"waiting {time.time():.0f}")
            reason = str(error).partition(";")[0].rstrip(".")
            self._report(
                f"{reason}; waiting up to {self._limit:g} s for disk space; nothing is lost meanwhile."
            )
        if now - self._since >= self._limit:
            publish(self._environ, "told")
            raise error

    def found(self) -> None:
        """Something fitted."""
        if self._since is not None:
            waited, self._since = self._monotonic() - self._since, None
            publish(self._environ, "no")
            self._report(f"there is disk space again after {waited:.0f} s; continuing.")


def is_full(error: BaseException) -> bool:
    """Whether waiting for disk space can help; a limit on the size of files does not depend on free space."""
    return any(
        (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))
        or (isinstance(cause, DiskFullError) and cause.__cause__ is None)
        for cause in _causes(error)
    )


def publish(environ: Mapping[str, str], word: str) -> None:
    """Say in the folder of the link how full the disk is, in place, if this process is part of one."""
    folder = environ.get(LINK_VARIABLE)
    if not folder:
        return
    try:
        descriptor = os.open(LinkPaths(Path(folder)).full_disk, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # a job of an older Gym reserves no room
    try:
        disk.write_all(descriptor, f"{word:<{_WORD}}\n".encode("ascii"))
    finally:
        os.close(descriptor)


def _limit(environ: Mapping[str, str]) -> float:
    text = environ.get(SECONDS_VARIABLE, "")
    try:
        seconds = float(text or SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"{SECONDS_VARIABLE}: {text!r} is not a number of seconds.")
    return seconds


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
