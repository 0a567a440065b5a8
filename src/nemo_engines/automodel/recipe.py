"""The library's recipe under the trainer contract: it reports, saves and stops when the contract says so.

The recipe asks its step scheduler after every optimizer step whether to validate and to save. What the
contract has decided is put there before it asks; its own handling of signals is not used. Its steps count
from 0 and ours from 1: its checkpoint ``step_16`` is one of 17 finished steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from nemo_automodel.recipes.llm.train_ft import TrainFinetuneRecipeForNextTokenPrediction
from torch.distributed.checkpoint.api import CheckpointException
from torch.nn.parallel import DistributedDataParallel

from nemo_engines import steering
from nemo_engines.automodel.config import NEVER
from nemo_engines.errors import CheckpointUnusableError, DivergedError, TrainerError
from nemo_engines.evaluation.evaluations import Evaluated, Evaluations
from nemo_engines.hf import reporting
from nemo_engines.metric_watch import MetricWatch
from nemo_engines.running import TrainingRun
from nemo_engines.saving import not_saved, publish
from nemo_engines.speed import Speed, memory_fields
from nemo_engines.steering import LoopDecision
from nemo_trainer.contract import Checkpoint

_VALUES = ("loss", "grad_norm", "lr", "num_label_tokens")
REPORTED = ("val_loss", *(f"train_{name}" for name in _VALUES))
"""The names of all metrics."""
_COPIES = 4
"""A checkpoint holds the weights twice, once for other programs, and two moments of each."""


class ControlledRecipe(TrainFinetuneRecipeForNextTokenPrediction):  # type: ignore[misc]  # it has no types here
    """The recipe, with our reports, our saves and our end."""

    def __init__(self, config: Any, run: TrainingRun, watch: MetricWatch, evaluations: Evaluations) -> None:
        super().__init__(config)
        self._run = run
        self._watch = watch
        self._evaluations = evaluations
        self._planned = 0
        self._tokens = 0.0
        self._decision = LoopDecision()
        self._speed = Speed()

    def setup(self) -> None:
        """Build everything; then let the loader draw the seed of its workers from a generator of its own.

        It draws one whenever it starts over the rows, which a resumed run does once more often than one that
        was left alone: with the common generator every dropout after that would be another one.
        """
        super().setup()
        self._planned = int(self.step_scheduler.max_steps)
        self.dataloader.generator = torch.Generator().manual_seed(self._run.spec.seed)
        parts = [part for model in self.model_parts for part in model.parameters()]
        trained = sum(part.numel() * part.element_size() for part in parts if part.requires_grad)
        self._run.session.expect_checkpoint(_COPIES * trained)

    def load_checkpoint(self, restore_from: str | None = None) -> None:
        """Go on from the checkpoint that was verified, on every rank, or start from the first step; nothing
        is looked for.

        Left to itself the recipe takes what it finds, and starts from the first step with a warning when that
        does not fit.
        """
        del restore_from
        chosen = [None if self._run.checkpoint is None else str(self._run.checkpoint.folder)]
        if self._run.world.size > 1:
            torch.distributed.broadcast_object_list(chosen, src=0)
        if chosen[0] is None:
            return
        try:
            super().load_checkpoint(chosen[0])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, CheckpointException) as error:
            raise CheckpointUnusableError(
                f"{chosen[0]}: the library cannot load it: {_short(error)}"
            ) from error
        if self.step_scheduler.step != int(Path(chosen[0]).name):
            raise CheckpointUnusableError(
                f"{chosen[0]}: the library counts {self.step_scheduler.step} finished steps in it"
            )

    def _make_progress_bar(self, *_: Any, **__: Any) -> None:
        """None: the log is read later, and its lines say each step."""

    def _load_checkpoint_tracked_state(self, ckpt_dir: str) -> tuple[Any, Any, Any]:
        """Load into the bare model, as it was saved: only there the library sees that embeddings are tied."""
        model, optimizer, scheduler = super()._load_checkpoint_tracked_state(ckpt_dir)
        bare = [_bare(part) for part in (model if isinstance(model, list) else [model])]
        return bare if isinstance(model, list) else bare[0], optimizer, scheduler

    def bare_model(self) -> Any:
        """The model, or the part of it that this process has, without what spreads it over processes."""
        return _bare(self.model_parts[0])

    def log_train_metrics(self, log_data: Any) -> None:
        """Report a finished step, and decide what follows it, the same on every rank."""
        step = log_data.step + 1
        values = {name: float(log_data.metrics[name]) for name in _VALUES}
        problem = reporting.divergence(values, fp16=False)
        if problem is not None:
            raise DivergedError(f"training has diverged at step {step}: {problem}; try a lower learning rate")
        super().log_train_metrics(log_data)
        reported = {f"train_{name}": value for name, value in values.items()}
        if self._run.world.leads:
            self._run.session.metrics(step, reported, epoch=self._epochs(step))
        self._tokens += values["num_label_tokens"]
        self._speed.finished(self._tokens)
        speed: dict[str, float] = self._speed.fields(left=self._last() - step)
        self._progress("training", step, **reported, **speed, **memory_fields(torch, self._run.device))
        self._apply_control(step)
        self._speed.begins()

    def _apply_control(self, step: int) -> None:
        self._decision = decision = self._evaluation_before(step, self._agreed(step))
        if decision.stop and decision.save is None:
            raise TrainerError(f"training was stopped on request after step {step}; nothing was saved")
        if decision.save is None and self._evaluations.due(step, last=False):
            self._decision = decision = LoopDecision("periodic")
        validate = self._validates(step)
        if validate:
            self._progress("validation", step)
            if self._run.spec.save.best_metric is not None and decision.save is None:
                self._decision = decision = LoopDecision("periodic")
        # the scheduler finds a step to be one for saving when it is the last of so many, counted from 0
        self.step_scheduler.ckpt_every_steps = step if decision.save else NEVER
        self.step_scheduler.val_every_steps = step if validate else NEVER

    def _agreed(self, step: int) -> LoopDecision:
        run = self._run
        decision = LoopDecision()
        if run.world.leads:
            want, due = run.session.wanted(), run.session.save_due(step)
            decision = steering.decide(step=step, last=self._last(), boundary=1, want=want, due=due)
        if run.world.size == 1:
            return decision
        return steering.decode(*self._broadcast(steering.encode(decision)))

    def _broadcast(self, numbers: Sequence[int]) -> Sequence[int]:
        """The numbers that rank 0 has."""
        if self._run.world.size == 1:
            return numbers
        sent = torch.tensor([int(one) for one in numbers], device=self.dist_env.device)
        torch.distributed.broadcast(sent, src=0)
        return list(sent.tolist())

    def settle(self) -> bool:
        """Take up the evaluation that the last start left open; whether training is over with it."""
        return self._follow(self._evaluations.settle() if self._run.world.leads else Evaluated())

    def _evaluation_before(self, step: int, decision: LoopDecision) -> LoopDecision:
        """Take the score that was still open, before there is another one or the training ends."""
        leads = self._run.world.leads
        if leads:
            self._evaluations.look()
        if decision.save == "pause" or not self._evaluations.due(step, last=decision.save == "final"):
            return decision
        found = self._evaluations.finish() if leads else Evaluated()
        ends, leaves = self._broadcast(found)
        if leaves:  # this step is saved first; the score is taken when training goes on
            return decision if decision.save == "final" else LoopDecision("pause", stop=True)
        if ends and decision.save != "final":
            self._end_here()
            return self._decision
        return decision

    def _follow(self, found: Evaluated) -> bool:
        """Do on every rank what follows an evaluation; whether it ends the training."""
        ends, leaves = self._broadcast(found)
        if leaves:
            self._run.leave()
        return bool(ends)

    def _evaluate(self, step: int, checkpoint: Checkpoint | None) -> None:
        """Evaluate what was just published, where that is due."""
        last = self._decision.save == "final"
        if not self._evaluations.due(step, last=last):
            return
        found = Evaluated() if checkpoint is None else self._evaluations.begin(checkpoint, wait=last)
        if self._follow(found):
            self.step_scheduler.max_steps = self.step_scheduler.step + 1

    def _validates(self, step: int) -> bool:
        if self._run.validation_rows is None:
            return False
        every = self._run.spec.schedule.eval_steps or self.step_scheduler.epoch_len
        return bool(step >= self._last() or step % every == 0)

    def log_val_metrics(self, val_name: str, log_data: Any, metric_logger: Any = None) -> None:
        """Report a validation."""
        super().log_val_metrics(val_name, log_data, metric_logger)
        step, found = log_data.step + 1, {"val_loss": float(log_data.metrics["val_loss"])}
        if self._run.world.leads:
            self._run.session.metrics(step, found, epoch=self._epochs(step))
        ends = self._watch.observe(step, found, saved=self._decision.save is not None)
        if self._broadcast([ends])[0] and self._decision.save != "final":
            self._end_here()
        self._progress("training", step, **found, **self._watch.fields())

    def _end_here(self) -> None:
        """Let the recipe find that this step is its last; what it saves of it is the end of the training."""
        self._decision = LoopDecision("final", stop=True)
        self.step_scheduler.max_steps = self.step_scheduler.step + 1

    def save_checkpoint(self, epoch: int, step: int, *args: Any, **options: Any) -> None:
        """Let the recipe write its files, and publish them; at a pause this is the end of the process."""
        folder = Path(self.checkpointer.config.checkpoint_dir) / f"epoch_{epoch}_step_{step}"
        self._run.session.save_begins()
        try:
            super().save_checkpoint(epoch, step, *args, **options)
        except OSError as error:
            raise not_saved(folder, step + 1, error) from error
        except (RuntimeError, CheckpointException) as error:
            raise not_saved(folder, step + 1, RuntimeError(_short(error))) from error
        self._barrier()
        made = self._publish(folder, step + 1)
        self._barrier()
        if self._decision.save == "pause":
            self._evaluations.abandon()
            self._run.leave_paused()
        self._evaluate(step + 1, made)
        self._speed.begins()

    def _publish(self, folder: Path, step: int) -> Checkpoint | None:
        run = self._run
        if not run.world.leads:
            return None
        reason, kept = self._decision.save or "periodic", self._evaluations.kept_steps()
        made = publish(run, self._watch, kept, folder, step, reason)
        self._progress("checkpoint_saved", step)
        return made

    def _barrier(self) -> None:
        if self._run.world.size > 1:
            torch.distributed.barrier()

    def _last(self) -> int:
        return self._planned

    def _epochs(self, step: int) -> float:
        return float(step / self.step_scheduler.epoch_len)

    def _progress(self, phase: str, step: int, **values: Any) -> None:
        if not self._run.world.leads:
            return
        self._run.session.progress(
            phase=phase,
            backend=self._run.spec.backend or self._run.spec.engine,
            step=step,
            max_steps=self._last(),
            epoch=self._epochs(step),
            num_epochs=self.step_scheduler.num_epochs,
            percentage_done=round(100.0 * step / self._last(), 2),
            **values,
        )


def _bare(part: Any) -> Any:
    return part.module if isinstance(part, DistributedDataParallel) else part


def _short(error: BaseException) -> str:
    """The last line of an error; those of several processes hold whole tracebacks."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
