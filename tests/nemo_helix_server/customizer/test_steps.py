"""The programs of the steps around training, as real processes on real folders."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests import engines

from nemo_helix_server.customizer.steps import fetching, splitting
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.files.locations import open_tree
from nemo_runs import json_lines
from nemo_runs.clock import MovableClock
from nemo_trainer.contract import read_progress, verify_outputs

pytestmark = pytest.mark.services

ROWS = [{"prompt": f"{number}?", "completion": str(number)} for number in range(10)]


@dataclass
class Step:
    """One step of a job in a folder."""

    folder: Path
    name: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def trainer(self) -> Path:
        return self.storage / self.name

    def run(self, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        self.trainer.mkdir(parents=True, exist_ok=True)
        file = self.folder / "config.json"
        file.write_text(json.dumps(config))
        environ = {
            **os.environ,
            "NEMO_JOB_STEP_CONFIG_FILE_PATH": str(file),
            "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": str(self.storage),
            "NEMO_JOB_TRAINER_PATH": str(self.trainer),
            "NEMO_JOB_TASK": "task-1",
            "NEMO_JOB_ID": "rl-1",
            **self.environ,
        }
        argv = [sys.executable, "-P", "-m", f"nemo_helix_server.customizer.steps.{self.name}"]
        return subprocess.run(
            argv, cwd=self.storage, env=environ, capture_output=True, text=True, check=False, timeout=120
        )

    def verified(self) -> list[str]:
        return list(verify_outputs(self.trainer, storage=self.storage, deep=True))


def item(folder: str, kind: str, tree: Path | str, what: str = "dataset") -> dict[str, Any]:
    return {"folder": folder, "what": what, "kind": kind, "place": str(tree), "shown": str(tree)}


def download(*items: dict[str, Any], split: Any = None) -> dict[str, Any]:
    return {"items": list(items), "split": split, "hub_python": sys.executable}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "here" / "sums.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path, "download")


def filesets(tmp_path: Path) -> Filesets:
    root = str(tmp_path / "filesets")
    return Filesets(open_tree(root), MovableClock(), root)


def put(made: Filesets, name: str, path: str, content: bytes) -> None:
    if not made.exists("default", name):
        made.create("ann", "default", name, None)
    upload = made.upload("default", name, path)
    upload.write(content)
    upload.commit()


def test_paths_are_referred_to_and_what_was_brought_is_recorded(step: Step, data: Path) -> None:
    model = data.parent / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    done = step.run(download(item("model", "path", model, "model"), item("dataset", "path", data)))
    assert (done.returncode, done.stderr) == (0, "")
    assert (step.storage / "model").readlink() == model
    assert (step.storage / "dataset" / "sums.jsonl").readlink() == data
    record = json.loads((step.storage / "sources.json").read_text())["items"]
    assert record[1]["files"][0]["path"] == "sums.jsonl"
    assert len(record[1]["files"][0]["sha256"]) == 64
    assert step.verified() == []
    progress = read_progress(step.trainer / "progress.json")
    assert (progress["phase"], progress["completed_filesets"], progress["progress_pct"]) == (
        "completed",
        2,
        100,
    )


def test_a_fileset_is_linked_and_stays_as_it_was(step: Step, tmp_path: Path) -> None:
    made = filesets(tmp_path)
    put(made, "sums", "deep/train.jsonl", b"{}\n")
    done = step.run(download(item("dataset", "fileset", made.address("default", "sums"))))
    assert done.returncode == 0, done.stderr
    copy = step.storage / "dataset" / "deep" / "train.jsonl"
    assert copy.samefile(tmp_path / "filesets" / "default" / "sums" / "deep" / "train.jsonl")
    put(made, "sums", "deep/train.jsonl", b"changed\n")
    assert copy.read_bytes() == b"{}\n"
    assert step.verified() == []
    progress = read_progress(step.trainer / "progress.json")
    assert (progress["downloaded_files"], progress["downloaded_bytes"]) == (1, 3)


def test_doing_it_again_is_as_doing_it_once(step: Step, data: Path) -> None:
    config = download(
        item("dataset", "path", data), split={"share": 0.2, "seed": 1, "into": "validation_dataset"}
    )
    first = step.run(config)
    before = {p: p.read_bytes() for p in step.storage.rglob("*.jsonl")}
    second = step.run(config)
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert {p: p.read_bytes() for p in step.storage.rglob("*.jsonl")} == before
    assert step.verified() == []


def test_a_split_keeps_the_numbers_of_lines_and_loses_no_row(step: Step, data: Path) -> None:
    split = {"share": 0.2, "seed": 1, "into": "validation_dataset"}
    assert step.run(download(item("dataset", "path", data), split=split)).returncode == 0
    parts = [
        (step.storage / name / "sums.jsonl").read_text().split("\n")
        for name in ("dataset", "validation_dataset")
    ]
    whole = data.read_text().split("\n")
    assert all({a, b} == {line, ""} for a, b, line in zip(*parts, whole, strict=True))
    assert sum(bool(line) for line in parts[1]) == 2
    assert data.read_text() == "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"a": 1}\n',
            "has 1 row, and a validation_split of 0.2 needs two; set schedule.validation_split to 0",
        ),
        ("", "has 0 rows"),
    ],
)
def test_too_few_rows_to_split_are_refused(step: Step, data: Path, content: str, sentence: str) -> None:
    data.write_text(content)
    split = {"share": 0.2, "seed": 1, "into": "validation_dataset"}
    done = step.run(download(item("dataset", "path", data), split=split))
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]


def test_what_is_gone_or_cannot_be_had_is_one_sentence(step: Step, tmp_path: Path) -> None:
    done = step.run(download(item("dataset", "path", tmp_path / "gone")))
    assert (done.returncode, done.stderr) == (
        2,
        f"there is neither a file nor a folder at {tmp_path / 'gone'} any more\n",
    )
    assert read_progress(step.trainer / "progress.json")["phase"] == "failed"
    hub = {**item("model", "hub", "owner/name", "model"), "shown": "hf://owner/name"}
    broken = {**download(hub), "hub_python": str(tmp_path / "no-python")}
    done = step.run(broken)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("hf://owner/name could not be had from the hub (")
    assert "`nemo models upload` it, or name a folder of this machine" in line


def trained(step: Step) -> Path:
    folder = step.storage / "output_model"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text('{"r": 4, "base_model_name_or_path": "model"}')
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_trained_model_becomes_a_fileset_that_names_its_base(tmp_path: Path, scheme: str) -> None:
    step = Step(tmp_path, "upload")
    folder = trained(step)
    root = f"{scheme}{tmp_path / 'filesets'}"
    config = {
        "source": "output_model",
        "root": root,
        "workspace": "default",
        "fileset": "tuned-1",
        "base_model": "lab/base",
        "description": "better",
    }
    for _ in range(2):
        done = step.run(config)
        assert (done.returncode, done.stderr) == (0, "")
    made = filesets(tmp_path)
    assert made.paths("default", "tuned-1") == ("adapter_config.json", "adapter_model.safetensors")
    content = made.read("default", "tuned-1", "adapter_config.json", 1000)
    assert json.loads(content) == {"r": 4, "base_model_name_or_path": "lab/base"}
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "model"
    assert made.get("default", "tuned-1")["created_by"] == "job:rl-1"
    assert step.verified() == []


def test_a_training_that_left_nothing_is_said(tmp_path: Path) -> None:
    step = Step(tmp_path, "upload")
    config = {"source": "output_model", "root": str(tmp_path), "workspace": "default", "fileset": "tuned-1"}
    done = step.run({**config, "base_model": "lab/base"})
    assert (done.returncode, done.stderr) == (2, "the training left no model in output_model\n")


class Registry(http.server.BaseHTTPRequestHandler):
    """A service that takes models, after it was away twice."""

    asked: list[tuple[str, dict[str, Any], str | None]]
    answers: list[tuple[int, Any]]
    """Status with the detail of an error, or with what is there."""

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self._answer({})

    def _answer(self, body: dict[str, Any]) -> None:
        self.asked.append((self.path, body, self.headers.get("Authorization")))
        status, said = self.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said if isinstance(said, dict) else {"detail": said}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[tuple[str, type[Registry]]]:
    kind = type("Registry", (Registry,), {"asked": [], "answers": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.002,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_is_registered_through_the_service_even_when_that_is_away_first(
    tmp_path: Path, registry: tuple[str, type[Registry]]
) -> None:
    url, kind = registry
    kind.answers[:] = [(503, "away"), (201, "")]
    step = Step(tmp_path, "register", {"NHX_JOBS_URL": url, "NHX_ACCESS_TOKEN": "nhxs_x"})
    config = {"workspace": "default", "model": {"name": "tuned", "fileset": "tuned-1", "description": None}}
    done = step.run(config)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(kind.asked) == 2
    path, body, token = kind.asked[-1]
    assert path == "/apis/models/v2/workspaces/default/models"
    assert (body, token) == ({"name": "tuned", "fileset": "tuned-1"}, "Bearer nhxs_x")
    assert step.verified() == []


def test_a_model_that_is_refused_is_said_with_the_services_sentence(
    tmp_path: Path, registry: tuple[str, type[Registry]]
) -> None:
    url, kind = registry
    kind.answers[:] = [(409, "there is a model 'tuned' already")]
    step = Step(tmp_path, "register", {"NHX_JOBS_URL": url})
    done = step.run({"workspace": "default", "model": {"name": "tuned", "fileset": "tuned-1"}})
    sentence = (
        "the service refused the model: there is a model 'tuned' already; its files are whole in the fileset "
        "default/tuned-1: name them with `nemo models register`\n"
    )
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((404, "there is no model 'tuned'"), None),
        ((200, {"name": "tuned", "created_by_job": "mine"}), None),
        (
            (200, {"name": "tuned", "created_by_job": "another"}),
            "output.name: there is a model 'tuned' in workspace default by now; choose another name\n",
        ),
        (
            (403, "the token may not read this model"),
            "the trained model could not be registered at the end: the token may not read this model\n",
        ),
        ((422, "no name."), "the trained model could not be registered at the end: no name\n"),
    ],
)
def test_what_the_end_needs_is_looked_for_before_training(
    tmp_path: Path, data: Path, registry: tuple[str, type[Registry]], answer: Any, sentence: str | None
) -> None:
    url, kind = registry
    kind.answers[:] = [(503, "away"), answer]
    step = Step(tmp_path, "download", {"NHX_JOBS_URL": url, "NHX_ACCESS_TOKEN": "nhxs_x"})
    end = {"workspace": "default", "name": "tuned", "job": "mine", "root": str(tmp_path), "whole": True}
    done = step.run({**download(item("dataset", "path", data)), "end": {**end, "base": "dataset"}})
    assert (done.returncode, done.stderr) == ((2, sentence) if sentence else (0, ""))
    assert kind.asked[-1][0] == "/apis/models/v2/workspaces/default/models/tuned"
    assert kind.asked[-1][2] == "Bearer nhxs_x"


def test_a_split_cuts_rows_at_line_feeds_alone(tmp_path: Path) -> None:
    data = tmp_path / "dataset"
    data.mkdir()
    rows = [b'{"text":\r"%d"}' % number for number in range(4)]
    (data / "train.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(rows) + b"\r\n")
    splitting.split(data, tmp_path / "validation", share=0.25, seed=1)
    files = [folder / "train.jsonl" for folder in (data, tmp_path / "validation")]
    kept, moved = (
        [json_lines.parse_row(line, n) for n, line in json_lines.numbered_lines(file)] for file in files
    )
    assert len(kept) == 3
    assert sorted([*kept, *moved], key=str) == [json.loads(row) for row in rows]


@pytest.mark.slow
def test_rows_from_the_hub_get_no_keys_of_other_rows(tmp_path: Path) -> None:
    source, target = tmp_path / "at-the-hub", tmp_path / "fetched"
    source.mkdir()
    target.mkdir()
    rows = [
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"city": "x"}}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "g", "arguments": {"a": 4}}]}]},
    ]
    (source / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source / "test.jsonl").write_text(json.dumps(rows[0]) + "\n")
    argv = [
        str(engines.engine_python("trl")),
        "-c",
        fetching._HUB_PROGRAM,
        "dataset",
        str(source),
        str(target),
    ]
    environ = {**engines.engine_environ(), "HF_HOME": str(tmp_path / "cache")}
    subprocess.run(argv, check=True, env=environ, capture_output=True, timeout=120)
    assert [json.loads(line) for line in (target / "train.jsonl").read_text().splitlines()] == rows
    assert json.loads((target / "test.jsonl").read_text()) == rows[0]  # it is there, and nobody learns it


def test_the_benchmark_of_an_evaluation_is_made_beside_the_data(step: Step, data: Path) -> None:
    wanted = {"benchmark": "arithmetic", "folder": None, "limit": 2, "into": "evaluation"}
    done = step.run({**download(item("dataset", "path", data)), "evaluation": wanted})
    assert done.returncode == 0, done.stderr
    made = step.storage / "evaluation"
    assert sorted(path.name for path in made.iterdir() if path.suffix == ".json") == ["benchmark.json"]
    assert len((made / "rows.jsonl").read_text().splitlines()) == 2
    assert step.verified() == []
    other = {**wanted, "benchmark": "arithmetik"}
    again = step.run({**download(item("dataset", "path", data)), "evaluation": other})
    assert again.returncode != 0
    said = "eval.benchmark: there is no benchmark arithmetik (did you mean 'arithmetic'?)."
    assert said in again.stderr
    assert len((made / "rows.jsonl").read_text().splitlines()) == 2
