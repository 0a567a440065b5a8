"""Whose doing it is that a job was not taken, and what helps: one table, ``refusals.tsv``."""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Whose(StrEnum):
    """Who has to change something before the same job is taken."""

    CONFIG = "config"
    """The submitted configuration asks for what the cluster does not give: the same is refused again."""
    LIMIT = "limit"
    """A limit on jobs is reached: the same may be taken later."""
    DISK = "disk"
    """A file of the job has no space, on a disk or within a quota: the same is taken once there is some."""
    SCHEDULER = "scheduler"
    """It did not answer, or not rightly: the same may be taken later."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SubmitRefusal:
    """What a refusal means."""

    whose: Whose
    help: str = ""
    """What has to be so; empty where nobody knows."""


@functools.cache
def _table() -> Sequence[tuple[re.Pattern[str], SubmitRefusal]]:
    data = pkgutil.get_data("nemo_slurm", "refusals.tsv") or b""
    rows = [line.split("\t") for line in data.decode().splitlines() if line and not line.startswith("#")]
    return [(_pattern(words), SubmitRefusal(Whose(whose), help_)) for words, whose, help_ in rows]


def read_refusal(text: str) -> SubmitRefusal:
    """The output of ``sbatch``, or of its caller, when it made no job."""
    return next((found for pattern, found in _table() if pattern.search(text)), SubmitRefusal(Whose.UNKNOWN))


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(r"[^\n]*".join(re.escape(part) for part in words.split("*")), re.IGNORECASE)
