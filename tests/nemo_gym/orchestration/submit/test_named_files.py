"""Every file that a run config names goes along to another machine, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit.named_files import moved, named_files

THERE = Path("/there")


def run_of(mine: Path, **more: Any) -> BenchmarkRun:
    """A run of the rows in ``mine``; of ``more``, keys with a dot in front are the benchmark's."""
    (mine / "rows.jsonl").write_text('{"question": "1 + 1?"}\n')
    benchmark = {
        "name": "toy",
        "datasets": {"benchmark": {"jsonl_fpath": str(mine / "rows.jsonl")}},
        "prompt": {"user": "{question}"},
        "agent": {"type": "single_turn"},
        "verifier": {"type": "match"},
    }
    benchmark |= more.pop("benchmark", {})
    return BenchmarkRun(run={"benchmark": benchmark, "split": "benchmark", **more}, prepare=None)


def taken_along(run: BenchmarkRun, *there: Path) -> BenchmarkRun:
    """The run on a machine that has nothing of ours but ``there``."""
    missing = {file.path for file in named_files(run.run)} - set(there)
    return moved(run, missing, THERE, where="driver.benchmarks.toy.run", machine="far")


def test_references_of_pairwise_judges_go_along_each_under_a_name_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    verifiers = {
        name: {"type": "pairwise", "reference": str(tmp_path / name / "rollouts.jsonl")} for name in "ab"
    }
    verifiers["c"] = {"type": "python", "path": "grade.py", "source": "def grade(): ..."}
    run = run_of(tmp_path, benchmark={"verifier": {"type": "several", "score": "a", "verifiers": verifiers}})
    found = taken_along(run, tmp_path / "rows.jsonl")
    assert found.run is not None
    placed = found.run["benchmark"]["verifier"]["verifiers"]
    assert placed["c"] == verifiers["c"]
    assert {Path(verifiers[name]["reference"]): Path(placed[name]["reference"]) for name in "ab"} == (
        found.inputs
    )
    assert [placed[name]["reference"] for name in "ab"] == [
        "/there/verifier-a-rollouts.jsonl",
        "/there/verifier-b-rollouts.jsonl",
    ]
    assert run.run is not None
    assert run.run["benchmark"]["verifier"]["verifiers"] == verifiers, "the run itself is left as it is"


