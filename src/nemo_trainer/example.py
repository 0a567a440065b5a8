"""A small real training that follows the contract: logistic regression with momentum, in pure Python.

``python -m nemo_trainer.example --dir FOLDER`` trains without any service. It is exact: however often it is
paused, killed and started again, the final weights are the same to the last bit. Options also come from the
step's configuration file, where a dash is an underscore; those of the command line win. Some options make it
fail on purpose, for tests and for trying out what then happens.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runs.errors import RunsError
from nemo_trainer.contract import CheckpointUnusableError, DivergedError, JobContext, TrainerError
from nemo_trainer.example_options import ExampleOptions, read_options
from nemo_trainer.fault_injection import FaultInjection
from nemo_trainer.saving import SavePolicy
from nemo_trainer.session import Session

_ROWS = 200
_FEATURES = 4
_BATCH = 8
_MOMENTUM = 0.9
_STATE = "state.json"


@dataclass(slots=True)
class Training:
    """All that the next step depends on."""

    weights: list[float]
    velocity: list[float]
    order: random.Random
    step: int = 0

    @classmethod
    def fresh(cls, seed: int) -> Training:
        """The beginning."""
        return cls([0.0] * (_FEATURES + 1), [0.0] * (_FEATURES + 1), random.Random(seed))

    @classmethod
    def load(cls, folder: Path) -> Training:
        """The state that `save` wrote; raises `CheckpointUnusableError`."""
        try:
            value: dict[str, Any] = json.loads((folder / _STATE).read_bytes())
            order = random.Random()
            version, words, gauss = value["order"]
            order.setstate((version, tuple(words), gauss))
            return cls(value["weights"], value["velocity"], order, value["step"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise CheckpointUnusableError(
                f"{folder / _STATE}: is not a state of this training: {error!r}"
            ) from error

    def save(self, folder: Path) -> None:
        """Write the state; numbers keep every bit."""
        value = {
            "step": self.step,
            "weights": self.weights,
            "velocity": self.velocity,
            "order": self.order.getstate(),
        }
        (folder / _STATE).write_text(json.dumps(value) + "\n", encoding="ascii")

    def advance(self, data: Sequence[tuple[list[float], int]], rate: float) -> float:
        """One step on a batch; returns its loss."""
        gradient, loss = [0.0] * len(self.weights), 0.0
        for features, label in self.order.sample(data, _BATCH):
            score = sum(w * x for w, x in zip(self.weights, features, strict=True))
            guess = 1 / (1 + math.exp(-max(-500.0, min(500.0, score))))
            loss -= math.log(max(guess if label else 1 - guess, 1e-300)) / _BATCH
            for index, feature in enumerate(features):
                gradient[index] += (guess - label) * feature / _BATCH
        for index, slope in enumerate(gradient):
            self.velocity[index] = _MOMENTUM * self.velocity[index] - rate * slope
            self.weights[index] += self.velocity[index]
        self.step += 1
        return loss


def make_data(seed: int) -> list[tuple[list[float], int]]:
    """Points with a constant 1 in front, and on which side of a plane they lie."""
    source = random.Random(f"data-{seed}")
    plane = [source.gauss(0, 1) for _ in range(_FEATURES + 1)]
    points = [[1.0, *(source.gauss(0, 1) for _ in range(_FEATURES))] for _ in range(_ROWS)]
    sides = [sum(a * b for a, b in zip(plane, point, strict=True)) > 0 for point in points]
    return [(point, int(side)) for point, side in zip(points, sides, strict=True)]


def main(argv: Sequence[str] | None = None) -> int:
    """Train; returns the exit code, or leaves with 75 when paused."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        options = read_options(arguments, os.environ)
        context = JobContext.from_environ(os.environ, folder=options.dir)
        inputs = {"data": hashlib.sha256(repr(make_data(options.seed)).encode()).hexdigest()}
        policy = SavePolicy(steps=options.save_every, boundary=options.boundary)
        engine = {"name": "example", "version": 1}
        with Session.open(
            context, inputs=inputs, engine=engine, boundary=options.boundary, policy=policy
        ) as session:
            return train(session, options)
    except (TrainerError, RunsError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, TrainerError) else 1


def train(session: Session, options: ExampleOptions) -> int:
    """From the newest checkpoint on to the last step, or to the one after which a pause is wanted."""
    checkpoint = session.restore()
    training = Training.load(checkpoint.folder) if checkpoint else Training.fresh(options.seed)
    said = f"continuing from step {training.step}" if checkpoint else "starting"
    print(f"{said}, {options.steps} steps in all", flush=True)
    data, faults = make_data(options.seed), FaultInjection(options, session.context)
    epoch_steps = _ROWS // _BATCH
    session.progress(
        backend="example", max_steps=options.steps, num_epochs=-(-options.steps // epoch_steps), epoch=0
    )
    while training.step < options.steps:
        faults.before(training.step + 1)
        loss = faults.corrupt(training.step + 1, training.advance(data, options.rate))
        time.sleep(options.step_seconds)
        if not math.isfinite(loss):
            raise DivergedError(f"the loss of step {training.step} is {loss}; try a smaller --rate")
        session.metrics(training.step, {"train_loss": loss}, epoch=training.step / epoch_steps)
        session.progress(step=training.step, epoch=training.step / epoch_steps, train_loss=loss)
        print(f"step {training.step} loss {loss:.6f}", flush=True)
        if after_step(session, training, options):
            return 0
    return done(session, training, options)


def after_step(session: Session, training: Training, options: ExampleOptions) -> bool:
    """Save and pause as it is due or wanted; true when training is to stop without a checkpoint."""
    want = "run" if options.ignore_pause else session.wanted()
    if want == "stop":
        print(f"stopping after step {training.step}", flush=True)
        return True
    pausing = want == "pause" and session.may_stop(training.step) and training.step < options.steps
    if pausing or want == "checkpoint" or session.save_due(training.step):
        reason = "pause" if pausing else "asked" if want == "checkpoint" else "periodic"
        save(session, training, options, reason)
    if pausing:
        print(f"paused after step {training.step}", flush=True)
        session.paused()
    return False


def save(session: Session, training: Training, options: ExampleOptions, reason: Any) -> None:
    """Publish a checkpoint, then remove the oldest."""

    def write(folder: Path) -> None:
        training.save(folder)
        if options.ballast:
            (folder / "ballast.bin").write_bytes(b"\0" * options.ballast)
        time.sleep(options.save_seconds)

    session.publish(write, training.step, reason)
    session.prune(keep=options.keep)


def done(session: Session, training: Training, options: ExampleOptions) -> int:
    """Publish the final state and the model."""
    if session.published is None or session.published.step < training.step:
        save(session, training, options, "final")
    model = session.context.trainer_path / "model"
    model.mkdir(exist_ok=True)
    weights = json.dumps({"weights": training.weights}) + "\n"
    (model / "weights.json").write_text(weights, encoding="ascii")
    session.outputs([model])
    session.finish()
    print(f"done after step {training.step}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
