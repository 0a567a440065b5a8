"""NeMo Automodel's own recipe: exact across pauses, after kills and damage, alone and with two processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.nemo_engines.evaluation_training import assert_ended_alike, early, started
from tests.nemo_engines.forge import (
    Forge,
    Training,
    assert_ended_early_alike,
    assert_rows_were_as_asked,
    assert_same,
    damage,
    early_spec,
    spec_of,
)

from nemo_trainer.contract import Checkpoint, Control, list_checkpoints, write_control

pytestmark = pytest.mark.slow

DEADLINE = 180.0


@pytest.fixture(scope="module")
def automodel() -> Iterator[Forge]:
    made = Forge("automodel")
    yield made
    made.close()


def spec_for(folder: Path, finetuning: str, **changes: Any) -> dict[str, Any]:
    return spec_of("sft", finetuning, folder, engine="automodel", **changes)


def uninterrupted(forge: Forge, folder: Path, spec: dict[str, Any]) -> Training:
    training = Training(forge, folder / "uninterrupted", dict(spec))
    assert training.start() == 0, training.log
    return training


@pytest.mark.parametrize(
    ("finetuning", "pauses", "changes"),
    [
        pytest.param("full", (10,), {}, id="full-at-the-end-of-an-epoch"),
        pytest.param("full", (7,), {"batch": {"per_device": 2, "gradient_accumulation": 2}}, id="full"),
        pytest.param(
            "lora", (3, 4), {"data": "mixed", "max_seq_length": 64}, id="lora-paused-twice-mixed-rows"
        ),
    ],
)
def test_a_paused_training_ends_like_one_that_was_left_alone(
    automodel: Forge, tmp_path: Path, finetuning: str, pauses: tuple[int, ...], changes: dict[str, Any]
) -> None:
    spec = spec_for(tmp_path, finetuning, **changes)
    spec["validation"] = spec["dataset"]
    baseline = uninterrupted(automodel, tmp_path, spec)
    training = Training(automodel, tmp_path / "paused", dict(spec))
    done = 0
    for pause in pauses:
        assert training.start(pause_after=pause) == 75, training.log
        done += pause
        assert training.progress["phase"] == "paused"
        assert training.progress["final_step"] == done
        [checkpoint] = [item for item in list_checkpoints(training.trainer_path) if item.step == done]
        assert isinstance(checkpoint, Checkpoint)
        assert checkpoint.manifest.reason == "pause"
    assert training.start() == 0, training.log
    assert_same(training, baseline)
    assert training.progress["phase"] == "completed"
    assert {"train_loss", "train_lr", "train_grad_norm", "val_loss"} <= set(training.history[12])
    if "data" in changes:
        assert_rows_were_as_asked(training)
    else:  # the rows make an epoch of 10 steps
        assert "val_loss" in training.history[10]


def test_after_a_kill_in_a_save_and_with_the_newest_damaged_an_older_checkpoint_leads_to_the_same_end(
    automodel: Forge, tmp_path: Path
) -> None:
    spec = spec_for(tmp_path, "full", save={"steps": 2, "keep": 3})
    baseline = uninterrupted(automodel, tmp_path, spec)
    training = Training(automodel, tmp_path / "killed", dict(spec))
    files = list((baseline.trainer_path / "checkpoints" / "12").rglob("*.pt"))
    # the first of its own files of the fourth save is cut in half, and the process killed
    assert training.start(kill_in_save=3 * len(files) + 1) == -9
    assert [item.step for item in list_checkpoints(training.trainer_path)] == [2, 4, 6]
    [weights] = (training.trainer_path / "checkpoints" / "6" / "model").glob("shard-*.safetensors")
    damage(weights)
    assert training.start() == 0, training.log
    [passed_over] = training.progress["passed_over"]
    assert f"checkpoints/6/model/{weights.name}" in passed_over
    assert_same(training, baseline)


def test_a_checkpoint_that_fits_no_more_ends_the_training_instead_of_starting_it_anew(
    automodel: Forge, tmp_path: Path
) -> None:
    training = Training(automodel, tmp_path / "changed", spec_for(tmp_path, "lora"))
    assert training.start(pause_after=2) == 75, training.log
    training.write_spec(lora={"rank": 8, "alpha": 8})
    assert training.start() == 4
    assert "lora.rank was 4 when it was saved and is 8 now" in training.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("modules", "adapted"),
    [
        ({"target_modules": ["q_proj"]}, {"q_proj"}),
        ({"target_modules": ["q_proj", "*.v_proj"]}, {"q_proj", "v_proj"}),
        (
            {"exclude_modules": ["q_proj"]},
            {"k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
        ),
        ({"target_modules": ["q_proj", "nope"]}, None),
        ({"exclude_modules": ["nope"]}, None),
    ],
)
def test_modules_are_named_as_with_other_engines(
    automodel: Forge, tmp_path: Path, modules: dict[str, Any], adapted: set[str] | None
) -> None:
    lora = {"rank": 4, "alpha": 8, **modules}
    spec = spec_for(tmp_path, "lora", schedule={"max_steps": 1}, lora=lora)
    training = Training(automodel, tmp_path / "named", spec)
    if adapted is None:
        assert training.start() == 2, training.log
        assert f"lora.{next(iter(modules))}: the model has no module 'nope'" in training.log
        return
    assert training.start() == 0, training.log
    config = json.loads((training.output / "adapter_config.json").read_text())
    assert {name.rpartition(".")[2] for name in config["target_modules"]} == adapted


def test_texts_and_pairs_are_learned_and_an_adapter_is_merged(automodel: Forge, tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n} + 1?", "completion": f" The sum is {n + 1}."} for n in range(12)]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"dataset": str(data), "output_method": "merged", "schedule": {"epochs": 1.5}}
    training = Training(automodel, tmp_path / "merged", spec_for(tmp_path, "lora", **changes))
    assert training.start() == 0, training.log
    # three steps an epoch, and half an epoch more
    assert list(training.history) == [1, 2, 3, 4, 5]
    assert not (training.output / "adapter_config.json").exists()
    program = "import sys, transformers as t; t.AutoModelForCausalLM.from_pretrained(sys.argv[1])"
    argv = [str(engines.engine_python("automodel")), "-c", program, str(training.output)]
    subprocess.run(argv, check=True, env=engines.engine_environ(), capture_output=True, timeout=DEADLINE)


def test_the_best_checkpoint_becomes_the_model_where_that_is_asked_for(
    automodel: Forge, tmp_path: Path
) -> None:
    spec = spec_for(
        tmp_path, "full", save={"best_metric": "val_loss", "best_is": "highest", "output": "best"}
    )
    spec |= {"validation": spec["dataset"], "schedule": {"max_steps": 6, "eval_steps": 2}}
    training = Training(automodel, tmp_path / "best", spec)
    assert training.start() == 0, training.log
    best = max((2, 4, 6), key=lambda step: training.history[step]["val_loss"])
    folder = training.trainer_path / "checkpoints" / str(best) / "model" / "consolidated"
    [weights] = folder.glob("*.safetensors")
    assert best != 6
    assert (training.output / weights.name).read_bytes() == weights.read_bytes()


def test_an_early_end_comes_at_the_same_step_however_the_training_was_interrupted(
    automodel: Forge, tmp_path: Path
) -> None:
    assert_ended_early_alike(automodel, tmp_path, early_spec(spec_for(tmp_path, "full"), "val_loss"))


def test_it_is_evaluated_and_ended_by_a_benchmark_as_with_other_engines(
    automodel: Forge, tmp_path: Path
) -> None:
    spec = {**early(tmp_path), "engine": "automodel", "finetuning": "full"}
    alone = started(automodel, tmp_path / "alone", spec)
    broken = Training(automodel, tmp_path / "broken", spec)
    assert broken.start(pause_after_batches=1) == 75, broken.log
    assert broken.start() == 0, broken.log
    assert_ended_alike(broken, alone, 6)


PACKING = "batch.packing is not supported by engine 'automodel': leave it out"
POLYNOMIAL = (
    "schedule.lr_scheduler 'polynomial' is not one that engine 'automodel' knows: constant, "
    "constant_with_warmup, cosine, cosine_with_min_lr, linear"
)
NO_ROWS = "save.best_metric 'val_loss' needs rows to validate with, and there are none"
NEVER_REPORTED = (
    "save.best_metric 'train_los' is never reported; reported are train_grad_norm, train_loss, train_lr, "
    "train_num_label_tokens, val_loss"
)
BF16 = (
    "precision 'bf16' is not supported by engine 'automodel' for full weights on a CPU, where it would "
    "also store them so: use 'fp32'"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": {"packing": True}}, PACKING),
        ({"schedule": {"lr_scheduler": "polynomial"}}, POLYNOMIAL),
        ({"precision": "bf16"}, BF16),
        ({"save": {"best_metric": "val_loss"}}, NO_ROWS),
        ({"save": {"best_metric": "train_los"}}, NEVER_REPORTED),
    ],
)
def test_what_the_recipe_cannot_do_is_refused(
    automodel: Forge, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    training = Training(automodel, tmp_path / "refused", spec_for(tmp_path, "full", **changes))
    assert training.start() == 2
    assert training.log.splitlines()[-1] == message


@pytest.mark.parametrize("finetuning", ["full", "lora"])
def test_what_the_end_saves_is_tried_before_the_first_step(
    automodel: Forge, tmp_path: Path, finetuning: str
) -> None:
    spec = spec_for(tmp_path, finetuning, schedule={"max_steps": 1})
    training = Training(automodel, tmp_path / "refused", spec)
    assert training.start(unsavable_tokenizer=1) == 2, training.log
    said = training.log.splitlines()[-1]
    assert "the tokenizer cannot be saved, so that the trained model would be lost at the end" in said
    assert training.history == {}


def test_a_disk_without_room_for_the_end_is_said_before_the_first_step(
    automodel: Forge, tmp_path: Path
) -> None:
    training = Training(automodel, tmp_path / "full", spec_for(tmp_path, "full", schedule={"max_steps": 1}))
    assert training.start(free_bytes=1 << 20) == 1, training.log
    assert "MB left, and a checkpoint and the trained model need" in training.log.splitlines()[-1]
    assert training.history == {}


def test_a_full_disk_in_a_save_is_said_and_leaves_the_older_checkpoints_for_the_same_end(
    automodel: Forge, tmp_path: Path
) -> None:
    spec = spec_for(tmp_path, "full", save={"steps": 4})
    baseline = uninterrupted(automodel, tmp_path, spec)
    training = Training(automodel, tmp_path / "full", dict(spec))
    assert training.start(kill_after=6) == -9
    # the weights fit, the optimizer does not
    assert training.start(file_limit=800_000) == 1, training.log
    assert "the checkpoint of step 8 was not saved" in training.log.splitlines()[-1]
    assert [item.step for item in list_checkpoints(training.trainer_path)] == [4]
    assert training.start() == 0, training.log
    assert_same(training, baseline)


def start(training: Training, want: str) -> int:
    """Real processes, which see a request from their first step on."""
    write_control(training.control, Control(time.time_ns(), want, "test", time.time()))  # type: ignore[arg-type]
    argv = [str(engines.engine_python("automodel")), "-m", "nemo_engines.run", *training.argv]
    environ = {**engines.engine_environ(), "NEMO_JOB_CONTROL_FILE": str(training.control)}
    with (training.folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(argv, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(DEADLINE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.e2e
def test_two_processes_stop_on_the_same_step_and_go_on_to_the_same_end(
    automodel: Forge, tmp_path: Path
) -> None:
    spec = spec_for(tmp_path, "full", devices={"count": 2}, batch={"per_device": 2})
    baseline = Training(automodel, tmp_path / "uninterrupted", dict(spec))
    assert start(baseline, "run") == 0, baseline.log
    training = Training(automodel, tmp_path / "paused", dict(spec))
    assert start(training, "pause") == 75, training.log
    assert training.progress["final_step"] == 1
    assert start(training, "run") == 0, training.log
    assert_same(training, baseline)
