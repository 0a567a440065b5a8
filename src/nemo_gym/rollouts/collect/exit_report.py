"""What a collector says at its end to the chain that it runs in: counts, and whether a retry can help.

It is in ``<link>/collected``, where the link is the folder in the variable ``NEMO_GYM_LINK``: lines
``key value`` where the job asks for them by ``NEMO_GYM_COLLECTED=lines``, which its shell reads word by word.
A chain that was queued by an earlier version does not ask: its shell reads one JSON line with a pattern, so
keys, their order and the spacing of that are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_gym.errors import ConfigError, DataError, ResumeRefusedError, UsageError
from nemo_gym.job_paths import LinkPaths
from nemo_gym.rollouts.collect.ends import CollectionEnd, Counts
from nemo_runs.durable.files import replace_file

LINK_VARIABLE = "NEMO_GYM_LINK"
FORM_VARIABLE = "NEMO_GYM_COLLECTED"
_PERMANENT = (ConfigError, DataError, ResumeRefusedError, UsageError)


@dataclass(frozen=True, slots=True)
class ExitReport:
    """The exit report of a collector. All counts are 0 when it ended before it could count."""

    state: str
    """As in `nemo_gym.rollouts.collect.ends.CollectionEnd`."""
    status: int
    """Its exit status; 0 when every expected rollout is recorded, or what is recorded is accepted."""
    expected: int
    recorded: int
    """Those of earlier runs included."""
    new: int
    """Rows that this run added."""
    hopeless: str | None
    """Why no retry can help."""

    def line(self) -> str:
        """The text of the file as JSON, without its line end."""
        return json.dumps(self._values(), ensure_ascii=False, separators=(",", ":"))

    def lines(self) -> str:
        """The text of the file as lines ``key value``; what is not there has none."""
        return "\n".join(f"{key} {value}" for key, value in self._values().items() if value is not None)

    def _values(self) -> dict[str, object]:
        hopeless = None if self.hopeless is None else " ".join(self.hopeless.split())
        return {**asdict(self), "hopeless": hopeless}


def of_end(end: CollectionEnd, counts: Counts | None, *, rejected: str | None = None) -> ExitReport:
    """How a run ended; ``rejected`` is what the endpoint said when it refused the credentials."""
    hopeless = rejected if end.status else None
    if counts is None:
        return ExitReport(end.state, end.status, 0, 0, 0, hopeless)
    return ExitReport(end.state, end.status, counts.expected, counts.recorded, counts.new, hopeless)


def of_error(error: Exception) -> ExitReport:
    """A run that ended with an error before it had counted anything."""
    status = getattr(error, "exit_status", 1)
    return ExitReport("failed", status, 0, 0, 0, str(error) if is_permanent(error) else None)


def is_permanent(error: Exception) -> bool:
    """Whether the same error would meet a retry: a wrong value, missing data, rejected credentials.

    What came of the system or the network (a prepare script's download) may be gone the next time.
    """
    if getattr(error, "rejected", False):
        return True
    return isinstance(error, _PERMANENT) and not isinstance(error.__cause__, OSError)


def write(collected: ExitReport, environ: Mapping[str, str]) -> None:
    """Write the exit report into the folder of the link, if this run is part of one."""
    folder = environ.get(LINK_VARIABLE)
    if folder:
        text = collected.lines() if environ.get(FORM_VARIABLE) == "lines" else collected.line()
        replace_file(LinkPaths(Path(folder)).collected, text.encode("utf-8", "replace") + b"\n")
