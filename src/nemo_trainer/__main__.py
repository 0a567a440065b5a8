"""``python -m nemo_trainer``: looking at a training's files by hand, and the example."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nemo_trainer.contract import Checkpoint, history, list_checkpoints, verify

_USAGE = """usage: baton-trainer COMMAND
  checkpoints FOLDER   the checkpoints of a training, each verified
  verify FOLDER        what is wrong with one checkpoint; exit code 4 when something is
  metrics FOLDER       every step once: step, name, value
  example …            the example training, see example --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The program."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    match arguments:
        case ["checkpoints", folder]:
            return _checkpoints(Path(folder))
        case ["verify", folder]:
            return _verify(Path(folder))
        case ["metrics", folder]:
            return _metrics(Path(folder))
        case ["example", *rest]:
            from nemo_trainer import example  # noqa: PLC0415 - the other commands need little

            return example.main(rest)
        case ["--help" | "-h"]:
            sys.stdout.write(_USAGE)
            return 0
    sys.stderr.write(_USAGE)
    return 2


def _checkpoints(folder: Path) -> int:
    for item in list_checkpoints(folder):
        if isinstance(item, Checkpoint):
            problems = verify(item.folder, deep=True)
            print(item.step, item.id, item.size, problems[0] if problems else "verified", sep="\t")
        else:
            print(item.step, "-", "-", item.problem, sep="\t")
    return 0


def _verify(folder: Path) -> int:
    problems = verify(folder, deep=True)
    print("\n".join(problems) or "verified")
    return 4 if problems else 0


def _metrics(folder: Path) -> int:
    for row in history(folder / "metrics.jsonl"):
        for name, value in row.values.items():
            print(row.step, name, value, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
