"""Asking a verifier about answers, for tests of verifiers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_gym.types import Episode, GradedRollout, Task, Verdict, Verifier
from nemo_gym.verifiers.registry import load_verifier


def spoken(text: str) -> Episode:
    """An episode whose answer is this text."""
    part = {"type": "output_text", "text": text}
    return Episode({"output": [{"type": "message", "content": [part]}]})


def verdicts(spec: Mapping[str, Any], answers: Sequence[tuple[Mapping[str, Any], str]]) -> list[Verdict]:
    """The verdicts of one verifier on rows and answers, in their order."""
    return [one.verdict for one in graded(load_verifier(spec), answers)]


def graded(verifier: Verifier, answers: Sequence[tuple[Mapping[str, Any], str]]) -> list[GradedRollout]:
    """The same as graded rollouts."""

    async def all_of_them() -> list[GradedRollout]:
        found = []
        for number, (row, text) in enumerate(answers):
            task, episode = Task(number, 0, dict(row)), spoken(text)
            found.append(GradedRollout(task, episode, await verifier.verify(task, episode)))
        return found

    return asyncio.run(all_of_them())
