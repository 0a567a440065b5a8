"""The verifier of lm-eval's tasks: each answer is graded by the task's own filters and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, TypeGuard

from pydantic import BaseModel

from nemo_gym.errors import GymError
from nemo_gym.harness import environment, rows
from nemo_gym.harness.agent import FIELD, LIKELIHOODS, SCORED, conditional
from nemo_gym.harness.options import HarnessOptions
from nemo_gym.harness.process import HarnessError, Worker, WorkerEndedError
from nemo_gym.types import (
    ANSWER_ENDS,
    Episode,
    Estimate,
    GradedRollout,
    Policy,
    RolloutFailedError,
    Row,
    Task,
    Verdict,
)

VALUES = "lm_eval_values"
"""Of a result: values of metrics that are something else than numbers."""
_MOMENT = 0.01
"""Seconds in which grades are gathered."""
_TOGETHER = 256
"""Answers that are handed over in one line."""
_ENDS_IN_A_ROW = 5
"""Processes that end one after the other without a grade, before no further one is started."""


class NoOptions(BaseModel):
    """All that can be set is under ``benchmark.lm_eval``."""


class HarnessVerifier:
    """Grades in the process that has lm-eval, which is started with the first answer."""

    Options: ClassVar[type[BaseModel]] = NoOptions
    graded_ends = frozenset(ANSWER_ENDS)
    """As lm-eval does: it does not know how an answer ended."""
    aggregates_unscored = True
    """Some metrics are of all answers together, and none of one."""

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy]) -> None:
        self.options = options
        self._task: HarnessOptions | None = None
        self._repeats = 1
        self._report: Callable[[str], None] = lambda _line: None
        self._worker: Worker | None = None
        self._ready = threading.Event()
        self._problem: GymError | None = None
        self._lock = threading.Lock()
        self._requests: list[tuple[dict[str, Any], asyncio.Future[Any]]] = []
        self._grading: asyncio.Task[None] | None = None
        self._ends = 0

    def bind(self, task: HarnessOptions | None, *, repeats: int) -> None:
        """Say what is graded: the benchmark's own section, and how often each document is asked."""
        self._task, self._repeats = task, repeats

    def check_row(self, row: Row) -> str | None:
        """Each row was made by lm-eval, and says by which task."""
        found = row.get(FIELD)
        if not isinstance(found, dict) or not {"task", "doc_id", "doc_hash"} <= found.keys():
            return f"lacks {FIELD} with task, doc_id and doc_hash: it was not made by this benchmark"
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Grade one answer as though all repeats had given it; the score of all repeats is added up later."""
        where = task.row[FIELD]
        fields = {key: where[key] for key in ("task", "doc_id", "doc_hash")}
        try:
            found = await self._graded({"answer": _said(episode), **fields})
        except HarnessError as error:
            raise RolloutFailedError("verifier_error", str(error)) from error
        metrics = found["metrics"]
        key = chosen(metrics, self._task.score if self._task else None)
        return Verdict(
            None if key is None else float(metrics[key]),
            extracted_answer=_likeliest(task, episode)
            if SCORED in episode.fields
            else None
            if key is None
            else found["extracted"].get(key.partition(",")[2]),
            fields={VALUES: {name: value for name, value in metrics.items() if not _is_number(value)}},
            metrics={name: value for name, value in metrics.items() if _is_number(value)},
        )

    async def _graded(self, request: dict[str, Any]) -> Any:
        """One grade; requests that come while others are graded, or within a moment, go together."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._requests.append((request, future))
        if self._grading is None or self._grading.done():
            self._grading = loop.create_task(self._grade_all())
        found = await future
        if "problem" in found:
            raise HarnessError(found["problem"])
        return found

    async def _grade_all(self) -> None:
        await asyncio.sleep(_MOMENT)
        while self._requests:
            batch, self._requests = self._requests[:_TOGETHER], self._requests[_TOGETHER:]
            batch = [one for one in batch if not one[1].done()]
            try:
                await self._grade(batch)
            except WorkerEndedError:  # one of them may have ended it, which the others do not pay for
                for one in batch:
                    with contextlib.suppress(HarnessError):
                        await self._grade([one], last=True)
            except HarnessError:
                continue  # all who wait know it

    async def _grade(self, batch: list[tuple[Any, asyncio.Future[Any]]], *, last: bool = False) -> None:
        """Have answers graded together, and give each who waits its own part.

        Raises `HarnessError`; those who wait have it too, unless the process ended and it is not the
        ``last`` time.
        """
        try:
            worker = self._started() if self._ready.is_set() else await asyncio.to_thread(self._started)
            found = await asyncio.wrap_future(worker.send("grade", rows=[request for request, _ in batch]))
        except HarnessError as error:
            if isinstance(error, WorkerEndedError):
                await asyncio.to_thread(self._drop)
            if last or not isinstance(error, WorkerEndedError):
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            raise
        self._ends = 0
        for (_, future), grade in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(grade)

    def aggregate(self, rollouts: Iterable[GradedRollout]) -> dict[str, Estimate]:
        """What lm-eval reports: values and standard errors by ``metric,filter``, after the task's name where
        there are several. Documents without all of their repeats are left out.
        """
        try:
            found = self._results(rollouts)
        except WorkerEndedError:  # somebody else may have ended it
            self._drop()
            found = self._results(rollouts)
        return estimates(found["results"])

    def _results(self, rollouts: Iterable[GradedRollout]) -> Any:
        assert self._task is not None
        worker = self._started()
        for batch in batched(map(_answer, rollouts), _TOGETHER):
            worker.ask("answers", rows=batch)
        return worker.ask("results", bootstrap_iters=self._task.bootstrap_iters)

    def _drop(self) -> None:
        """Forget a process that is gone, so that the next grade has another, unless each of them ends."""
        self._ends += 1
        if self._ends < _ENDS_IN_A_ROW:
            self.close()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._ready.wait()
                self._worker, self._problem = None, None

    def start(self) -> None:
        """Start the process, which takes a second or two to load lm-eval, before there is an answer."""
        with self._lock:
            if self._worker is not None:
                return
            if self._task is None:
                raise HarnessError("benchmark.lm_eval is missing, which says what is graded")
            self._ready.clear()
            python = environment.ensure_python(self._report)
            self._worker = Worker(python, environment.worker_environ(offline=True))
            threading.Thread(target=self._open, args=(self._worker, self._task), name="lm-eval open").start()

    def _open(self, worker: Worker, task: HarnessOptions) -> None:
        try:
            rows.open_task(worker, task, "chat", report=self._report, repeats=self._repeats)
        except GymError as error:
            self._problem = error
        finally:
            self._ready.set()

    def _started(self) -> Worker:
        """The process, once it has read the task's definition. Raises `GymError`."""
        self.start()
        self._ready.wait()
        if isinstance(self._problem, WorkerEndedError):
            raise self._problem
        if self._problem is not None:
            raise HarnessError(str(self._problem).rstrip("."))
        assert self._worker is not None
        return self._worker


