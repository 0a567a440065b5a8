"""A training that was paused, killed or damaged ends with the weights of one that was left alone, bit for
bit."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.nemo_engines.forge import (
    Forge,
    Training,
    assert_ended_early_alike,
    assert_rows_were_as_asked,
    early_spec,
    spec_of,
)

from nemo_trainer.contract import Checkpoint, list_checkpoints

pytestmark = pytest.mark.slow

REUSED = {
    "batch": {"per_device": 4, "gradient_accumulation": 2},
    "grpo": {"num_generations": 4, "max_new_tokens": 8, "num_iterations": 2},
}
CASES = [
    pytest.param("sft", "full", (10,), {"batch": {"per_device": 4}}, id="sft-full-at-the-end-of-an-epoch"),
    pytest.param(
        "sft",
        "lora",
        (7,),
        {"batch": {"per_device": 2, "gradient_accumulation": 2}, "data": "mixed", "max_seq_length": 64},
        id="sft-lora-mixed-rows",
    ),
    pytest.param("dpo", "full", (5,), {}, id="dpo-full"),
    pytest.param("dpo", "lora", (3, 4), {}, id="dpo-lora-paused-twice"),
    pytest.param("grpo", "full", (5,), {}, id="grpo-full-between-generations"),
    pytest.param("grpo", "lora", (5,), REUSED, id="grpo-lora-answers-used-twice"),
]


def uninterrupted(forge: Forge, folder: Path, spec: dict[str, object]) -> Training:
    training = Training(forge, folder / "uninterrupted", dict(spec))
    assert training.start() == 0, training.log
    return training


def assert_same(training: Training, other: Training) -> None:
    assert training.weights
    assert training.weights == other.weights
    assert list(training.history) == list(range(1, 13))
    assert training.history == other.history


@pytest.mark.parametrize(("method", "finetuning", "pauses", "changes"), CASES)
def test_a_paused_training_ends_like_one_that_was_left_alone(
    forge: Forge,
    tmp_path: Path,
    method: str,
    finetuning: str,
    pauses: tuple[int, ...],
    changes: dict[str, object],
) -> None:
    spec = spec_of(method, finetuning, tmp_path, **changes)
    spec["validation"] = spec["dataset"]
    baseline = uninterrupted(forge, tmp_path, spec)
    training = Training(forge, tmp_path / "paused", dict(spec))
    done = 0
    for pause in pauses:
        assert training.start(pause_after=pause) == 75, training.log
        # GRPO stops between two generations only, of two steps each here
        done += pause + (pause % 2 if method == "grpo" else 0)
        assert training.progress["phase"] == "paused"
        assert training.progress["final_step"] == done
        if method == "grpo":
            assert training.progress["stops_at"] == done
        [checkpoint] = [item for item in list_checkpoints(training.trainer_path) if item.step == done]
        assert isinstance(checkpoint, Checkpoint)
        assert checkpoint.manifest.reason == "pause"
        assert max(training.history) == done
    assert training.start() == 0, training.log
    assert_same(training, baseline)
    assert training.progress["phase"] == "completed"
    if "data" in changes:
        assert_rows_were_as_asked(training)


def test_dpo_goes_on_with_the_adapter_of_another_training_and_ends_alike_after_a_pause(
    forge: Forge, tmp_path: Path
) -> None:
    taught = uninterrupted(forge, tmp_path / "sft", spec_of("sft", "lora", tmp_path, lora={"rank": 3}))
    spec = spec_of("dpo", "lora", tmp_path) | {"adapter": str(taught.output)}
    baseline = uninterrupted(forge, tmp_path, spec)
    # the policy is its own reference at first, and the adapter of the supervised training is both
    assert baseline.history[1]["train_loss"] == pytest.approx(math.log(2), abs=0.01)
    assert abs(baseline.history[1]["train_reward_chosen"]) < 0.02
    assert baseline.weights != taught.weights
    config = json.loads((baseline.output / "adapter_config.json").read_text())
    assert (config["r"], (baseline.output / "ref").exists()) == (3, False)
    training = Training(forge, tmp_path / "paused", dict(spec))
    assert training.start(pause_after=5) == 75, training.log
    assert training.start() == 0, training.log
    assert_same(training, baseline)


def test_after_a_kill_in_a_save_and_with_the_newest_damaged_an_older_checkpoint_leads_to_the_same_end(
    forge: Forge, tmp_path: Path
) -> None:
    spec = spec_of("sft", "full", tmp_path, save={"steps": 2, "keep": 3})
    baseline = uninterrupted(forge, tmp_path, spec)
    training = Training(forge, tmp_path / "killed", dict(spec))
    # two torch files a save: the first of the fourth save is cut in half, and the process killed
    assert training.start(kill_in_save=_first_of_save(baseline, 4)) == -9
    assert [item.step for item in list_checkpoints(training.trainer_path)] == [2, 4, 6]
    damaged = training.trainer_path / "checkpoints" / "6" / "optimizer.pt"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert training.start(kill_after=1) == -9, training.log
    assert "optimizer.pt" in training.log
    assert training.start() == 0, training.log
    [passed_over] = training.progress["passed_over"]
    assert "checkpoints/6/optimizer.pt" in passed_over
    assert_same(training, baseline)


def _first_of_save(training: Training, save: int) -> int:
    folder = next(item.folder for item in list_checkpoints(training.trainer_path))
    written_by_torch = [path for path in folder.iterdir() if path.suffix in (".pt", ".pth", ".bin")]
    return len(written_by_torch) * (save - 1) + 1


def test_a_full_disk_in_a_save_is_said_and_leaves_the_older_checkpoints_for_the_same_end(
    forge: Forge, tmp_path: Path
) -> None:
    spec = spec_of("sft", "full", tmp_path, save={"steps": 4})
    baseline = uninterrupted(forge, tmp_path, spec)
    training = Training(forge, tmp_path / "full", dict(spec))
    assert training.start(kill_after=6) == -9
    # the weights fit, the optimizer does not
    assert training.start(file_limit=800_000) == 1
    assert "the checkpoint of step 8 was not saved" in training.log.splitlines()[-1]
    assert training.progress["phase"] == "failed"
    assert not list((training.trainer_path / "work").glob("checkpoint-*"))
    assert [item.step for item in list_checkpoints(training.trainer_path)] == [4]
    assert training.start() == 0, training.log
    assert_same(training, baseline)


def test_a_training_that_was_killed_before_its_model_was_written_only_writes_it(
    forge: Forge, tmp_path: Path
) -> None:
    spec = spec_of("dpo", "lora", tmp_path)
    baseline = uninterrupted(forge, tmp_path, spec)
    training = Training(forge, tmp_path / "again", dict(spec))
    assert training.start() == 0
    before = training.history
    training.output.rename(tmp_path / "lost")
    assert training.start(kill_after=1) == 0, "it looked at the control file, so it trained on"
    assert training.history == before
    assert_same(training, baseline)


def test_the_best_checkpoint_is_kept_and_becomes_the_model(forge: Forge, tmp_path: Path) -> None:
    spec = spec_of("sft", "lora", tmp_path)
    spec |= {
        "validation": spec["dataset"],
        "schedule": {"max_steps": 12, "eval_steps": 3, "lr_scheduler": "constant"},
        "save": {"best_metric": "val_loss", "best_is": "highest", "output": "best"},
    }
    training = uninterrupted(forge, tmp_path, spec)
    losses = {step: values["val_loss"] for step, values in training.history.items() if "val_loss" in values}
    assert list(losses) == [3, 6, 9, 12]
    best = max(losses, key=lambda step: losses[step])
    assert best == 3, "the loss falls here, so that the highest is the first"
    kept = [item.step for item in list_checkpoints(training.trainer_path)]
    assert kept == [3, 9, 12]
    chosen = training.trainer_path / "checkpoints" / "3" / "adapter_model.safetensors"
    assert (training.output / "adapter_model.safetensors").read_bytes() == chosen.read_bytes()


@pytest.mark.parametrize(("method", "metric"), [("dpo", "val_loss"), ("grpo", "val_reward")])
def test_an_early_end_comes_at_the_same_step_however_the_training_was_interrupted(
    forge: Forge, tmp_path: Path, method: str, metric: str
) -> None:
    assert_ended_early_alike(forge, tmp_path, early_spec(spec_of(method, "lora", tmp_path), metric))


def test_a_checkpoint_that_is_asked_for_is_made_once_and_training_goes_on(
    forge: Forge, tmp_path: Path
) -> None:
    training = Training(forge, tmp_path / "asked", spec_of("sft", "lora", tmp_path))
    assert training.start(ask_after=3) == 0, training.log
    found = [item for item in list_checkpoints(training.trainer_path) if isinstance(item, Checkpoint)]
    assert [(item.step, item.manifest.reason) for item in found] == [(3, "asked"), (12, "final")]


def test_however_often_it_is_killed_it_ends_the_same(forge: Forge, tmp_path: Path) -> None:
    spec = spec_of("dpo", "lora", tmp_path, save={"seconds": 0.001})
    baseline = uninterrupted(forge, tmp_path, spec)
    training = Training(forge, tmp_path / "killed", dict(spec))
    for kill in ({"kill_after": 4}, {"kill_in_save": 2}, {"kill_in_save": 5}, {"kill_after": 2}):
        assert training.start(**kill) == -9, training.log
    assert training.start() == 0, training.log
    assert_same(training, baseline)
