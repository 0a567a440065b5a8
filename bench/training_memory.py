"""The memory that a dry run says a training takes, beside what one takes, for six trainings on a CPU.

    python bench/training_memory.py

Each is a real training of two steps by TRL, of a Qwen3 model with random weights. What it takes is the peak
of its process's memory (``VmHWM``) above what that has when its libraries are loaded and the model is not.
Limit: the estimate is within 20 % of it. Ends with 1 when one is not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests import engines

LIMIT = 0.2
MODELS = Path(__file__).with_name("helix") / "sized_model.py"
MEASURED = Path(__file__).with_name("helix") / "measured_training.py"


class Case(NamedTuple):
    """One training."""

    model: tuple[int, int, int]
    """Hidden size, layers, words of the vocabulary."""
    method: str
    finetuning: str
    per_device: int
    tokens: int


CASES = (
    Case((768, 12, 8000), "sft", "full", 1, 64),
    Case((768, 12, 8000), "sft", "full", 2, 512),
    Case((768, 12, 8000), "sft", "lora", 2, 512),
    Case((512, 8, 32000), "sft", "full", 4, 256),
    Case((512, 8, 32000), "dpo", "full", 1, 256),
    Case((512, 8, 32000), "dpo", "lora", 2, 256),
)


def run(*argv: str) -> Any:
    """The last line that a program of the engine prints, as JSON."""
    done = subprocess.run(
        [str(engines.engine_python("trl")), "-P", *argv],
        env=engines.engine_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def spec_of(case: Case, folder: Path) -> Path:
    """The spec of a training, its rows and its model, in a folder."""
    run(str(MODELS), str(folder / "model"), *map(str, case.model))
    text = "qz" * (2 * case.tokens)
    row = (
        {"text": text}
        if case.method == "sft"
        else {"prompt": "q", "chosen": f"{text}1", "rejected": f"{text}2"}
    )
    (folder / "train.jsonl").write_text((json.dumps(row) + "\n") * (2 * case.per_device))
    spec = {
        "engine": "trl",
        "method": case.method,
        "model": str(folder / "model"),
        "dataset": str(folder / "train.jsonl"),
        "output": str(folder / "output"),
        "finetuning": case.finetuning,
        "max_seq_length": case.tokens,
        "schedule": {"max_steps": 2},
        "batch": {"per_device": case.per_device},
        "devices": {"kind": "cpu"},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder / "spec.json"


def main() -> int:
    """Measure every case."""
    failed = False
    print(f"{'training':44} {'estimated':>10} {'measured':>10} {'ratio':>6}")
    for case in CASES:
        with tempfile.TemporaryDirectory() as made:
            spec = spec_of(case, Path(made))
            estimated = run("-m", "nemo_engines.dry_run", "--spec", str(spec))["memory"]["total"]
            measured = run(str(MEASURED), "--spec", str(spec), "--dir", made)["growth"]
        ratio = estimated / measured
        above = abs(ratio - 1) > LIMIT
        failed = failed or above
        hidden, layers, words = case.model
        name = f"{case.method} {case.finetuning} {case.per_device} x {case.tokens}, {hidden}/{layers}/{words}"
        said = "  ABOVE" if above else ""
        print(f"{name:44} {estimated / 1e6:8.0f} MB {measured / 1e6:7.0f} MB {ratio:6.2f}{said}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
