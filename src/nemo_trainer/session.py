"""A training run's side of the contract: what is wanted of it, its checkpoints, metrics and progress."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from nemo_runs.errors import RunsError
from nemo_trainer import holding, publishing, restoring, retention, taking_over
from nemo_trainer.contract import (
    EXIT_PAUSED,
    PRESUMED_BETWEEN_INTERRUPTIONS,
    Checkpoint,
    JobContext,
    Manifest,
    NotSavedError,
    NotWriterError,
    Reason,
    TrainerError,
    TrainerPaths,
    Want,
    read_progress,
    verify,
)
from nemo_trainer.contract.progress import (
    INTERVAL,
    LEAVES_BECAUSE,
    PASSED_OVER,
    SAVING,
    SEQ_SEEN,
    STOPS_AT,
    TRAINING_SINCE,
)
from nemo_trainer.recording import Recorder
from nemo_trainer.requests.announced_end import AnnouncedEnd
from nemo_trainer.requests.control_requests import ControlRequests
from nemo_trainer.requests.polling import StepPoll
from nemo_trainer.requests.signals import Flags
from nemo_trainer.save_intervals import IntervalInputs
from nemo_trainer.saving import SavePolicy, SaveTimes

_POLL_SECONDS = 0.5


class Session:
    """One start of a training; open it before heavy imports, use it from the training loop's thread.

    With several ranks every rank opens one; only rank 0 (environment variable ``RANK``) writes.
    """

    def __init__(
        self,
        context: JobContext,
        flags: Flags,
        manifest: Manifest,
        hold: holding.WriterHold | None,
        *,
        boundary: int,
        policy: SavePolicy,
    ) -> None:
        """Called by `open`."""
        self.context = context
        self.policy = policy
        self.published: Checkpoint | None = None
        """The newest checkpoint that this session has restored or published."""
        self._flags = flags
        self._manifest = manifest
        self._boundary = boundary
        self._poll = _poll(context)
        self._control = ControlRequests(
            context.control_file, self._poll, flags, generation=context.generation
        )
        self._hold = hold
        """`None` for a rank that writes nothing."""
        self._record = Recorder(context, fence=self.require)
        self._step = 0
        self._whole: set[str] = set()
        """Digests of the manifests whose files this session has verified or written."""
        self._end = AnnouncedEnd(context, flags)
        self._saves = SaveTimes(read_progress(TrainerPaths(context.trainer_path).progress).get(SAVING))
        self._save_began: float | None = None
        self._trains = False
        self._finished = False
        self._follows = False
        """Whether this rank knows the generation that rank 0 holds."""
        self._said: Mapping[str, Any] | None = None

    @classmethod
    def open(
        cls,
        context: JobContext | None = None,
        *,
        inputs: Mapping[str, str] | None = None,
        engine: Mapping[str, Any] | None = None,
        environment: str | None = None,
        boundary: int = 1,
        policy: SavePolicy | None = None,
    ) -> Self:
        """Install the signal handlers, then take hold of the trainer path.

        ``inputs`` are digests of what must be the same when training goes on; ``boundary``: training can only
        stop exactly after steps that are multiples of it; ``policy`` says when `save_due` is true. Raises
        `TrainerError` when another process trains in the same folder. When a later start takes over the
        folder, every method that writes raises `NotWriterError` from then on.
        """
        context = context or JobContext.from_environ(os.environ)
        flags = Flags(context.end_signal)
        flags.install()
        try:
            manifest = Manifest(
                step=0,
                files=(),
                job=context.job,
                attempt=context.attempt,
                task=context.task,
                engine=dict(engine or {}),
                environment=environment,
                inputs=dict(inputs or {}),
            )
            hold = holding.take_hold(context) if context.writes else None
            held = hold.generation if hold is not None else holding.claimed_for(context)
            if held is not None:
                context = context.holding(held.number, own_names=held.own_names)
                manifest = dataclasses.replace(manifest, generation=held.number)
            policy = policy or SavePolicy(boundary=boundary)
            session = cls(context, flags, manifest, hold, boundary=boundary, policy=policy)
        except BaseException:
            flags.restore()
            raise
        session._record.progress({}, now=True)
        return session

    def restore(self) -> Checkpoint | None:
        """The checkpoint to go on from, every digest verified; `None` = start from the beginning.

        A checkpoint that was asked for by name must be whole; otherwise the newest whole one is taken, and
        damaged ones are named in the progress and on standard error. Raises `CheckpointUnusableError`. With
        several ranks let rank 0 restore and hand the folder to the others.
        """
        after = None
        if self.context.writes:
            self.require()
            publishing.recover(self.context.paths)
            retention.clean(self.context.paths)
            after = taking_over.predecessor(self.context)
        found = restoring.choose(self.context, self._manifest.inputs, self.require)
        checkpoint = found.checkpoint
        for damaged in found.passed_over:
            sys.stderr.write(f"a damaged checkpoint is passed over: {damaged.problem}\n")
        self._step = checkpoint.step if checkpoint else 0
        if self.context.writes and checkpoint and checkpoint.folder == self.context.checkpoint:
            self.require()
            restoring.set_later_aside(self.context, checkpoint)
        self._record.continue_from(self._step, after)
        passed_over = [damaged.problem for damaged in found.passed_over]
        begun = {"phase": "training", PASSED_OVER: passed_over, LEAVES_BECAUSE: None}
        self._record.progress(begun, now=True)
        if checkpoint is not None:
            self.published = checkpoint
            self._whole.add(checkpoint.digest)
            self._saves.expect(checkpoint.size)
        self.policy.start(self._step, time.monotonic())
        self._choose_interval()
        return checkpoint

    def expect_checkpoint(self, size: int) -> None:
        """Say about how many bytes a checkpoint has, for training that has not saved any yet."""
        if not self._saves.measured:
            self._saves.expect(size)
            self._choose_interval()

    def wanted(self) -> Want:
        """What is wanted now; costs two ``stat``; call it once after every step. Rank 0 decides: `agreed`.

        It is ``pause`` too when the end of the allocation comes so near that only a save fits before it.
        """
        if not self.context.writes:
            return "run"
        self._end.step_done()
        if not self._trains:
            self._trains = True
            self._record.progress({TRAINING_SINCE: time.time()})
        self._control.look()
        if self._end.look():
            self._choose_interval()
        want = self._control.want
        why = self._end.because(self._saves.seconds, self._boundary)
        if want != "stop" and why is not None:
            want = "pause"
        self._report_request(want, why)
        return want

    def interrupted(self) -> bool:
        """Whether a pause, a stop or the end of the allocation is near, for what takes long between steps."""
        self._control.look()
        self._end.look()
        why = self._end.because(self._saves.seconds, self._boundary)
        return self._control.want in {"pause", "stop"} or why is not None

    def evaluated(self) -> None:
        """Say that an evaluation is over: the time that it took counts for none of the steps."""
        self._end.saved()

    def agreed(self, broadcast: Callable[[Want], Want]) -> Want:
        """The same decision on every rank: ``broadcast`` hands rank 0's value to all and returns it."""
        return broadcast(self.wanted())

    def may_stop(self, step: int) -> bool:
        """Whether training can stop exactly after this step."""
        return step % self._boundary == 0

    def save_due(self, step: int) -> bool:
        """Whether a periodic checkpoint is due after this step."""
        return self.policy.due(step, time.monotonic())

    def metrics(self, step: int, values: Mapping[str, float], epoch: float | None = None) -> None:
        """Append values of a finished step; what is not a finite number is left out."""
        _require_step(step)
        self._step = max(self._step, step)
        self._record.metrics(step, values, epoch)

    def progress(self, **fields: Any) -> None:
        """Report how far training is (phase, step, max_steps, epoch, num_epochs, backend, …)."""
        self._step = max(self._step, int(fields.get("step") or 0))
        self._record.progress(fields)

    def staging(self, step: int) -> Path:
        """The folder into which the ranks of one training write the files of a checkpoint, see `publish`.

        It is made, empty, when rank 0 asks for it; the others must wait for that.
        """
        if not self.context.writes and not self._follows:
            self.context, self._follows = holding.held_by_rank_0(self.context), True
        folder = publishing.staging(self.context.paths, step)
        if self.context.writes:
            self.require()
            publishing.make_empty(folder)
        return folder

    def save_begins(self) -> None:
        """Say that a library begins to write what is published then, so that it is timed as a whole.

        Where a function writes them, `publish` sees that by itself.
        """
        self._save_began = time.monotonic()

    def publish(
        self,
        source: publishing.Source,
        step: int,
        reason: Reason = "periodic",
        *,
        metrics: Mapping[str, float] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Make a checkpoint of a folder (it is moved), or of what a function writes into a given folder.

        Raises `NotSavedError`; the checkpoints from before are then as they were. ``metrics`` are by default
        the latest values of this session, ``engine`` is added to what `open` was given.
        """
        _require_step(step)
        if not self.context.writes:
            raise TrainerError(f"rank {self.context.rank} must not publish a checkpoint; let rank 0 do it")
        began, self._save_began = self._save_began or time.monotonic(), None
        self._record.begin()
        self._record.sync()
        manifest = dataclasses.replace(
            self._manifest,
            step=step,
            reason=reason,
            created_at=time.time(),
            engine={**self._manifest.engine, **(engine or {})},
            metrics=dict(self._record.latest if metrics is None else metrics),
        )
        self.published = publishing.publish(self.context.paths, source, manifest, self.require)
        self._whole.add(self.published.digest)
        self._step = max(self._step, step)
        self._control.saved()
        self.policy.saved(step, time.monotonic())
        self._saves.saved(time.monotonic() - began, self.published.size)
        self._end.saved()
        self._choose_interval()
        self._record.progress({"step": self._step, "checkpoint_path": str(self.published.folder)}, now=True)
        return self.published

    def prune(
        self, keep: int = 2, best: tuple[str, str] | None = None, *, keep_steps: Collection[int] = ()
    ) -> list[int]:
        """Remove old checkpoints, never the last two whole ones nor pinned ones; return the steps removed.

        ``best`` = (name of a metric, ``min`` or ``max``) also keeps the one that is best by it, and
        ``keep_steps`` those of the steps.
        """
        if not self.context.writes:
            return []
        self.require()
        return retention.prune(
            self.context.paths, keep=keep, best=best, keep_steps=keep_steps, verified=self._is_whole
        )

    def outputs(self, paths: Sequence[Path]) -> None:
        """Record the files (and all files in the folders) that this step has produced, with digests.

        They must lie in the job's storage; a relative path is one below the trainer path.
        """
        if self.context.writes:
            self.require()
            holding.record_outputs(self.context, paths)

    def paused(self) -> NoReturn:
        """Leave at once with exit code 75; a checkpoint of the last finished step must be published.

        The interpreter's own end, which can take seconds, is skipped: finish trackers before.
        """
        if self.context.writes:
            if self.published is None or self.published.step < self._step:
                at = self.published.step if self.published else 0
                raise NotSavedError(
                    f"{self.context.paths.checkpoints}: the newest checkpoint is of step {at}, and step "
                    f"{self._step} is finished; publish one before pausing"
                )
            self._record.final({"phase": "paused"}, self._step)
            self._record.close()
            self._release_hold()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_PAUSED)

    def finish(self) -> None:
        """Training is done: write the last progress; the program then ends as it likes, with 0."""
        self._finished = True
        self._record.final({"phase": "completed", "percentage_done": 100.0, STOPS_AT: None}, self._step)
        self.require()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush, restore the signal handlers; an error is written to the progress."""
        try:
            if not self._finished and not isinstance(error, NotWriterError):
                said = _ended_with(error) if error else {}
                self._record.final(said, self._step)
            self._record.close()
        except (TrainerError, RunsError) as failure:
            if error is None:
                raise
            sys.stderr.write(f"{failure}\n")
        finally:
            self._release_hold()
            if self._poll is not None:
                self._poll.close()
            self._flags.restore()

    def require(self) -> None:
        """Raise `NotWriterError` when another process has become the writer of the trainer path.

        Every method that writes does so by itself; call it before replacing what other code has written.
        """
        if self._hold is not None:
            self._hold.require()

    def _release_hold(self) -> None:
        if self._hold is not None:
            self._hold.release()

    def _choose_interval(self) -> None:
        """Choose the interval of the periodic saves from what is known now, and say what a save takes."""
        policy, known = self.policy, self.context.between_interruptions
        if policy.max_overhead is not None:
            policy.choose(
                IntervalInputs(
                    save_seconds=self._saves.seconds,
                    save_measured=self._saves.measured,
                    between_interruptions=known or PRESUMED_BETWEEN_INTERRUPTIONS,
                    interruptions_measured=known is not None,
                    left_seconds=self._end.left,
                    max_overhead=policy.max_overhead,
                )
            )
        given = {"seconds": policy.seconds, "chosen_by": "given"}
        interval = given if policy.chosen is None else policy.chosen.to_json()
        self._record.progress({SAVING: self._saves.to_json(), INTERVAL: interval})

    def _report_request(self, want: Want, why: str | None) -> None:
        if self._finished:
            return
        seen = self._control.seen
        stops = -(-self._step // self._boundary) * self._boundary if want in {"pause", "stop"} else None
        said = {SEQ_SEEN: seen.seq if seen else None, STOPS_AT: stops, LEAVES_BECAUSE: why}
        if self._said is None and not any(said.values()):
            return
        if said != self._said:
            self._said = said
            self._record.progress(said, now=True)

    def _is_whole(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.digest not in self._whole and not verify(checkpoint.folder, deep=True):
            self._whole.add(checkpoint.digest)
        return checkpoint.digest in self._whole


def _poll(context: JobContext) -> StepPoll | None:
    if context.control_file is not None or context.step_url is None or not context.writes:
        return None
    poll = StepPoll(context.step_url, token=context.access_token, interval=_POLL_SECONDS)
    poll.start()
    return poll


def _ended_with(error: BaseException) -> dict[str, str]:
    """What the progress says of an error that ends training; one of ours is a sentence by itself."""
    kind = type(error).__name__
    sentence = str(error) if isinstance(error, TrainerError | RunsError) else f"{kind}: {error}"
    return {"phase": "failed", "message": sentence, "error_type": kind}


def _require_step(step: int) -> None:
    if step < 1:
        raise TrainerError(f"a step is the number of finished steps, from 1 on; {step} was given")
