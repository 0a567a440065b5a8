"""Makes the rows of MATH: the seven subjects in one file, each with the answer out of its solution's box."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.hub import dataset_rows
from nemo_gym.rollouts.run_config.dataset_schema import HubDataset

DATA_SET, REVISION = "EleutherAI/hendrycks_math", "21a5633873b6a120296cce3e2df9d5550074f4a3"
SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)


def prepare(output: Path, source: str = DATA_SET, split: str = "test") -> None:
    """Write one row a problem, subject by subject.

    ``source`` is the data set at the hub, or a folder with a folder for each subject: files, or what
    `save_to_disk` wrote. `nemo_gym.errors.GymError` when the data cannot be had, or lacks a column.
    """
    with output.open("w", encoding="utf-8") as stream:
        for subject in SUBJECTS:
            data = HubDataset(path=source, name=subject, split=split, revision=REVISION)
            for number, record in enumerate(dataset_rows(data, "prepare_script_args.source"), 1):
                stream.write(json.dumps(make_row(record, subject, number), ensure_ascii=False) + "\n")


def make_row(record: Mapping[str, Any], subject: str, number: int) -> dict[str, Any]:
    """A record as a row; the level as its number, ``null`` where the data has none."""
    problem, solution = record.get("problem"), record.get("solution")
    if not isinstance(problem, str) or not isinstance(solution, str):
        raise DataError(f"record {number} of {subject} has no problem or no solution.")
    answer = boxed(solution)
    if not answer:
        raise DataError(f"record {number} of {subject}: its solution ends in no \\boxed answer.")
    level = str(record.get("level", "")).removeprefix("Level").strip()
    return {
        "problem": problem,
        "expected_answer": answer,
        "subject": subject,
        "level": int(level) if level.isdigit() else None,
        "solution": solution,
    }


def boxed(text: str) -> str | None:
    """What is in the last ``\\boxed{…}`` (``\\fbox{…}``) of a text, or follows ``\\boxed`` without braces."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return None
    rest = text[start:].removeprefix("\\boxed").removeprefix("\\fbox")
    if not rest.startswith("{"):
        return rest.split("$")[0].strip() or None
    depth = 0
    for at, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[1:at].strip() or None
    return None
