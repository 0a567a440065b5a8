"""Unsloth in its own environment: exact across pauses, and after a kill with the newest one damaged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.nemo_engines.forge import (
    Forge,
    Training,
    assert_ended_early_alike,
    assert_same,
    damage,
    early_spec,
    spec_of,
)

from nemo_trainer.contract import list_checkpoints

pytestmark = pytest.mark.slow
TIED = Path(__file__).with_name("tied_program.py")


@pytest.fixture(scope="module")
def unsloth() -> Iterator[Forge]:
    made = Forge("unsloth")
    yield made
    made.close()


def spec_for(folder: Path, finetuning: str, **changes: Any) -> dict[str, Any]:
    return spec_of("sft", finetuning, folder, engine="unsloth", **changes)


@pytest.mark.parametrize(("finetuning", "pauses"), [("full", (10,)), ("lora", (3, 4))])
def test_a_paused_training_ends_like_one_that_was_left_alone(
    unsloth: Forge, tmp_path: Path, finetuning: str, pauses: tuple[int, ...]
) -> None:
    spec = spec_for(tmp_path, finetuning)
    spec["validation"] = spec["dataset"]
    baseline = Training(unsloth, tmp_path / "uninterrupted", dict(spec))
    assert baseline.start() == 0, baseline.log
    training = Training(unsloth, tmp_path / "paused", dict(spec))
    done = 0
    for pause in pauses:
        assert training.start(pause_after=pause) == 75, training.log
        done += pause
        assert training.progress["final_step"] == done
    assert training.start() == 0, training.log
    assert_same(training, baseline)
    assert "Unsloth" in training.log
    adapter = training.output / "adapter_config.json"
    assert adapter.exists() == (finetuning == "lora")


def test_an_early_end_comes_at_the_same_step_however_the_training_was_interrupted(
    unsloth: Forge, tmp_path: Path
) -> None:
    assert_ended_early_alike(unsloth, tmp_path, early_spec(spec_for(tmp_path, "lora"), "val_loss"))


def test_after_a_kill_and_with_the_newest_damaged_an_older_checkpoint_leads_to_the_same_end(
    unsloth: Forge, tmp_path: Path
) -> None:
    spec = spec_for(tmp_path, "lora", save={"steps": 2, "keep": 3})
    baseline = Training(unsloth, tmp_path / "uninterrupted", dict(spec))
    assert baseline.start() == 0, baseline.log
    training = Training(unsloth, tmp_path / "killed", dict(spec))
    assert training.start(kill_after=7) == -9
    assert [item.step for item in list_checkpoints(training.trainer_path)] == [2, 4, 6]
    damage(training.trainer_path / "checkpoints" / "6" / "adapter_model.safetensors")
    assert training.start() == 0, training.log
    [passed_over] = training.progress["passed_over"]
    assert "checkpoints/6/adapter_model.safetensors" in passed_over
    assert_same(training, baseline)


def test_a_merged_model_is_whole(unsloth: Forge, tmp_path: Path) -> None:
    spec = spec_for(tmp_path, "lora", output_method="merged", schedule={"max_steps": 2})
    training = Training(unsloth, tmp_path / "merged", spec)
    assert training.start() == 0, training.log
    assert not (training.output / "adapter_config.json").exists()
    assert json.loads((training.output / "config.json").read_text())["model_type"] == "qwen3"
    assert (training.output / "tokenizer.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"batch": {"packing": True}},
            "batch.packing is not supported by engine 'unsloth' on a CPU: leave it out",
        ),
        ({"extra": {"x": 1}}, "extra.x is not an option of engine 'unsloth'"),
    ],
)
def test_what_unsloth_would_leave_out_is_refused(
    unsloth: Forge, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    training = Training(unsloth, tmp_path / "refused", spec_for(tmp_path, "lora", **changes))
    assert training.start() == 2
    assert training.log.splitlines()[-1] == message


def test_a_trained_lm_head_of_a_tied_model_is_in_the_merged_and_in_the_exported_model(
    unsloth: Forge, tmp_path: Path
) -> None:
    lora = {"rank": 4, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head"]}
    schedule, optimizer = {"max_steps": 6}, {"learning_rate": 0.02}
    spec = spec_for(tmp_path, "lora", lora=lora, schedule=schedule, optimizer=optimizer)
    outputs = []
    for method in ("default", "merged"):
        training = Training(unsloth, tmp_path / method, {**spec, "output_method": method})
        assert training.start() == 0, training.log
        outputs.append(str(training.output))
    argv = [
        str(engines.engine_python("unsloth")),
        str(TIED),
        spec["model"],
        *outputs,
        str(tmp_path / "model.gguf"),
    ]
    done = subprocess.run(
        argv, env=engines.engine_environ(), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["moved"] > 1
    assert found["merged"] < found["moved"] / 20
    assert found["tied"] is False
    assert found["exported"] == 0