def test_the_data_set_of_the_examples_goes_along_also_beside_other_rows(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").touch()
    datasets = {
        "benchmark": {"jsonl_fpath": str(tmp_path / "rows.jsonl")},
        "train": {"jsonl_fpath": str(tmp_path / "train.jsonl")},
    }
    prompt = {"user": "{question}", "examples": {"split": "train", "count": 1}}
    asked = {"datasets": datasets, "prompt": prompt}
    found = taken_along(run_of(tmp_path, benchmark=asked))
    assert found.inputs == {
        tmp_path / "rows.jsonl": THERE / "rows.jsonl",
        tmp_path / "train.jsonl": THERE / "examples-train.jsonl",
    }
    own = taken_along(run_of(tmp_path, benchmark=asked, input_jsonl_fpath=str(tmp_path / "rows.jsonl")))
    assert own.run is not None
    assert own.run["input_jsonl_fpath"] == "/there/rows.jsonl"
    assert own.inputs == found.inputs


def test_a_script_that_makes_examples_goes_along_once_where_it_makes_the_rows_too(tmp_path: Path) -> None:
    script = tmp_path / "make.py"
    script.write_text("def prepare(output): ...\n")
    datasets = {
        split: {"jsonl_fpath": str(tmp_path / "data" / f"{split}.jsonl"), "prepare_script": str(script)}
        for split in ("benchmark", "train")
    }
    prompt = {"user": "{question}", "examples": {"split": "train", "count": 1}}
    found = taken_along(run_of(tmp_path, benchmark={"datasets": datasets, "prompt": prompt}))
    assert found.inputs == {script: THERE / "make.py"}
    assert found.run is not None
    for split in datasets:
        assert found.run["benchmark"]["datasets"][split] == {
            "jsonl_fpath": f"/there/{split}.jsonl",
            "prepare_script": "/there/make.py",
        }
    at_home = run_of(tmp_path, benchmark={"datasets": datasets, "prompt": prompt})
    assert taken_along(at_home, script) == at_home, "a script that is there makes its data there"


def test_files_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    servers = [tmp_path / folder / "server.py" for folder in "ab"]
    for server in servers:
        server.parent.mkdir()
        server.touch()
    tools = [{"type": "mcp", "command": ["python3", *map(str, servers), "--port", "/no/file"]}]
    found = taken_along(run_of(tmp_path, benchmark={"agent": {"type": "tools", "tools": tools}}))
    assert found.run is not None
    words = found.run["benchmark"]["agent"]["tools"][0]["command"]
    assert words == [
        "python3",
        "/there/tools-0-server.py",
        "/there/2-tools-0-server.py",
        "--port",
        "/no/file",
    ]
    assert [str(found.inputs[server]) for server in servers] == words[1:3]


def with_images(mine: Path, *images: Any, **more: Any) -> BenchmarkRun:
    run = run_of(mine, benchmark={"prompt": {"user": "{question}", "images": ["picture"]}, **more})
    rows = [json.dumps({"question": "?", "picture": image}) for image in images]
    (mine / "rows.jsonl").write_text("\n".join(rows) + "\n")
    return run


def test_images_that_rows_name_go_along_beside_them(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    for name in ("one.png", "cats/two.png"):
        (tmp_path / name).touch()
    run = with_images(tmp_path, "one.png", ["cats/two.png", "https://x/y.png"], {"url": "one.png"}, None)
    assert taken_along(run).inputs == {
        tmp_path / "rows.jsonl": THERE / "rows.jsonl",
        tmp_path / "one.png": THERE / "one.png",
        tmp_path / "cats" / "two.png": THERE / "cats" / "two.png",
    }
    assert taken_along(run, tmp_path / "rows.jsonl") == run, "where the rows are, their images are"


def test_images_within_conversations_go_along_too(tmp_path: Path) -> None:
    (tmp_path / "one.png").touch()
    run = run_of(tmp_path, benchmark={"prompt": {"conversation": "talk"}})
    part = {"type": "image_url", "image_url": {"url": "one.png"}}
    row = {"talk": [{"role": "user", "content": [part, {"type": "image"}]}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert taken_along(run).inputs[tmp_path / "one.png"] == THERE / "one.png"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (
            "../one.png",
            "the image ../one.png is not below the folder of rows.jsonl, so it is not copied; put",
        ),
        ("/one.png", "the image /one.png is not below the folder of rows.jsonl"),
        ("gone.png", "names the image gone.png, and there is no such file"),
    ],
)
def test_images_that_cannot_go_along_are_refused_by_name(tmp_path: Path, image: str, said: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^driver\.benchmarks\.toy\.run\.benchmark\.prompt\.images: "
    ) as error:
        taken_along(with_images(tmp_path, image))
    assert said in str(error.value)


HARNESS = {"type": "lm_eval"}
COMMAND = {"argv": ["/opt/inspect", "eval"], "working_folder": "/my/evals", "files": ["/my/evals/task.py"]}


@pytest.mark.parametrize(
    ("more", "where", "path"),
    [
        ({"policy_tokenizer": "/my/tokenizer"}, "policy_tokenizer", "/my/tokenizer"),
        (
            {"benchmark": {"lm_eval": {"task": "x", "include_path": ["/my/tasks"]}, "datasets": {}}},
            "benchmark.lm_eval.include_path[0]",
            "/my/tasks",
        ),
        (
            {"benchmark": {"command": COMMAND, "datasets": {}}},
            "benchmark.command.working_folder",
            "/my/evals",
        ),
        (
            {"benchmark": {"command": {**COMMAND, "working_folder": None}, "datasets": {}}},
            "benchmark.command.files[0]",
            "/my/evals/task.py",
        ),
        (
            {"benchmark": {"command": {"argv": ["/opt/inspect"]}, "datasets": {}}},
            "benchmark.command.argv[0]",
            "/opt/inspect",
        ),
        (
            {"benchmark": {"datasets": {"benchmark": {"huggingface": {"path": "/my/set"}}}}},
            "benchmark.datasets.benchmark.huggingface.path",
            "/my/set",
        ),
        (
            {"benchmark": {"verifier": {"type": "code", "sandbox": {"python": "/my/python"}}}},
            "benchmark.verifier.sandbox.python",
            "/my/python",
        ),
        (
            {"benchmark": {"agent": {"type": "bfcl", "sandbox": {"image": "/my/image.sif"}}}},
            "benchmark.agent.sandbox.image",
            "/my/image.sif",
        ),
        (
            {"benchmark": {"agent": {"type": "tools", "tools": [], "sandbox": {"read_only": ["/my/x"]}}}},
            "benchmark.agent.sandbox.read_only[0]",
            "/my/x",
        ),
        (
            {"benchmark": {"agent": {"type": "tools", "tools": [{"type": "mcp", "command": ["/my/s"]}]}}},
            "benchmark.agent.tools[0].command[0]",
            "/my/s",
        ),
    ],
)
def test_what_is_not_copied_and_is_not_there_is_refused_by_its_key(
    tmp_path: Path, more: dict[str, Any], where: str, path: str
) -> None:
    run = run_of(tmp_path, **more)
    with pytest.raises(ConfigError) as refused:
        taken_along(run)
    assert str(refused.value).startswith(
        f"driver.benchmarks.toy.run.{where}: there is no {path} on far, and "
    )
    names = {file.path for file in named_files(run.run)}
    assert taken_along(run, *names) == run
    contained = moved(run, names, THERE, where="run", machine="far", contained=True)
    assert contained.run is not None, "a container may hold it"


def test_names_of_the_hub_and_of_programs_are_no_files(tmp_path: Path) -> None:
    datasets = {"benchmark": {"huggingface": {"path": "openai/gsm8k"}}}
    tools = [{"type": "mcp", "command": ["uvx", "server-time", str(tmp_path / "not-there")]}]
    asked = {"datasets": datasets, "agent": {"type": "tools", "tools": tools}}
    run = run_of(tmp_path, policy_tokenizer="org/model", benchmark=asked)
    assert named_files(run.run) == []
    assert named_files(None) == []
