"""Trainings for tests: their files, their spec, and starting them again and again in one folder."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import engines

from nemo_trainer.contract import history, list_checkpoints, read_progress

PROGRAM = Path(__file__).with_name("forge_program.py")
REWARDS = {
    "benchmark": {
        "prompt": {"user": "{question} Answer with the number only."},
        "verifier": {"type": "match", "mode": "regex", "pattern": "([a-z0-9])", "which": "first"},
    }
}


SPEED = {"step_seconds", "seconds_left", "tokens_per_second", "memory_bytes", "train_lr"}
"""What the progress of every training says of its speed."""


class Forge:
    """One process with the libraries loaded, whose children train."""

    def __init__(self, engine: str = "trl") -> None:
        self._process = subprocess.Popen(
            [str(engines.engine_python(engine)), str(PROGRAM), engine],
            env=engines.engine_environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._number = 0
        assert self._answer() == {"ready": True}

    def run(self, request: Mapping[str, Any]) -> int:
        """The exit status of one training; negative for the signal that ended it."""
        self._number += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"number": self._number, **request}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert answer["number"] == self._number
        return int(answer["status"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the forge has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass
class Training:
    """One training in a folder of its own, started as often as a test likes."""

    forge: Forge
    folder: Path
    spec: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write_spec()

    def write_spec(self, **changes: Any) -> None:
        """Put the spec there, with changes."""
        self.spec |= changes
        (self.folder / "spec.json").write_text(json.dumps({**self.spec, "output": str(self.output)}))

    @property
    def output(self) -> Path:
        """The trained model."""
        return self.folder / "training" / "model"

    @property
    def trainer_path(self) -> Path:
        """Where checkpoints, metrics and progress are."""
        return self.folder / "training"

    @property
    def control(self) -> Path:
        """The control file."""
        return self.folder / "control.json"

    @property
    def argv(self) -> list[str]:
        """Arguments of ``nemo_engines.run``."""
        return ["--spec", str(self.folder / "spec.json"), "--dir", str(self.trainer_path)]

    def start(self, **misfortune: int) -> int:
        """Train until it ends; the control file starts without a request."""
        self.control.unlink(missing_ok=True)
        environ = {"NEMO_JOB_CONTROL_FILE": str(self.control)}
        return self.forge.run(
            {"argv": self.argv, "environ": environ, "log": str(self.folder / "log.txt"), **misfortune}
        )

    @property
    def log(self) -> str:
        """All that the starts have written."""
        return (self.folder / "log.txt").read_text()

    @property
    def weights(self) -> dict[str, str]:
        """sha256 of each file of weights of the trained model."""
        files = sorted(self.output.glob("*.safetensors"))
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    @property
    def history(self) -> dict[int, dict[str, float]]:
        """Each step's values."""
        return {row.step: dict(row.values) for row in history(self.trainer_path / "metrics.jsonl")}

    @property
    def progress(self) -> dict[str, Any]:
        """What the trainer said last."""
        return read_progress(self.trainer_path / "progress.json")


def spec_of(method: str, finetuning: str, folder: Path, /, **changes: Any) -> dict[str, Any]:
    """A spec of 12 steps on the tiny model; ``data="mixed"``: with all that rows can be asked for."""
    if changes.get("data") == "mixed":
        changes["data"] = mixed(folder)
    base = {
        "engine": "trl",
        "method": method,
        "model": str(engines.tiny_model()),
        "dataset": str(write_data(method, folder / f"{method}.jsonl")),
        "finetuning": finetuning,
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.05},
        "schedule": {"max_steps": 12, "warmup_steps": 2, "lr_scheduler": "cosine"},
        "batch": {"per_device": 4},
        "optimizer": {"learning_rate": 1e-3},
        "max_seq_length": 96,
        "grpo": {"num_generations": 4, "max_new_tokens": 8, "steps_per_generation": 2, "kl_penalty": 0.01},
        "rewards": REWARDS if method == "grpo" else None,
    }
    return {**base, **changes}


TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} says\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant says\n{% endif %}"
)


def mixed(folder: Path) -> dict[str, Any]:
    """Half of the rows beside others of another shape, a template of one's own, and long rows left out."""
    texts = [{"prompt": f"Say {number}: ", "completion": f"{number}" * number} for number in range(1, 50)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    return {
        "weight": 0.5,
        "beside": [{"dataset": str(folder / "texts.jsonl"), "weight": 1.5}],
        "learned_turns": "last",
        "overlong": "drop",
        "chat_template": TEMPLATE,
    }


def write_data(method: str, path: Path) -> Path:
    """40 rows, the same every time."""
    source = random.Random(0)
    rows = [_row(method, source.randrange(20), source.randrange(20)) for _ in range(40)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _row(method: str, left: int, right: int) -> dict[str, Any]:
    question = f"What is {left} + {right}?"
    if method == "grpo":
        return {"question": question, "expected_answer": ["s", "e", "t", "1", "2"]}
    asked = [{"role": "user", "content": question}]
    answered = [{"role": "assistant", "content": f"The sum is {left + right}."}]
    if method == "sft":
        return {"messages": asked + answered}
    wrong = [{"role": "assistant", "content": f"The sum is {left * right + 1}, maybe."}]
    return {"prompt": asked, "chosen": answered, "rejected": wrong}


def assert_rows_were_as_asked(training: Training) -> None:
    """The trained model has the template, and the job says which rows were left out."""
    assert (training.output / "chat_template.jinja").read_text() == TEMPLATE
    (said,) = [one for one in training.progress["warnings"] if "training rows are left out" in one]
    assert "texts.jsonl:" in said


def assert_same(training: Training, other: Training, steps: int = 12) -> None:
    """Equal weights, and each step once, with equal values."""
    assert training.weights
    assert training.weights == other.weights
    assert list(training.history) == list(range(1, steps + 1))
    assert training.history == other.history


def early_spec(spec: dict[str, Any], metric: str) -> dict[str, Any]:
    """A spec that ends at step 6 of 12: no evaluation after the first one, at step 2, is good enough."""
    rows = Path(spec["dataset"])
    few = rows.with_name(f"few-{rows.name}")
    few.write_text("".join(rows.read_text().splitlines(keepends=True)[:4]))
    return {
        **spec,
        "validation": str(few),
        "schedule": {**spec["schedule"], "eval_steps": 2},
        "early_stopping": {"metric": metric, "best_is": "lowest", "patience": 2, "min_change": 1e3},
        "save": {"best_metric": metric, "best_is": "lowest", "output": "best"},
    }


def assert_ended_early_alike(forge: Forge, folder: Path, spec: dict[str, Any]) -> None:
    """Left alone, or paused and killed before its end: the same last step, best checkpoint and weights."""
    alone = Training(forge, folder / "alone", dict(spec))
    assert alone.start() == 0, alone.log
    broken = Training(forge, folder / "broken", dict(spec))
    assert broken.start(pause_after=3) == 75, broken.log
    # a training that forgets what it has waited for would go on; a pause at its last step comes too late
    assert broken.start(pause_after=6 - broken.progress["final_step"]) == 0, broken.log
    for training in (alone, broken):
        assert list(training.history) == [1, 2, 3, 4, 5, 6], training.log
        assert training.progress["phase"] == "completed"
        assert training.progress["early_stopping"]["stopped_at"] == 6
        assert training.progress["early_stopping"]["best_step"] == 2
    assert set(alone.progress) >= SPEED
    assert alone.history == broken.history
    assert alone.progress["best_checkpoint"] == broken.progress["best_checkpoint"]
    assert alone.weights
    assert alone.weights == broken.weights
    kept = {item.step for item in list_checkpoints(broken.trainer_path)}
    assert broken.progress["best_checkpoint"]["step"] in kept
    # started once more it trains no further: that end is not forgotten
    assert broken.start() == 0, broken.log
    assert broken.history == alone.history


def damage(file: Path) -> None:
    """Turn one bit in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
