"""Ends of a training: each with its exit code and one sentence, and nothing loaded for what is refused
anyway."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.nemo_engines.forge import Forge, Training, spec_of, write_data

from nemo_engines import saving
from nemo_engines.errors import TrainerError
from nemo_runs.processes import trees
from nemo_trainer.contract import generations, read_progress

pytestmark = pytest.mark.services

DEADLINE = 180.0


def run_without_libraries(folder: Path, spec: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """A run in this interpreter, which has no training library at all."""
    (folder / "spec.json").write_text(json.dumps(spec))
    argv = [
        sys.executable,
        "-m",
        "nemo_engines.run",
        "--spec",
        str(folder / "spec.json"),
        "--dir",
        str(folder),
    ]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def model(folder: Path) -> str:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    return str(folder / "model")


def test_a_bad_row_ends_the_run_before_any_library_is_loaded(tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text('{"text": "x"}\n{"test": "y"}\n')
    spec = {"engine": "trl", "method": "sft", "model": model(tmp_path), "dataset": str(data), "output": "o"}
    done = run_without_libraries(tmp_path, spec)
    assert done.returncode == 2
    assert done.stderr == f"{data}, line 2: lacks 'text'\n"
    assert read_progress(tmp_path / "progress.json")["message"] == f"{data}, line 2: lacks 'text'"


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"engine": "torch"}, 2, "engine must be one of trl, unsloth, automodel, not 'torch'"),
        (
            {"engine": "unsloth", "method": "dpo"},
            2,
            "method 'dpo' is not one that engine 'unsloth' knows: sft",
        ),
        ({"precision": "fp16"}, 2, "precision 'fp16' needs a GPU; on a CPU 'fp32' and 'bf16' can be used"),
        ({"load_in_4bit": True}, 2, "load_in_4bit is not supported by engine 'trl': leave it out"),
        (
            {"optimizer": {"name": "adamw_8bit"}},
            2,
            "optimizer.name 'adamw_8bit' is not supported by engine 'trl': leave it out",
        ),
        (
            {"engine": "unsloth", "load_in_4bit": True},
            2,
            "load_in_4bit and load_in_8bit need a GPU",
        ),
        ({"devices": {"kind": "cuda"}}, 3, "devices.kind is 'cuda', but no NVIDIA GPU can be seen here"),
        ({}, 3, "engine 'trl' cannot be loaded: No module named 'torch'; try `nemo engines install trl`"),
    ],
)
def test_what_cannot_be_done_here_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], status: int, message: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    data = tmp_path / "train.jsonl"
    data.write_text('{"text": "x"}\n')
    spec = {"engine": "trl", "method": "sft", "model": model(tmp_path), "dataset": str(data)}
    done = run_without_libraries(tmp_path, {**spec, "output": str(tmp_path / "o"), **changes})
    assert done.returncode == status
    assert done.stderr == f"{message}\n"


def test_a_start_that_was_replaced_says_so_and_leaves_the_progress_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text('{"text": "x"}\n')
    spec = {"engine": "trl", "method": "sft", "model": model(tmp_path), "dataset": str(data), "output": "o"}
    for task in ("task-1", "task-2"):
        generations.claim(tmp_path, task=task)
    (tmp_path / "progress.json").write_text('{"task": "task-2"}')
    monkeypatch.setenv("NEMO_JOB_TASK", "task-1")
    monkeypatch.setenv("NEMO_JOB_GENERATION", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run_without_libraries(tmp_path, spec)
    assert done.returncode == 1
    assert done.stderr == (
        f"{tmp_path}: a later start has taken over this training; this one, generation 1, ends and writes "
        "nothing\n"
    )
    assert (tmp_path / "progress.json").read_text() == '{"task": "task-2"}'


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize("row", ['{"text": "x"}', "{}"])
def test_a_failure_before_and_in_the_session_is_said_in_the_progress_that_readers_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, *, claimed: bool
) -> None:
    """Without text in the row it fails before there is a session; with it for want of the library, in one."""
    other = dataclasses.replace(trees.identify(), host="node7.example", boot_id="another", pid=1234)
    (tmp_path / "writer.json").write_text(json.dumps(other.to_json()))
    assert generations.claim(tmp_path, task="task-1", process=other).own_names
    released = {} if claimed else {"released_at": 1.0}
    (tmp_path / "writer.json").write_text(json.dumps({**other.to_json(), "generation": 1, **released}))
    (tmp_path / "progress.g1.json").write_text('{"task": "task-1", "phase": "training", "step": 5}')
    if claimed:
        generations.claim(tmp_path, task="task-2", by="launcher")
    data = tmp_path / "train.jsonl"
    data.write_text(f"{row}\n")
    spec = {"engine": "trl", "method": "sft", "model": model(tmp_path), "dataset": str(data), "output": "o"}
    monkeypatch.setenv("NEMO_JOB_TASK", "task-2")
    monkeypatch.setenv("NEMO_JOB_GENERATION", "2" if claimed else "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run_without_libraries(tmp_path, spec)
    said = read_progress(tmp_path / "progress.json")
    assert (said["phase"], said["task"]) == ("failed", "task-2")
    assert f"{said['message']}\n" == done.stderr


def test_a_failure_is_not_written_into_the_progress_of_a_process_that_lives(tmp_path: Path) -> None:
    me = trees.identify()
    (tmp_path / "writer.json").write_text(json.dumps(me.to_json()))
    (tmp_path / "progress.json").write_text('{"phase": "training"}')
    done = run_without_libraries(tmp_path, {})
    assert done.returncode == 2
    assert read_progress(tmp_path / "progress.json") == {"phase": "training"}


def test_a_signal_to_a_training_that_is_still_loading_does_not_end_it(tmp_path: Path) -> None:
    fifo = tmp_path / "waits"
    os.mkfifo(fifo)
    (tmp_path / "argparse.py").write_text(f"open({str(fifo)!r}).read()\nraise SystemExit(9)\n")
    argv = [sys.executable, "-m", "nemo_engines.run"]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        with fifo.open("w"):  # it is loading its second module by now
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
                process.send_signal(number)
        assert process.wait(DEADLINE) == 9


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_the_training_with_its_step(forge: Forge, tmp_path: Path) -> None:
    spec = spec_of("sft", "full", tmp_path, optimizer={"learning_rate": 1e30, "max_grad_norm": 1e30})
    training = Training(forge, tmp_path / "diverging", spec)
    assert training.start() == 5, training.log
    last = training.log.splitlines()[-1]
    assert last.startswith("training has diverged at step ")
    assert training.progress["phase"] == "failed"
    assert last in training.progress["message"]
    assert not training.output.exists()


def short_of_weights(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1000)


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("token*"):
        file.unlink()


def with_a_broken_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ foo( }}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (short_of_weights, "the library refuses this run: SafetensorError: "),
        (without_tokenizer, "has no files of a tokenizer"),
        (with_a_broken_template, "the model's chat template cannot be used: TemplateSyntaxError: "),
    ],
)
def test_a_model_that_is_none_is_a_sentence(
    forge: Forge, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(engines.tiny_model(), model)
    damage(model)
    refused(forge, tmp_path, {"model": str(model)}, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"lora": {"target_modules": ["q_proj", "nope"]}},
            "lora.target_modules: the model has no module 'nope'",
        ),
        (
            {"lora": {"modules_to_save": ["nope"]}},
            "lora.modules_to_save: the model has no module 'nope'",
        ),
        (
            {
                "schedule": {
                    "max_steps": 2,
                    "lr_scheduler": "polynomial",
                    "lr_scheduler_options": {"lr_end": 9},
                }
            },
            "the library refuses this run: lr_end (9) must be smaller than initial lr",
        ),
    ],
)
def test_what_only_the_library_can_tell_is_a_sentence(
    forge: Forge, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    refused(forge, tmp_path, changes, said)


def unsavable(folder: Path) -> None:
    values = {"do_sample": False, "temperature": 0.6, "top_p": 0.9, "eos_token_id": 2}
    (folder / "generation_config.json").write_text(json.dumps(values))


TEMPLATE = "training rows: the model's chat template"


def quantized(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sft", "dpo"])
@pytest.mark.parametrize("changes", [{"finetuning": "full"}, {"output_method": "merged"}])
def test_a_model_that_could_not_be_saved_is_refused_before_training(
    forge: Forge, tmp_path: Path, method: str, changes: dict[str, Any]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(engines.tiny_model(), model)
    unsavable(model)
    data = str(write_data(method, tmp_path / f"{method}.jsonl"))
    changes = {"model": str(model), "method": method, "dataset": data, **changes}
    said = "model: generation_config.json cannot be saved, so that the trained model would be lost at the end"
    refused(
        forge, tmp_path, changes, f"{said}: the library refuses its temperature, top_p; correct that file"
    )
    assert not list((tmp_path / "refused" / "training" / "checkpoints").iterdir())
    quantized(model)
    refused(
        forge,
        tmp_path,
        changes,
        "config.json: the model is quantized (quantization_config): it can be neither",
    )


@pytest.mark.slow
def test_an_adapter_of_such_a_model_is_trained_and_saved(forge: Forge, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(engines.tiny_model(), model)
    unsavable(model)
    spec = spec_of("sft", "lora", tmp_path, model=str(model), schedule={"max_steps": 1})
    training = Training(forge, tmp_path / "adapter", spec)
    assert training.start() == 0, training.log
    assert training.weights


@pytest.mark.slow
def test_a_metric_that_nothing_will_report_is_refused_before_training(forge: Forge, tmp_path: Path) -> None:
    save = {"best_metric": "val_loss", "output": "best"}
    refused(forge, tmp_path, {"save": save}, "save.best_metric 'val_loss' needs rows to validate with")
    refused(
        forge,
        tmp_path,
        {"save": {**save, "best_metric": "loss"}},
        "save.best_metric 'loss' is never reported: names begin with train_ or val_, as val_loss",
    )


@pytest.mark.slow
def test_a_metric_that_the_first_step_does_not_report_ends_the_training_there(
    forge: Forge, tmp_path: Path
) -> None:
    save = {"best_metric": "train_los", "output": "best"}
    refused(
        forge, tmp_path, {"save": save}, "save.best_metric 'train_los' is not among what is reported: train_"
    )


@pytest.mark.slow
def test_a_metric_that_the_first_validation_does_not_report_is_a_warning_of_the_job(
    forge: Forge, tmp_path: Path
) -> None:
    save = {"best_metric": "val_los", "output": "best"}
    spec = spec_of("sft", "lora", tmp_path, save=save, schedule={"max_steps": 2, "eval_steps": 1})
    training = Training(forge, tmp_path / "warned", {**spec, "validation": spec["dataset"]})
    assert training.start() == 0, training.log
    [warning] = training.progress["warnings"]
    assert warning.startswith("save.best_metric 'val_los' is not among what is reported: val_")
    assert training.log.count(f"warning: {warning}") == 1


@pytest.mark.slow
def test_what_the_chat_template_leaves_out_is_a_warning_of_the_job(forge: Forge, tmp_path: Path) -> None:
    named = {"role": "user", "content": "1 + 1?", "name": "Bob"}
    row = {"messages": [named, {"role": "assistant", "content": "2"}]}
    spec = spec_of("sft", "lora", tmp_path, schedule={"max_steps": 1})
    Path(spec["dataset"]).write_text((json.dumps(row) + "\n") * 4)
    training = Training(forge, tmp_path / "warned", spec)
    assert training.start() == 0, training.log
    assert training.progress["warnings"] == [
        f"{TEMPLATE} leaves out 'user: name' (4 in all): 4 of 4 rows have it, the first in line 1"
    ]
    assert f"warning: {training.progress['warnings'][0]}" in training.log.splitlines()


def test_room_for_the_end_is_looked_for_before_training(tmp_path: Path) -> None:
    saving.check_space({tmp_path: 1})
    with pytest.raises(
        TrainerError, match=r"has .*B left, and a checkpoint and the trained model need 1153 PB"
    ):
        saving.check_space({tmp_path: 1, tmp_path.parent: 1 << 60})


def refused(forge: Forge, folder: Path, changes: dict[str, Any], said: str) -> None:
    data = folder / "sft.jsonl"
    kept = data.read_bytes() if data.exists() else None
    spec = {**spec_of("sft", "lora", folder), **changes}
    if kept is not None:
        data.write_bytes(kept)
    training = Training(forge, folder / "refused", spec)
    assert training.start() == 2, training.log
    assert said in training.log.splitlines()[-1]
    assert "Traceback" not in training.log


@pytest.mark.slow
def test_rows_of_which_nothing_is_left_are_counted(forge: Forge, tmp_path: Path) -> None:
    spec = spec_of("sft", "lora", tmp_path, schedule={"max_steps": 1})
    data, long = Path(spec["dataset"]), json.dumps({"prompt": "word " * 200, "completion": "yes"}) + "\n"
    data.write_text(long * 3)
    refused(forge, tmp_path, {}, "none of the 3 training rows can be used: max_seq_length 96 leaves nothing")
    data.write_text(long + json.dumps({"prompt": "word", "completion": "yes"}) + "\n")
    training = Training(forge, tmp_path / "long", spec)
    assert training.start() == 0, training.log
    assert "1 of 2 training rows are left out: max_seq_length 96" in training.log


@pytest.mark.slow
def test_changed_inputs_are_refused_with_both_sides(forge: Forge, tmp_path: Path) -> None:
    spec = spec_of("sft", "lora", tmp_path)
    training = Training(forge, tmp_path / "changed", spec)
    assert training.start(pause_after=2) == 75, training.log
    before = Path(spec["dataset"]).read_text()
    training.write_spec(seed=7)
    assert training.start() == 4
    assert "seed was 42 when it was saved and is 7 now" in training.log.splitlines()[-1]
    training.write_spec(seed=42)
    Path(spec["dataset"]).write_text(before.replace("sum", "SUM", 1))
    assert training.start() == 4
    assert "training data was sha256:" in training.log.splitlines()[-1]
    Path(spec["dataset"]).write_text(before)
    assert training.start() == 0, training.log


def start(training: Training) -> subprocess.Popen[bytes]:
    """A process of its own, in a session of its own, as the service starts it."""
    log = (training.folder / "log.txt").open("ab")
    argv = [str(engines.engine_python("trl")), "-m", "nemo_engines.run", *training.argv]
    process = subprocess.Popen(
        argv, env=engines.engine_environ(), stdout=log, stderr=log, start_new_session=True
    )
    log.close()
    return process


def ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(DEADLINE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def pause_by_signal(training: Training) -> int:
    """Start it, and ask it to pause as soon as it has finished a step."""
    process = start(training)
    limit = time.monotonic() + DEADLINE
    while not training.history and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    return ended(process)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_pauses_real_processes_which_then_go_on_to_the_same_end(
    forge: Forge, tmp_path: Path, processes: int
) -> None:
    spec = spec_of("sft", "lora", tmp_path, devices={"count": processes}, schedule={"max_steps": 150})
    spec |= {"batch": {"per_device": 2}}
    baseline = Training(forge, tmp_path / "uninterrupted", dict(spec))
    assert ended(start(baseline)) == 0, baseline.log
    training = Training(forge, tmp_path / "paused", dict(spec))
    assert pause_by_signal(training) == 75, training.log
    stopped = training.progress["final_step"]
    assert 0 < stopped < 150
    assert max(training.history) == stopped
    assert ended(start(training)) == 0, training.log
    assert training.weights
    assert training.weights == baseline.weights
    assert list(training.history) == list(range(1, 151))
    assert training.history == baseline.history
