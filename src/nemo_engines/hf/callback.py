"""The contract inside the training loop: what is wanted is looked at after each step, and each save
published."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from nemo_engines import spec as specs
from nemo_engines import steering
from nemo_engines.errors import BadSpecError, DivergedError, TrainerError
from nemo_engines.evaluation.evaluations import Evaluated, Evaluations
from nemo_engines.flops import flops_per_token
from nemo_engines.hf import reporting
from nemo_engines.running import TrainingRun
from nemo_engines.saving import opened_watch, publish
from nemo_engines.speed import Speed, memory_fields
from nemo_engines.steering import LoopDecision
from nemo_trainer.contract import Checkpoint

_LOG_SECONDS = 1.0


class ContractCallback(TrainerCallback):  # type: ignore[misc]  # the library has no types here
    """Steers one training. ``saving`` is the step whose checkpoint is being written, and ``begun`` whether
    everything is set up, for the code that catches errors."""

    def __init__(self, run: TrainingRun, *, validates: bool) -> None:
        self.saving: int | None = None
        self.begun = False
        self.watch = opened_watch(run)
        """What was evaluated so far; only that of rank 0 knows all of it."""
        self.evaluations = Evaluations(run, self.watch)
        self._run = run
        self._validates = validates
        self._boundary = specs.boundary(run.spec)
        self._decision = LoopDecision()
        self._logged_at = 0.0
        self._reported: set[str] = set()
        self._speed = Speed()
        self._flops_per_token: float | None = None

    def on_train_begin(self, _args: Any, state: Any, _control: Any, model: Any = None, **_: Any) -> None:
        """Say how long it will take."""
        self.begun = True
        if model is not None:
            parts = list(model.parameters())
            trained = sum(part.numel() for part in parts if part.requires_grad)
            self._flops_per_token = flops_per_token(
                self._run.spec, sum(part.numel() for part in parts), trained
            )
        self._progress("training", state)

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """Time a step from here on."""
        self._speed.begins()

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Decide what follows this step, the same on every rank."""
        decision = self._agreed(state.global_step, state.max_steps)
        decision = self._evaluation_before(state, decision)
        self._decision = decision
        if decision.stop and decision.save is None:
            raise TrainerError(
                f"training was stopped on request after step {state.global_step}; nothing was saved"
            )
        validate = self._validates and self._validate_now(state)
        control.should_evaluate = validate
        chooses = self._run.spec.save.best_metric is not None and state.global_step % self._boundary == 0
        evaluates = self.evaluations.due(state.global_step, last=False)
        if ((validate and chooses) or evaluates) and decision.save is None:
            self._decision = decision = LoopDecision("periodic")
        control.should_save = decision.save is not None
        control.should_training_stop = decision.stop
        self.saving = state.global_step if decision.save else None
        self._run.session.save_begins()
        if validate:
            self._progress("validation", state)

    def on_evaluate(
        self, _args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Take the validation, and end here where it says so; a save is timed from here on."""
        saved = self._decision.save is not None
        ends = self.watch.observe(state.global_step, reporting.reported(metrics or {}), saved=saved)
        if self._broadcast([ends])[0] and self._decision.save != "final":
            self._decision = LoopDecision("final", stop=True)  # of a pause at this step nothing would be left
            control.should_save = control.should_training_stop = True
            self.saving = state.global_step
        self._run.session.progress(**self.watch.fields())
        self._run.session.save_begins()

    def _agreed(self, step: int, last: int) -> LoopDecision:
        run = self._run
        decision = LoopDecision()
        if run.world.leads:
            want, due = run.session.wanted(), run.session.save_due(step)
            decision = steering.decide(step=step, last=last, boundary=self._boundary, want=want, due=due)
            if decision.stops_at is not None:
                run.session.progress(stops_at=decision.stops_at)
        if run.world.size == 1:
            return decision
        return steering.decode(*self._broadcast(steering.encode(decision)))

    def _broadcast(self, numbers: Sequence[int]) -> Sequence[int]:
        """The numbers that rank 0 has."""
        if self._run.world.size == 1:
            return numbers
        sent = torch.tensor(
            [int(one) for one in numbers], device="cpu" if self._run.device == "cpu" else "cuda"
        )
        torch.distributed.broadcast(sent, src=0)
        return list(sent.tolist())

    def settle(self) -> bool:
        """Take up the evaluation that the last start left open; whether training is over with it."""
        return self._follow(self.evaluations.settle() if self._run.world.leads else Evaluated())

    def _evaluation_before(self, state: Any, decision: LoopDecision) -> LoopDecision:
        """Take the score that was still open, before there is another one or the training ends."""
        step, leads = state.global_step, self._run.world.leads
        if leads:
            self.evaluations.look()
        if decision.save == "pause" or not self.evaluations.due(step, last=decision.save == "final"):
            return decision
        found = self.evaluations.finish() if leads else Evaluated()
        ends, leaves = self._broadcast(found)
        if leaves:  # this step is saved first; the score is taken when training goes on
            return decision if decision.save == "final" else LoopDecision("pause", stop=True)
        return LoopDecision("final", stop=True) if ends else decision

    def _follow(self, found: Evaluated) -> bool:
        """Do on every rank what follows an evaluation; whether it ends the training."""
        ends, leaves = self._broadcast(found)
        if leaves:
            self._run.leave()
        return bool(ends)

    def _evaluate(self, step: int, control: Any, checkpoint: Checkpoint | None) -> None:
        """Evaluate what was just published, where that is due."""
        last = self._decision.save == "final"
        if self._decision.save == "pause" or not self.evaluations.due(step, last=last):
            return
        found = Evaluated() if checkpoint is None else self.evaluations.begin(checkpoint, wait=last)
        if self._follow(found):
            control.should_training_stop = True

    def _validate_now(self, state: Any) -> bool:
        every = self._run.spec.schedule.eval_steps
        if state.global_step >= state.max_steps:
            return True
        if every is not None:
            return bool(state.global_step % every == 0)
        return bool(abs(state.epoch - round(state.epoch)) < 1e-9)

    def on_log(
        self, _args: Any, state: Any, _control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Report a step's values; a loss that is not a number ends it before anything is saved of
        it."""
        logs = logs or {}
        problem = reporting.divergence(logs, fp16=self._run.precision == "fp16")
        if problem is not None:
            raise DivergedError(
                f"training has diverged at step {state.global_step}: {problem}; try a lower learning rate"
            )
        values = reporting.reported(logs)
        if not values or not self._run.world.leads:
            return
        values |= reporting.besides(self._run.spec, values)
        self._check_metric(state.global_step, values)
        self._run.session.metrics(state.global_step, values, epoch=state.epoch)
        speed: dict[str, float] = {}
        if "train_loss" in values:
            self._speed.finished(values.get("train_num_tokens"))
            left = state.max_steps - state.global_step
            speed = self._speed.fields(left=left, flops_per_token=self._flops_per_token)
            speed |= memory_fields(torch, self._run.device)
        self._progress("training", state, **values, **speed)
        self._log_progress(state, values)

    def _check_metric(self, step: int, values: Mapping[str, float]) -> None:
        """Look, with the first values, whether the metric to choose by is among them; later is too late."""
        part = next(iter(values)).partition("_")[0]
        if part in self._reported:
            return
        self._reported.add(part)
        wanted = {
            "save.best_metric": (self._run.spec.save.best_metric, "the last weights will be kept"),
            "early_stopping.metric": (
                self._run.spec.early_stopping.metric,
                "nothing ends it early",
            ),
        }
        for field, (metric, then) in wanted.items():
            if metric is None or not metric.startswith(f"{part}_") or metric in values:
                continue
            said = f"{field} '{metric}' is not among what is reported: {', '.join(sorted(values))}"
            if part == "train" and step == 1:
                raise BadSpecError(said)
            self._run.warn(f"{said}; {then} unless it is reported later")

    def on_save(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Publish what the library has written; at a pause this is the end of the process."""
        run, step = self._run, state.global_step
        self._barrier()
        made = None
        if run.world.leads:
            made = publish(
                run,
                self.watch,
                self.evaluations.kept_steps(),
                run.work / f"checkpoint-{step}",
                step,
                self._decision.save or "periodic",
            )
            self._progress("checkpoint_saved", state)
        self.saving = None
        self._barrier()
        if self._decision.save == "pause":
            self.evaluations.abandon()
            self._run.leave_paused()
        self._evaluate(step, control, made)

    def _barrier(self) -> None:
        if self._run.world.size > 1:
            torch.distributed.barrier()

    def _progress(self, phase: str, state: Any, **values: float) -> None:
        if not self._run.world.leads:
            return
        last = max(1, state.max_steps)
        self._run.session.progress(
            phase=phase,
            backend=self._run.spec.backend or self._run.spec.engine,
            step=state.global_step,
            max_steps=state.max_steps,
            epoch=state.epoch or 0.0,
            num_epochs=state.num_train_epochs,
            percentage_done=round(100.0 * state.global_step / last, 2),
            **values,
        )

    def _log_progress(self, state: Any, values: Mapping[str, float]) -> None:
        """A line for the log, at most one per second."""
        now = time.monotonic()
        if now - self._logged_at < _LOG_SECONDS and state.global_step < state.max_steps:
            return
        self._logged_at = now
        shown = "  ".join(f"{name} {value:.6g}" for name, value in values.items() if name.endswith("loss"))
        sys.stdout.write(f"step {state.global_step}/{state.max_steps}  {shown}\n")
        sys.stdout.flush()


def clear_unfinished(work: Path) -> None:
    """Remove what an interrupted save has left in the library's folder."""
    for folder in work.glob("checkpoint-*"):
        shutil.rmtree(folder, ignore_errors=True)
