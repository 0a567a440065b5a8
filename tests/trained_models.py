"""A small base model and an adapter of it, made once for a whole run of tests, with what they answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import engines

PROGRAM = Path(__file__).parent / "nemo_engines" / "answering" / "answers_program.py"
QUESTIONS = ("What is 7 + 5?", "Say hello, please.", "Who are you?")


@dataclass(frozen=True)
class TrainedModels:
    base: Path
    adapter: Path
    answers: Mapping[str, Sequence[str]]
    """Of ``base`` and ``adapter``: what transformers answers to each question, at most 12 tokens."""


def make(folder: Path) -> TrainedModels:
    argv = [engines.engine_python("trl"), PROGRAM, folder, *QUESTIONS]
    done = subprocess.run(
        argv, env=engines.engine_environ(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return TrainedModels(folder / "base", folder / "adapter", json.loads(done.stdout.splitlines()[-1]))
