"""The example training, stopped by itself at one point of its work, as by a node that is lost and comes back.

``python -m tests.nemo_trainer.stopping POINT OPTIONS``: POINT is a name of `POINTS`, or ``-``, and
options of the example. ``CLOCK`` in the environment is added to the time; ``NO_LINKS``: the
file system has no hard links.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nemo_runs.durable.rows import RowAppender
from nemo_trainer import example, publishing, recording, retention, taking_over

_real_put, _real_progress, _real_append = publishing._put, recording.write_progress, RowAppender.append
_real_recover, _real_begin, _real_remove = publishing.recover, taking_over._record, retention._remove


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def once(at: int) -> Callable[[], None]:
    """Stops at the call of this number."""
    calls = iter(range(1, 1 << 30))
    return lambda: stop() if next(calls) == at else None


def before_the_rename() -> None:
    """Every look was made, and the checkpoint's folder is renamed next."""
    stopping = once(2)

    def put(*arguments: Any) -> None:
        stopping()
        _real_put(*arguments)

    publishing._put = put


def before_the_rename_of_a_folder() -> None:
    """The same with a folder that lies elsewhere, which no other start clears away."""
    stopping = once(2)

    def put(paths: Any, folder: Path, place: Path) -> None:
        kept = paths.folder / "kept"
        folder.rename(kept)
        stopping()
        _real_put(paths, kept, place)

    publishing._put = put


def before_a_row() -> None:
    stopping = once(8)

    def append(*arguments: Any, **more: Any) -> None:
        stopping()
        _real_append(*arguments, **more)

    RowAppender.append = append  # type: ignore[method-assign]


def before_the_last_progress() -> None:
    def write(path: Path, fields: Any, *, durable: bool) -> None:
        if durable:
            stop()
        _real_progress(path, fields, durable=durable)

    recording.write_progress = write


def before_its_takeover() -> None:
    def record(*arguments: Any) -> None:
        stop()
        _real_begin(*arguments)

    taking_over._record = record


def before_pruning() -> None:
    stopping = once(1)

    def remove(*arguments: Any) -> bool:
        stopping()
        return _real_remove(*arguments)

    retention._remove = remove


def before_cleaning_up() -> None:
    def recover(paths: Any) -> None:
        stop()
        _real_recover(paths)

    publishing.recover = recover


POINTS = {
    one.__name__.replace("_", "-"): one
    for one in (
        before_the_rename,
        before_the_rename_of_a_folder,
        before_a_row,
        before_the_last_progress,
        before_its_takeover,
        before_pruning,
        before_cleaning_up,
    )
}


def _no_links(_source: object, target: object, **_more: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "has no hard links", str(target))


def main() -> int:
    point, *options = sys.argv[1:]
    if point != "-":
        POINTS[point]()
    skew, now = float(os.environ.get("CLOCK", "0")), time.time
    time.time = lambda: now() + skew
    if os.environ.get("NO_LINKS"):
        os.link = _no_links  # type: ignore[assignment]
    return example.main(options)


if __name__ == "__main__":
    sys.exit(main())
