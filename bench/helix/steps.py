"""Runs in the interpreter of an engine: what a step costs with the contract and without, and how long the
library alone takes to its first step.

    python steps.py cost SPEC FOLDER REPORT     trains; a coin decides for each step who has it
    python steps.py alone SPEC REPORT [CHECKPOINT]     the library alone, until a step is done
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

WARM_UP = 20
"""Steps that are not counted."""


def cost(spec: str, folder: str, report: str) -> None:
    """Train as a job does, but leave the contract out of every other step."""
    from nemo_engines import run  # noqa: PLC0415
    from nemo_engines.hf import callback, driver  # noqa: PLC0415

    class InTurns(callback.ContractCallback):
        """The contract's callback, which is asked at some steps only."""

        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self._coin = random.Random(0)
            self._asked, self._saved = True, False
            self._since = self._logged_at = self._ours = self._cpu = 0.0
            self._found: dict[str, list[float]] = {"with": [], "without": [], "inside": [], "cpu": []}
            self._found |= {"library_save": [], "publish": []}

        def on_step_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            now = time.perf_counter()
            if self._since and not self._saved and state.global_step > WARM_UP:
                self._found["with" if self._asked else "without"].append(1000 * (now - self._since))
                if self._asked:
                    self._found["inside"].append(1000 * self._ours)
                    self._found["cpu"].append(1000 * self._cpu)
            self._asked, self._saved, self._ours, self._cpu = self._coin.random() < 0.5, False, 0.0, 0.0
            self._asked |= state.global_step + 1 >= state.max_steps
            self._since = time.perf_counter()

        def on_step_end(self, *given: Any, **options: Any) -> None:
            self._timed(super().on_step_end, *given, **options)

        def on_log(self, *given: Any, **options: Any) -> None:
            self._timed(super().on_log, *given, **options)
            self._logged_at = time.perf_counter()

        def on_save(self, *given: Any, **options: Any) -> None:
            began = time.perf_counter()
            super().on_save(*given, **options)
            self._saved = True
            self._found["library_save"].append(1000 * (began - self._logged_at))
            self._found["publish"].append(1000 * (time.perf_counter() - began))
            Path(report).write_text(json.dumps(self._found), encoding="utf-8")

        def _timed(self, action: Any, *given: Any, **options: Any) -> None:
            if self._asked:
                began, cpu = time.perf_counter(), time.thread_time()
                action(*given, **options)
                self._ours += time.perf_counter() - began
                self._cpu += time.thread_time() - cpu

    driver.ContractCallback = InTurns
    run.main(["--spec", spec, "--dir", folder])


def alone(spec: str, report: str, checkpoint: str | None = None) -> None:
    """What a plain program with the library does for the same spec, up to the end of one step."""
    given = json.loads(Path(spec).read_text(encoding="utf-8"))
    from datasets import Dataset  # noqa: PLC0415
    from transformers import TrainerCallback  # noqa: PLC0415
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415

    class Stop(TrainerCallback):  # type: ignore[misc]  # the library has no types here
        def on_step_end(self, *_given: Any, **_: Any) -> None:
            Path(report).write_text(json.dumps(time.time()), encoding="utf-8")
            os._exit(0)

    rows = [json.loads(line) for line in Path(given["dataset"]).read_text(encoding="utf-8").splitlines()]
    arguments = SFTConfig(
        output_dir=str(Path(report).parent / "alone"),
        max_steps=given["schedule"]["max_steps"],
        per_device_train_batch_size=given["batch"]["per_device"],
        max_length=given["max_seq_length"],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        model=given["model"], args=arguments, train_dataset=Dataset.from_list(rows), callbacks=[Stop()]
    )
    trainer.train(resume_from_checkpoint=checkpoint)


if __name__ == "__main__":
    {"cost": cost, "alone": alone}[sys.argv[1]](*sys.argv[2:])
