"""Why a job waits: what the scheduler's reasons mean, whose turn it is, and the command that helps.

One table, ``reasons.tsv``. A reason that nobody has heard of is shown as it is, and nobody's turn is guessed.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class WhoActs(StrEnum):
    """Who has to act before a job can start."""

    WAIT = "wait"
    """Nobody: it passes by itself."""
    YOU = "you"
    """The owner: nothing happens until then."""
    OPERATOR = "operator"
    """The operators of the cluster."""
    UNKNOWN = "unknown"


_HELP = {
    "": "",
    "release": "scontrol release {job}",
    "time": "scontrol update JobId={job} TimeLimit=TIME",
    "change": "",
    "job": "scontrol show job {job}",
    "partition": "sinfo --summarize",
    "nodes": "sinfo --list-reasons",
    "limits": "sshare",
    "resubmit": "",
}
"""Commands of the scheduler, with ``{job}`` for the number; empty: only another job in its place helps."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a job waits."""

    word: str
    """As the scheduler says it."""
    turn: WhoActs
    meaning: str
    """A sentence's end; empty of a reason that is not in the table."""
    help: str = ""
    """The name of what helps, a key of the table."""

    @property
    def text(self) -> str:
        """For a person: the scheduler's word and what it means."""
        return f"{self.word}: {self.meaning}" if self.meaning else self.word

    @property
    def weight(self) -> int:
        """How much it matters among several jobs of one chain: what needs a person outweighs what passes."""
        if self.turn in (WhoActs.YOU, WhoActs.OPERATOR):
            return 3
        return 0 if self.word == "Dependency" else 1

    def command(self, job: str) -> str:
        """The scheduler's command that helps, or shows more; empty where there is none."""
        return _HELP[self.help].format(job=job)


@functools.cache
def _table() -> Sequence[tuple[re.Pattern[str], WhoActs, str, str]]:
    data = pkgutil.get_data("nemo_slurm", "reasons.tsv") or b""
    rows = [line.split("\t") for line in data.decode().splitlines() if line and not line.startswith("#")]
    return [(_pattern(name), WhoActs(turn), meaning, help_) for name, turn, meaning, help_ in rows]


def read_reason(text: str) -> WaitReason:
    """What a scheduler's reason means."""
    word = text.strip().strip("()").strip()
    plain = _plain(word)
    for pattern, turn, meaning, help_ in _table():
        if pattern.fullmatch(plain):
            return WaitReason(word, turn, meaning, help_)
    return WaitReason(word, WhoActs.UNKNOWN, "")


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", "", text).lower()


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in _plain(name).split("*")))
