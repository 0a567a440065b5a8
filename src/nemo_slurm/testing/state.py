"""Where the fake cluster is kept between two calls of its programs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from nemo_runs import file_locks
from nemo_runs.durable.files import replace_file
from nemo_slurm.testing.model import ClusterModel


class StoredCluster:
    """The cluster's state, in memory or in a file that several processes use one after the other."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._model = ClusterModel()
        if file and not file.exists():
            replace_file(file, json.dumps(self._model.to_json()).encode())

    @contextlib.contextmanager
    def open(self) -> Iterator[ClusterModel]:
        """The model, alone for as long as the block lasts."""
        if self._file is None:
            yield self._model
            return
        with file_locks.held(self._file.with_suffix(".lock")):
            model = ClusterModel.from_json(json.loads(self._file.read_bytes()))
            yield model
            # other processes come only after the lock: a rename is enough, no disk needs to be waited for
            beside = self._file.with_suffix(".new")
            beside.write_text(json.dumps(model.to_json()), encoding="utf-8")
            beside.replace(self._file)
