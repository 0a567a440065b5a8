"""The evaluations of a training: which step has one, the process that makes it, and what is made of it.

An evaluation that fails never ends the training. Its result is in the trainer path, by step and by the
digest of the weights, so that none is made twice, however often the training is paused, killed or rerun.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nemo_engines import spec as specs
from nemo_engines.evaluation import material
from nemo_engines.metric_watch import MetricWatch
from nemo_runs.durable.files import replace_file
from nemo_trainer.contract import Checkpoint, Manifest, list_checkpoints

if TYPE_CHECKING:
    from nemo_engines.running import TrainingRun

FOLDER: Final = "evaluations"
_POLL: Final = 0.1
_GRACE: Final = 2.0
"""Seconds in which a signal to the whole group reaches this process after the evaluating one."""
_ENDING: Final = 10.0
_SHOWN: Final = 6
"""Evaluations that the progress shows: the first one, and the newest."""
_LONGEST: Final = 400
"""Characters of an answer that the progress shows."""
_OF_THE_TRAINING: Final = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
_ASKED_TO_END: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP})


class Evaluated(NamedTuple):
    """What follows an evaluation."""

    ends: bool = False
    """Training is to end, since its metric no longer gets better."""
    leaves: bool = False
    """A pause or a stop is wanted before it is over."""


@dataclass(slots=True)
class _Running:
    """An evaluation that is not taken yet."""

    step: int
    folder: Path
    process: subprocess.Popen[bytes] | None
    """`None`: its result was there."""


class Evaluations:
    """Those of one training; without a plan nothing is ever due. Only rank 0 calls anything else."""

    def __init__(
        self, run: TrainingRun, watch: MetricWatch, weights_of: Callable[[Path], Path] = lambda folder: folder
    ) -> None:
        """``weights_of`` gives the part of a checkpoint that transformers or peft loads."""
        self._run = run
        self._watch = watch
        self._weights_of = weights_of
        self._plan = run.spec.evaluation
        self._boundary = specs.boundary(run.spec)
        self._running: _Running | None = None
        self._results: dict[int, Mapping[str, Any]] | None = None
        """By step; `None`: they were not read yet."""

    def due(self, step: int, *, last: bool) -> bool:
        """Whether a step is evaluated: the last one, and the first in every so many where it can be saved."""
        plan, boundary = self._plan, self._boundary
        if plan is None or last:
            return plan is not None
        return step % boundary == 0 and step // plan.every > (step - boundary) // plan.every

    def kept_steps(self) -> set[int]:
        """Steps whose checkpoints must stay: the best one, and the one that is being evaluated."""
        found = {self._watch.best_step, self._running.step if self._running else None}
        return {step for step in found if step is not None}

    def settle(self) -> Evaluated:
        """Take up what a checkpoint left open that training goes on from, before its next step."""
        if self._plan is None or self._run.checkpoint is None:
            return Evaluated(self._watch.stopped_at is not None)
        newest = self._run.checkpoint
        last = newest.manifest.reason == "final"
        step = next(
            (at for at in range(newest.step, 0, -1) if self.due(at, last=last and at == newest.step)), 0
        )
        if step <= self._watch.evaluated_step:
            self._report_progress()
            return Evaluated(self._watch.stopped_at is not None)
        found = {one.step: one for one in self._checkpoints()}
        if step not in found:
            self._run.warn(f"step {step} was not evaluated: its checkpoint is not there any more")
            self._watch.evaluated_step = step
            return Evaluated()
        return self.begin(found[step], wait=last)

    def begin(self, checkpoint: Checkpoint, *, wait: bool) -> Evaluated:
        """Evaluate a checkpoint: on the device of the training, or with ``wait``, this waits for it."""
        plan = self._plan
        assert plan is not None
        self._running = self._started(checkpoint)
        self._report_progress()
        return self.finish() if wait or plan.device == "same" else Evaluated()

    def look(self) -> None:
        """Show the result of an evaluation beside the training as soon as it is there."""
        running = self._running
        if running is None or running.process is None or running.process.poll() is None:
            return
        if material.read_result(running.folder) is not None:
            running.process = None
            self._show(running)

    def finish(self) -> Evaluated:
        """Wait for the evaluation that was begun, and take its score; nothing of it is lost at a pause."""
        running = self._running
        if running is None:
            return Evaluated(self._watch.stopped_at is not None)
        if running.process is not None and not self._waited(running.process):
            self.abandon()
            return Evaluated(leaves=True)
        if material.read_result(running.folder) is None:
            self._failed(running)
        self._running, self._watch.evaluated_step = None, running.step
        found = self._show(running)
        ends = self._watch.observe(running.step, found, saved=True)
        self._run.session.evaluated()
        self._run.session.progress(**self._watch.fields())
        return Evaluated(ends)

    def abandon(self) -> None:
        """End the process of an evaluation; its answers so far are kept for the next start."""
        running = self._running
        if running is not None and running.process is not None:
            running.process.kill()
            running.process.wait(_ENDING)

    def _waited(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the process; false when this one is to leave instead."""
        while process.poll() is None:
            if self._run.session.interrupted():
                return False
            self._run.session.progress(phase="evaluating")
            time.sleep(_POLL)
        if -process.returncode not in _ASKED_TO_END:
            return True
        until = time.monotonic() + _GRACE
        while time.monotonic() < until:
            if self._run.session.interrupted():
                return False
            time.sleep(_POLL)
        return True

    def _started(self, checkpoint: Checkpoint) -> _Running:
        folder = self._run.session.context.paths.folder / FOLDER / str(checkpoint.step)
        digest = _weights_digest(checkpoint.manifest)
        known = material.read_result(folder)
        if known is not None and known.get("weights_digest") == digest:
            return _Running(checkpoint.step, folder, None)
        before = _order(folder)
        if before.get("weights_digest") != digest:  # of other weights: the step was trained again
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        order = self._order(checkpoint, folder, digest)
        replace_file(folder / "order.json", json.dumps(order).encode(), mode=None)
        return _Running(checkpoint.step, folder, begin_process(folder))

    def _order(self, checkpoint: Checkpoint, folder: Path, digest: str) -> dict[str, Any]:
        run, plan = self._run, self._plan
        assert plan is not None
        context = run.session.context
        return {
            "step": checkpoint.step,
            "checkpoint": str(checkpoint.folder),
            "weights": str(self._weights_of(checkpoint.folder)),
            "weights_digest": digest,
            "model": run.spec.model,
            "adapter": run.spec.finetuning == "lora",
            "precision": run.precision,
            "trust_remote_code": run.spec.trust_remote_code,
            "device": run.device if plan.device == "same" else plan.device,
            "seed": run.spec.seed,
            "evaluation": asdict(plan),
            "into": str(folder),
            "own_answers": f"answers{context.paths.suffix}.jsonl",
        }

    def _failed(self, running: _Running) -> None:
        """Keep why an evaluation came to nothing."""
        assert running.process is not None
        status = running.process.returncode
        why = f"its process ended with status {status}"
        if status < 0:
            why = f"its process was ended by {signal.Signals(-status).name}"
        lines = [line for line in _text(running.folder / "log.txt").splitlines() if line.strip()]
        said = f"{why}: {lines[-1].strip()[:500]}" if lines else why
        order = _order(running.folder)
        document = {**{name: order.get(name) for name in ("step", "weights_digest", "device")}, "error": said}
        replace_file(running.folder / material.RESULT, json.dumps(document).encode(), mode=None)

    def _show(self, running: _Running) -> dict[str, float]:
        """Put a result into the metrics and the progress; the values that it has."""
        result, plan = material.read_result(running.folder) or {}, self._plan
        assert plan is not None
        values: dict[str, float] = {}
        if (name := plan.metric) is not None and isinstance(result.get("score"), int | float):
            values = {name: float(result["score"])}
            values |= {f"{name}_{end}": float(result[end]) for end in ("low", "high")}
            self._run.session.metrics(running.step, values)
        self._known_results()[running.step] = result
        if "error" in result:
            sys.stderr.write(f"the evaluation of step {running.step} failed: {result['error']}\n")
        self._report_progress()
        return values

    def _report_progress(self) -> None:
        """What the progress says of evaluations."""
        plan, running = self._plan, self._running
        assert plan is not None
        newest = max(running.step if running else 0, self._watch.evaluated_step)
        known = self._known_results()
        found = [known[step] for step in sorted(known) if step <= newest]
        chosen = found if len(found) <= _SHOWN else [found[0], *found[-(_SHOWN - 1) :]]
        fields: dict[str, Any] = {
            "benchmark": plan.name,
            "device": plan.device,
            "every": plan.every,
            "count": len(found),
            "failed": sum("error" in one for one in found),
            "seconds": round(sum(float(one.get("seconds") or 0.0) for one in found), 1),
            "running": running.step if running and running.process is not None else None,
            "shown": [_brief(one) for one in chosen],
            "prompts": _side_by_side(plan.prompts, chosen),
        }
        waits = fields["running"] is not None and plan.device == "same"
        self._run.session.progress(phase="evaluating" if waits else "training", evaluation=fields)

    def _known_results(self) -> dict[int, Mapping[str, Any]]:
        """What evaluations came to, of earlier starts too."""
        if self._results is None:
            folders = (self._run.session.context.paths.folder / FOLDER).glob("*")
            found = {int(one.name): material.read_result(one) for one in folders if one.name.isdecimal()}
            self._results = {step: result for step, result in found.items() if result is not None}
        return self._results

    def _checkpoints(self) -> Iterable[Checkpoint]:
        found = list_checkpoints(self._run.session.context.trainer_path)
        return [one for one in found if isinstance(one, Checkpoint)]


