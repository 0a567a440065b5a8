"""Ids and the names that are made up for those who give none."""

from __future__ import annotations

import re
import secrets

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LOWER = "abcdefghijkmnpqrstuvwxyz23456789"
_DIGITS = 22

JOB, ATTEMPT, STEP, TASK = "platform-job", "platform-job-attempt", "platform-job-step", "platform-job-task"
LONGEST_SOURCE = 20


def entity_id(kind: str) -> str:
    """An id such as ``platform-job-2k8i3i1HqJHHPVB5M6Bk9Z``; 22 digits hold 128 random bits."""
    return f"{kind}-{_random(_BASE58, _DIGITS)}"


def task_name() -> str:
    """A new token: one start of a step."""
    return f"task-{secrets.token_hex(16)}"


def attempt_name(attempt_id: str) -> str:
    """The name of an attempt, made from its id."""
    return f"att-{attempt_id.rpartition('-')[2].lower()}"


def job_name(source: str) -> str:
    """A name for a job without one: its source as far as a name can hold it, and random characters."""
    words = re.sub(r"[^a-z0-9]+", "-", source.lower())
    start = re.sub(r"^[^a-z]+", "", words)[:LONGEST_SOURCE].strip("-")
    return f"{start or 'job'}-{_random(_LOWER, 8)}"


def fileset_name(job: str) -> str:
    """The fileset that a job without an ``output_location`` owns."""
    return f"job-fileset-{job}"


def _random(digits: str, length: int) -> str:
    """Random digits, all equally likely; one number is asked of the system for all of them."""
    number = secrets.randbelow(len(digits) ** length)
    found = []
    for _ in range(length):
        number, digit = divmod(number, len(digits))
        found.append(digits[digit])
    return "".join(found)
