"""Looks at runs in the background, so that no page waits for a file, a scheduler or another machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.status.gather import gather
from nemo_gym.orchestration.status.last_status import LastStatus
from nemo_gym.orchestration.status.machines import SubmissionMachines
from nemo_gym.orchestration.status.report import of_submissions
from nemo_gym.pages.run_rows import evaluation_row
from nemo_pages.runs.table import RunTable, SourceState
from nemo_runs.clock import SecondsClock, SystemClock

_LOG = logging.getLogger(__name__)
SOURCE: Final = "evaluations"
LOOK_SECONDS: Final = 3.0


class RunObserver:
    """Puts the rows of some evaluations into a table, again and again."""

    def __init__(
        self,
        table: RunTable,
        records: Callable[[], Sequence[SubmissionRecord]],
        clock: SecondsClock | None = None,
    ) -> None:
        """``records`` is asked before each look which evaluations there are."""
        self._table = table
        self._records = records
        self._clock = clock or SystemClock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evaluations", daemon=True)
        table.observed(SourceState(SOURCE, None))

    def start(self) -> None:
        """Look in a thread until `close`."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after its present look."""
        self._ended.set()

    def look(self) -> None:
        """Look once at everything."""
        records = {record.gym_job_id: record for record in self._records()}
        with SubmissionMachines() as machines:
            found = of_submissions(gather(list(records.values()), machines).values())
        now = self._clock.seconds()
        found = LastStatus().completed(found, now=now)
        rows = [
            evaluation_row(records[each.gym_job_id], status, now=now)
            for each in found
            for status in each.benchmarks
        ]
        self._table.put(SOURCE, rows, complete=True)
        self._table.observed(SourceState(SOURCE, now))

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the outermost edge: the next look may succeed
                _LOG.exception("evaluations could not be observed")
                self._table.observed(SourceState(SOURCE, None, f"Evaluations could not be read: {error}"))
            self._ended.wait(LOOK_SECONDS)
