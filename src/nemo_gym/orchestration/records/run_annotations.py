"""Tags and a note that people give a run: beside its record, which is never changed.

Of a run whose folder is on another machine they lie beside its entry in the local index.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from nemo_gym import job_paths
from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_runs import file_locks
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import RunsError

MOST: Final = 50
"""Tags of a run."""
LONGEST: Final = 100
"""Characters of a tag."""
LONGEST_NOTE: Final = 4096


@dataclass(frozen=True, slots=True)
class Annotations:
    """What people say of a run."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"tags": list(self.tags), "note": self.note}

    def changed(self, add: Iterable[str], remove: Collection[str], note: str | None) -> Annotations:
        """With other tags, in the order in which they were given, and another note, if one is.

        Raises `DataError` for what cannot be a tag or a note.
        """
        added = list(add)
        for tag in added:
            if not tag or len(tag) > LONGEST or any(character.isspace() for character in tag):
                raise DataError(
                    f"'{tag[:LONGEST]}' is not a tag: a tag is one word of at most {LONGEST} characters."
                )
        tags = tuple(tag for tag in dict.fromkeys([*self.tags, *added]) if tag not in remove)
        if len(tags) > MOST:
            raise DataError(f"a run has at most {MOST} tags, this would be {len(tags)}; remove some.")
        if note is not None and len(note) > LONGEST_NOTE:
            raise DataError(f"the note has {len(note):,} characters; it can have {LONGEST_NOTE:,}.")
        return Annotations(tags, self.note if note is None else note)


def file_of(record: SubmissionRecord) -> Path:
    """Where the annotations of a submission lie."""
    paths = RunPaths(Path(record.run_dir))
    if record.hostname is None or paths.record.is_file():
        return paths.annotations
    return job_paths.index_annotations(record.gym_job_id)


def read(file: Path) -> Annotations:
    """The annotations of a file; none where it is missing. Raises `DataError` where it is damaged."""
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return Annotations()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not a JSON document ({error}).") from None
    tags, note = (
        (found.get(name) for name in ("tags", "note")) if isinstance(found, Mapping) else (None, None)
    )
    if (
        not isinstance(tags, list)
        or not all(isinstance(tag, str) for tag in tags)
        or not isinstance(note, str)
    ):
        raise DataError(f"{file} does not hold a list of tags and a note; remove it to begin with none.")
    return Annotations(tuple(tags), note)


def change(file: Path, add: Iterable[str], remove: Collection[str], note: str | None) -> Annotations:
    """Change the annotations of a file, one who does so at a time. Raises `GymError`."""
    try:
        with file_locks.held(file.with_suffix(".lock")):
            found = read(file).changed(add, remove, note)
            document = {"schema_version": 1, **asdict(found)}
            replace_file(file, json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")
    except (OSError, RunsError) as error:
        raise GymError(f"{file} cannot be written ({getattr(error, 'strerror', None) or error}).") from error
    return found