def chosen(metrics: Mapping[str, Any], wanted: str | None) -> str | None:
    """The metric that is the reward: the one that is asked for, or the first that is a number in [0, 1]."""
    if wanted is not None:
        if wanted not in metrics:
            known = ", ".join(metrics) or "none"
            raise HarnessError(f"benchmark.lm_eval.score: there is no metric '{wanted}'; there are {known}")
        return wanted if _is_reward(metrics[wanted]) else None
    return next((name for name, value in metrics.items() if _is_reward(value)), None)


def estimates(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
    """Values and standard errors out of lm-eval's own table."""
    found: dict[str, Estimate] = {}
    for task, values in results.items():
        head = f"{task}/" if len(results) > 1 else ""
        for name, value in values.items():
            metric, comma, of_filter = name.partition(",")
            if comma and not metric.endswith("_stderr"):
                error = values.get(f"{metric}_stderr,{of_filter}")
                found[head + name] = Estimate(_finite(value), _finite(error))
    return found


def _answer(rollout: GradedRollout) -> tuple[str, int, int, Any]:
    where = rollout.task.row[FIELD]
    return where["task"], where["doc_id"], rollout.task.rollout_index, _said(rollout.episode)


def _said(episode: Episode) -> Any:
    """What the model said: its text, or the likelihoods that were asked for."""
    return episode.fields.get(SCORED, episode.text)


def _likeliest(task: Task, episode: Episode) -> str:
    """Of several texts the likeliest one; of a single one its log-likelihood."""
    scored = episode.fields[SCORED]
    asked = task.row[LIKELIHOODS]
    texts = asked["texts"][: conditional(asked)]
    if len(texts) < 2:
        return repr(scored[0][0])
    return str(max(zip(scored, texts, strict=False), key=lambda pair: pair[0][0])[1]).strip()


def _finite(value: object) -> float | None:
    return float(value) if _is_number(value) and math.isfinite(value) else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _is_reward(value: object) -> bool:
    return _is_number(value) and 0 <= value <= 1


def batched(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Lists of up to ``most`` items."""
    rest = iter(items)
    while batch := list(islice(rest, most)):
        yield batch
