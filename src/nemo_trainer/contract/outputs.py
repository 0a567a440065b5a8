"""``OUTPUTS.json``: what a step has produced, so that a rerun can prove it and not do it again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file
from nemo_trainer.contract.errors import TrainerError
from nemo_trainer.contract.files import file_problems
from nemo_trainer.contract.generations import newest_file
from nemo_trainer.contract.manifest import FileEntry, parse_files
from nemo_trainer.contract.names import TrainerPaths

_SCHEMA = 1
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files that a step has produced, relative to the trainer path; they may begin with ``..``."""

    task: str
    created_at: float
    files: tuple[FileEntry, ...]
    generation: int = 0


def read_outputs(trainer_path: Path, *, within: Path | None = None) -> Outputs | None:
    """What the step says it has produced, `None` when it says nothing; raises `TrainerError`."""
    path = newest_file(TrainerPaths(trainer_path).outputs)
    try:
        value = json.loads(read_regular(path, most=_LARGEST, within=within))
        if value["schema"] != _SCHEMA:
            raise ValueError(f"schema {value['schema']!r} is not {_SCHEMA}")  # noqa: TRY301 - one funnel for all damage
        files = parse_files(value["files"], inside=False)
        return Outputs(str(value["task"]), float(value["created_at"]), files, int(value.get("generation", 0)))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TrainerError(f"{path}: is damaged: {error!r}") from error


def write_outputs(trainer_path: Path, outputs: Outputs, *, own_names: bool = False) -> None:
    """Put the record there, durably; the files that it names must be on the disk by then.

    ``own_names``: under the name that its generation has for itself.
    """
    value = {"schema": _SCHEMA, **asdict(outputs)}
    place = TrainerPaths(trainer_path, outputs.generation, own_names).outputs
    replace_file(place, json.dumps(value, indent=1).encode("ascii") + b"\n", mode=None)


def verify_outputs(trainer_path: Path, *, storage: Path, deep: bool) -> Sequence[str]:
    """What is wrong with a step's outputs, a sentence each; nothing = the step need not run again.

    Files outside the job's ``storage`` are never looked at, and are a problem.
    """
    try:
        outputs = read_outputs(trainer_path, within=storage)
    except TrainerError as error:
        return [str(error)]
    if outputs is None:
        return [
            f"{TrainerPaths(trainer_path).outputs}: is missing, so the step has not said what it produced"
        ]
    return file_problems(trainer_path, outputs.files, deep=deep, root=storage)
