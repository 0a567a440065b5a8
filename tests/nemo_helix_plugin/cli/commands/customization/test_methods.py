"""A job by its method: fields of one set of names, from options and files, and files that are sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.program import nemo
from nemo_helix_plugin.client.errors import BadRequestError, NotFoundError

HERE, ELSEWHERE = "http://127.0.0.1:9", "https://service.example"


def run(*words: str, address: str = HERE) -> Result:
    return CliRunner().invoke(nemo, ["customization", *words, "--base-url", address])


class Asked(list[Any]):
    """What a service was asked; `answers` by method, and errors among them are raised."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.answers = answers

    def answer(self, operation: Any) -> Any:
        self.append(operation)
        found = self.answers.get(operation.method, {})
        if isinstance(found, Exception):
            raise found
        return found(operation.arguments) if callable(found) else found

    def of(self, method: str) -> list[Any]:
        return [operation.arguments for operation in self if operation.method == method]


def refusal(kind: Any, detail: str) -> Exception:
    return kind(detail, status_code=400, detail=detail, body=None, request="POST /x")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Asked:
    health = {"contributors": ["automodel", "unsloth", "rl"], "engines": [{"installed": True}] * 3}
    found = Asked(
        {"customization.health": health, "files.list_files": [], "models.get": {}, "files.get_fileset": {}}
    )
    monkeypatch.setattr(CommandContext, "ask", found.answer)
    monkeypatch.setattr(CommandContext, "all_records", found.answer)
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fields.yaml", "method: sft\nmodel: lab/base\ndata: lab/old\nlearning_rate: 1e-5\n"),
        ("fields.json", '{"model": "lab/base", "data": "lab/old", "learning_rate": 1e-5}'),
    ],
)
def test_options_win_over_a_file_in_yaml_or_json(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    words = ("--spec", str(tmp_path / name), "--backend", "unsloth", "--data", "lab/new", "-o", "tuned")
    done = run("sft", *words, "--epochs", "2", "--set", "dataset.text_field=body", "--print-spec")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout) == {
        "model": {"name": "lab/base", "load_in_4bit": False},
        "dataset": {"path": "lab/new", "text_field": "body"},
        "batch": {"gradient_accumulation_steps": 8, "per_device_train_batch_size": 1},
        "optimizer": {"learning_rate": 1e-5},
        "output": {"name": "tuned"},
        "schedule": {"epochs": 2},
        "training": {"finetuning_type": "lora"},
        "rows": {"learned_turns": "assistant"},
    }


def test_data_are_mixed_and_a_chat_template_is_read(service: Asked, tmp_path: Path) -> None:
    (tmp_path / "a=1.jsonl").write_text("{}\n")
    (tmp_path / "mine.jinja").write_text("{{ messages }}")
    (tmp_path / "job.yaml").write_text(
        "model: base\ndata: [a=1.jsonl, {data: lab/more, weight: 0.5}]\nchat_template: mine.jinja\n"
    )
    service.answers["customization.rl.jobs.create"] = {"name": "job-1"}
    assert run("dpo", "--spec", str(tmp_path / "job.yaml")).exit_code == 0
    assert run("dpo", "--model", "base", "--data", "lab/rows=2", "--data", "lab/more").exit_code == 0
    first, second = (asked["spec"] for asked in service.of("customization.rl.jobs.create"))
    assert first["dataset"].startswith("default/a-1-")
    assert first["rows"] == {"beside": {"lab/more": 0.5}, "chat_template": "{{ messages }}"}
    assert (second["dataset"], second["rows"]) == ("lab/rows", {"weight": 2.0, "beside": {"lab/more": 1.0}})
    absent = run("dpo", "--model", "base", "--data", "rows", "--chat-template", "absent.jinja")
    assert "--chat-template absent.jinja: there is no such file." in " ".join(absent.output.split())


def test_all_errors_of_a_file_are_said_at_once_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("model: lab/base\nlearning_rat: 1\noptimizer:\n  weight_decay: -1\n")
    done = run("sft", "--spec", str(tmp_path / "job.yaml"), "--backend", "automodel", "--max-steps", "0")
    assert done.exit_code == 2
    assert str(done.exception) or done.output
    said = done.output
    for line in (
        "learning_rat (line 2): there is no such field (did you mean 'learning_rate'?)",
        "optimizer.weight_decay (line 4): input should be greater than or equal to 0",
        "--max-steps: input should be greater than 0",
        "data: it is missing, and required",
    ):
        assert line in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dpo", "--model", "lab/m", "--data", "lab/d", "--wait", "--watch"), "not both"),
        (("dpo", "--model", "lab/m", "--data", "lab/d", "--force"), "--force is for --dry-run"),
        (("grpo", "--model", "lab/m", "--data", "lab/d", "--print-spec"), "environment is missing"),
        (("dpo", "--model", "lab/m", "--backend", "unsloth"), "'unsloth' is not 'rl'"),
        (("sft", "--model", "lab/m", "--upload-model", "x"), "--model names one already"),
        (("dpo", "--lr", "1"), "No such option '--lr' (did you mean '--learning-rate'?)."),
        (("sft", "--dataset", "x"), "No such option '--dataset' (did you mean '--data'?)."),
        (("sft", "--output-dir", "x"), "No such option '--output-dir' (did you mean '--output-name'?)."),
        (("dpo", "--set", "seed"), "--set seed: write field=value"),
        (
            ("dpo", "--model", "lab/m", "--data", "absent.jsonl"),
            "absent.jsonl: there is no such file or folder",
        ),
    ],
)
def test_what_is_missing_or_does_not_go_together_is_said(
    service: Asked, words: tuple[str, ...], said: str
) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not service.of("customization.rl.jobs.create")


