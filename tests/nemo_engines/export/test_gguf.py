"""Models written for llama.cpp answer there what they answer in transformers, token by token."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import engines

from nemo_engines.errors import BadSpecError
from nemo_engines.export import gguf
from nemo_gym.serving import models

PROGRAM = Path(__file__).with_name("models_program.py")
GYM = Path(sys.executable).with_name("gym")


@contextmanager
def served(file: Path) -> Iterator[httpx.Client]:
    """The native interface of llama.cpp for one model."""
    options = ["--port", "0", "--parallel", "1", "--threads", "1"]
    with subprocess.Popen(
        [GYM, "serve", "--model", file, *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().removesuffix("/v1")
            with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


def ask(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


def greedy(client: httpx.Client, ids: list[int], count: int) -> list[int]:
    """The next tokens, whatever they are."""
    options = {"n_predict": count, "temperature": 0, "return_tokens": True, "ignore_eos": False}
    found: list[int] = ask(client, "/completion", prompt=ids, cache_prompt=False, **options)["tokens"]
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("models")
    argv = [engines.engine_python("trl"), PROGRAM, folder]
    done = subprocess.run(
        argv, env=engines.engine_environ(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "adapter"])
def test_a_written_model_answers_as_before(made: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, report = made
    with served(folder / f"{name}.gguf") as client:
        for case in report[name]:
            asked = [{"role": "user", "content": case["prompt"]}]
            assert ask(client, "/apply-template", messages=asked)["prompt"] == case["text"]
            tokens = ask(client, "/tokenize", content=case["text"], add_special=True, parse_special=True)
            assert tokens["tokens"] == case["ids"]
            assert greedy(client, case["ids"], len(case["answer"])) == case["answer"]
    assert len({tuple(case["answer"]) for case in report[name]}) == 3, "the prompt must decide the answer"


@pytest.mark.slow
def test_a_file_that_is_unpacked_answers_as_before(made: tuple[Path, dict[str, Any]]) -> None:
    _, report = made
    assert report["unpacked"] == report["qwen2"]


@pytest.mark.slow
def test_a_file_of_which_something_would_be_left_out_is_not_unpacked(
    made: tuple[Path, dict[str, Any]],
) -> None:
    _, report = made  # the library passes over llama's biases
    assert "something would be left out" in report["refused"]


@pytest.mark.slow
def test_an_adapter_changes_the_answers(made: tuple[Path, dict[str, Any]]) -> None:
    _, report = made
    assert [case["answer"] for case in report["adapter"]] != [case["answer"] for case in report["llama"]]


@pytest.mark.slow
def test_the_small_model_goes_round_unchanged(tmp_path: Path) -> None:
    """Unpacked and written again, each tensor, token and setting is the packaged file's."""
    packaged = models.find_model("smollm2").path
    program = Path(__file__).with_name("round_program.py")
    argv = [engines.engine_python("trl"), program, packaged, tmp_path]
    environ = {**engines.engine_environ(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["different_tensors"] == []
    assert report["different_settings"] == []
    with served(tmp_path / "again.gguf") as client:
        for case in report["answers"]:
            assert greedy(client, case["ids"], len(case["answer"])) == case["answer"]


def test_what_is_no_folder_of_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpecError, match=r"has no config\.json or adapter_config\.json"):
        gguf.write(tmp_path, tmp_path / "out.gguf")


def test_a_place_that_cannot_be_written_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadSpecError, match=r"is a folder: name the file to write"):
        gguf.write(tmp_path, tmp_path)
    with pytest.raises(BadSpecError, match=r"missing/out\.gguf cannot be written: No such file or directory"):
        gguf.write(tmp_path, tmp_path / "missing" / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"), [({}, ""), ({"model_type": "gemma2"}, "type 'gemma2' cannot be")]
)
def test_a_model_is_tried_without_its_weights(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(engines.tiny_model(), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    argv = [engines.engine_python("trl"), "-m", "nemo_engines.export.gguf", folder, tmp_path / "o", "--check"]
    done = subprocess.run(
        argv, env=engines.engine_environ(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == (2 if said else 0), done.stderr
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_adapter_whose_base_is_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "/nowhere/base"}')
    with pytest.raises(BadSpecError, match=r"base model /nowhere/base .* is not a folder: give --base"):
        gguf.write(tmp_path, tmp_path / "out.gguf")


def test_a_failure_is_one_line_and_the_exit_code_of_a_bad_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gguf.main([str(tmp_path), str(tmp_path / "out.gguf")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


class Config:
    """A configuration that can be written, with changes."""

    def __init__(self, **changes: Any) -> None:
        usual = {"model_type": "llama", "hidden_act": "silu", "rope_parameters": {"rope_type": "default"}}
        self.__dict__.update({**usual, **changes})


def test_a_plain_configuration_can_be_written() -> None:
    gguf.check(Config())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "gemma3"}, "type 'gemma3' cannot be written; known are llama, qwen2, qwen3"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "positions stretched as 'llama3'"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"use_sliding_window": True}, "sliding window"),
    ],
)
def test_what_would_be_computed_differently_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSpecError, match=said):
        gguf.check(Config(**changes))