def begin_process(folder: Path) -> subprocess.Popen[bytes]:
    """Start the evaluation that the order in a folder asks for."""
    environ = {name: value for name, value in os.environ.items() if name not in _OF_THE_TRAINING}
    argv = [sys.executable, "-P", "-m", "nemo_engines.evaluation.asking", str(folder / "order.json")]
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environ)


def _weights_digest(manifest: Manifest) -> str:
    """Of the files of weights; a checkpoint that was saved again has the same."""
    whole = hashlib.sha256()
    for entry in sorted(manifest.files, key=lambda one: one.path):
        if entry.path.endswith(".safetensors"):
            whole.update(f"{entry.path}\0{entry.sha256}\0".encode())
    return whole.hexdigest()


def _brief(result: Mapping[str, Any]) -> dict[str, Any]:
    names = ("step", "score", "low", "high", "rows", "seconds", "error")
    return {name: result[name] for name in names if result.get(name) is not None}


def _side_by_side(prompts: Iterable[str], results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each prompt with its answers, by step."""
    found = []
    for number, prompt in enumerate(prompts):
        answers = [
            {"step": one["step"], "text": str(one["answers"][number])[:_LONGEST]}
            for one in results
            if isinstance(one.get("answers"), list) and len(one["answers"]) > number
        ]
        found.append({"prompt": prompt[:_LONGEST], "answers": answers})
    return found


def _order(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-4000:]
    except OSError:
        return ""