def test_a_file_for_another_method_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("method: dpo\n")
    done = run("sft", "--spec", str(tmp_path / "job.yaml"))
    assert "is a spec for dpo: give it to `nemo customization dpo`" in " ".join(done.output.split())


def test_rows_are_sent_once_for_the_same_content_and_a_model_is_referred_to(
    service: Asked, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    (tmp_path / "pairs.jsonl").write_text("{}\n")
    (tmp_path / "job.yaml").write_text("data: pairs.jsonl\n")  # beside the file, wherever one is
    service.answers["customization.rl.jobs.create"] = {"name": "job-1"}
    words = ("dpo", "--spec", str(tmp_path / "job.yaml"), "--model", str(tmp_path / "base"))
    assert run(*words).exit_code == 0
    (tmp_path / "pairs.jsonl").write_text("{}\n{}\n")
    assert run(*words).exit_code == 0
    first, second = (asked["spec"] for asked in service.of("customization.rl.jobs.create"))
    assert first["model"] == str(tmp_path / "base")
    assert first["dataset"].startswith("default/pairs-")
    assert first["dataset"] != second["dataset"]
    assert len(service.of("files.upload_file")) == 2
    assert run(*words, address=ELSEWHERE).exit_code == 0
    assert service.of("customization.rl.jobs.create")[2]["spec"]["model"].startswith("default/base-")


@pytest.mark.parametrize(
    ("source", "there", "reference"),
    [
        ("Qwen/Qwen3-0.6B", False, "hf://Qwen/Qwen3-0.6B"),
        ("google/gemma-3-1b-it", False, "hf://google/gemma-3-1b-it"),
        ("google/gemma-3-1b-it", True, "google/gemma-3-1b-it"),
        ("hf://google/gemma-3-1b-it", True, "hf://google/gemma-3-1b-it"),
        ("tuned", False, "tuned"),
    ],
)
def test_names_at_the_hub_are_told_from_those_of_a_workspace(
    service: Asked, source: str, there: bool, reference: str
) -> None:
    service.answers["customization.rl.jobs.create"] = {"name": "job-1"}
    if not there:
        for method in ("models.get", "files.get_fileset"):
            service.answers[method] = refusal(NotFoundError, "there is none")
    assert run("dpo", "--model", source, "--data", "pairs").exit_code == 0
    (asked,) = service.of("customization.rl.jobs.create")
    assert asked["spec"]["model"] == reference


def test_a_refusal_of_the_service_names_fields_as_they_were_written(service: Asked) -> None:
    said = "training.batch_size 5 cannot be divided; dataset: there is no fileset 'pairs'"
    service.answers["customization.rl.jobs.create"] = refusal(BadRequestError, said)
    done = run("dpo", "--model", "base", "--data", "pairs", "--batch-size", "5")
    assert str(done.exception) == "--batch-size 5 cannot be divided; --data: there is no fileset 'pairs'"


def test_a_sweep_is_over_common_names(service: Asked) -> None:
    service.answers["customization.unsloth.jobs.create"] = lambda asked: {"name": asked["name"]}
    words = (
        "--model",
        "base",
        "--data",
        "rows",
        "--backend",
        "unsloth",
        "-o",
        "tuned",
        "--sweep-name",
        "mine",
    )
    done = run("sft", *words, "--sweep", "batch_size=4,8", "--json")
    assert done.exit_code == 0, done.output
    asked = service.of("customization.unsloth.jobs.create")
    assert [one["spec"]["batch"]["gradient_accumulation_steps"] for one in asked] == [4, 8]
    assert [one["spec"]["output"]["name"] for one in asked] == ["tuned-1", "tuned-2"]
    assert [one["custom_fields"]["swept"] for one in asked] == [{"batch_size": 4}, {"batch_size": 8}]


def test_the_backend_is_that_which_is_installed(service: Asked) -> None:
    service.answers["customization.health"]["engines"] = [{"installed": False}, {"installed": True}]
    service.answers["customization.unsloth.preview"] = {
        "engine": "unsloth",
        "method": "sft",
        "max_seq_length": 8,
        "rows": [],
    }
    done = run("sft", "preview", "--model", "base", "--data", "rows", "--json")
    assert done.exit_code == 0, done.output
    assert service.of("customization.unsloth.preview")[0]["spec"]["dataset"] == {"path": "rows"}


def test_the_fields_are_explained() -> None:
    found = json.loads(run("dpo", "explain", "--json").stdout)
    assert {"field": "beta", "rl": "training.ref_policy_kl_penalty"}.items() <= {
        key: value for row in found["fields"] if row["field"] == "beta" for key, value in row.items()
    }.items()
