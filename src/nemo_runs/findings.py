"""What a check finds out before anything is started: each line says what is so, and what to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It cannot be seen from here."""
    WARNING = "warning"
    PROBLEM = "problem"
    """What was checked would fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check."""

    verdict: FindingLevel
    about: str
    """A word or two."""
    text: str
    """What is so, and what to change where that is wrong."""

    def to_json(self) -> dict[str, str]:
        """As JSON values."""
        return {key: str(value) for key, value in asdict(self).items()}


def ok(about: str, text: str) -> Finding:
    """A finding that is as it should be."""
    return Finding(FindingLevel.OK, about, text)


def unknown(about: str, text: str) -> Finding:
    """Something that cannot be seen from here."""
    return Finding(FindingLevel.UNKNOWN, about, text)


def warning(about: str, text: str) -> Finding:
    """Something that is allowed but most likely not meant."""
    return Finding(FindingLevel.WARNING, about, text)


def problem(about: str, text: str) -> Finding:
    """Something that would make it fail."""
    return Finding(FindingLevel.PROBLEM, about, text)


def passed(findings: Iterable[Finding]) -> bool:
    """Whether there is no problem among them."""
    return all(finding.verdict is not FindingLevel.PROBLEM for finding in findings)


def as_line(verdict: str, about: str, text: str) -> str:
    """A finding as people read it, on one line."""
    return f"{verdict:<8} {about}: {' '.join(text.split())}"
