from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_gym.cli.program import gym
from nemo_gym.errors import ConfigError, DataError, GymError
from nemo_gym.rollouts.data.prepare import check_script, data_path, ensure_data
from nemo_gym.rollouts.run_config.schema import RunConfig

GOOD = """
import json
def prepare(output, count=2, *, word="x"):
    print("to nobody's parser")
    with output.open("w") as stream:
        for number in range(count):
            stream.write(json.dumps({"a": number, "word": word}) + "\\n")
"""


def config(folder: Path, script: str | None = GOOD, **more: Any) -> RunConfig:
    dataset: dict[str, Any] = {"jsonl_fpath": str(folder / "data/toy.jsonl")}
    if script is not None:
        (folder / "prepare.py").write_text(script)
        dataset["prepare_script"] = str(folder / "prepare.py")
    benchmark = {"name": "toy", "datasets": {"benchmark": dataset}, "verifier": {"type": "match"}}
    return RunConfig.model_validate({"benchmark": benchmark, **more})


def test_data_is_made_once_and_left_alone_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = config(tmp_path)
    path = ensure_data(run)
    assert path == data_path(run)
    assert path.parent == tmp_path / "data"
    assert path.name.startswith("toy-")
    assert [json.loads(line)["a"] for line in path.read_text().splitlines()] == [0, 1]
    path.write_text('{"mine": 1}\n')
    assert ensure_data(run) == ensure_data(run) == path
    assert path.read_text() == '{"mine": 1}\n'
    assert os.listdir(path.parent) == [path.name]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "to nobody's parser\n")


def test_other_arguments_and_another_script_make_other_files(tmp_path: Path) -> None:
    first = data_path(config(tmp_path))
    second = data_path(config(tmp_path, prepare_script_args={"count": 3}))
    third = data_path(config(tmp_path, GOOD + "# changed\n"))
    assert len({first, second, third}) == 3
    order = [
        data_path(config(tmp_path, prepare_script_args=args)) for args in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    ]
    assert order[0] == order[1]


def test_data_goes_to_the_users_folder_where_the_benchmarks_cannot_be_written(
    tmp_path: Path, own_home: Path
) -> None:
    run = config(tmp_path)
    (tmp_path / "data").write_text("a file in the way, which even root cannot write below")
    path = ensure_data(run)
    assert path.parent == own_home / ".local/share/nemo-gym/toy"
    assert path.is_file()
    (tmp_path / "data").unlink()
    assert data_path(run) == path


def test_a_file_without_a_script_is_taken_as_it_is_or_missed_by_name(tmp_path: Path) -> None:
    run = config(tmp_path, script=None)
    with pytest.raises(
        ConfigError, match=r"benchmark.datasets.benchmark.jsonl_fpath: there is no file .*toy.jsonl"
    ):
        ensure_data(run)
    with pytest.raises(ConfigError, match="and nothing that makes it"):
        ensure_data(run)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/toy.jsonl").write_text("{}\n")
    assert ensure_data(run) == tmp_path / "data/toy.jsonl"


def test_an_input_replaces_the_data_and_nothing_is_prepared(tmp_path: Path) -> None:
    run = config(tmp_path, input_jsonl_fpath=tmp_path / "mine.jsonl")
    with pytest.raises(ConfigError, match="input_jsonl_fpath: there is no file"):
        ensure_data(run)
    (tmp_path / "mine.jsonl").write_text("{}\n")
    assert ensure_data(run) == tmp_path / "mine.jsonl"
    assert not (tmp_path / "data").exists()


def test_a_split_that_the_benchmark_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="split: the benchmark toy has no train; it has benchmark"):
        data_path(config(tmp_path, split="train"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cuont": 3}, r"prepare_script_args.cuont: .* takes no such argument \(did you mean 'count'\?\)"),
        ({"zzz": 3}, "prepare_script_args.zzz: .* takes no such argument; known: count, word"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    run = config(tmp_path, prepare_script_args=arguments)
    with pytest.raises(ConfigError, match=message):
        ensure_data(run)
    with pytest.raises(ConfigError, match=message):
        check_script(tmp_path / "prepare.py", arguments)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("def prepare(output, seed, *, size): ...", r"prepare_script_args: .*prepare.py needs seed, size\."),
        ("def prepare(output:\n  pass", r"prepare\.py:1: no valid Python: "),
        ("def prepare(output, \0): ...", r"prepare\.py: no valid Python: "),
    ],
)
def test_what_is_wrong_with_a_script_is_seen_without_running_it(
    tmp_path: Path, script: str, message: str
) -> None:
    config(tmp_path, script)
    with pytest.raises(ConfigError, match=message):
        check_script(tmp_path / "prepare.py", {})


@pytest.mark.parametrize(
    "script",
    [
        GOOD,
        "def prepare(output, **more): ...",
        "from elsewhere import prepare",
        "import wrap\n@wrap.it\ndef prepare(output): ...",
        "def prepare(output, /, word): ...",
    ],
)
def test_a_script_that_may_take_the_arguments_is_let_pass(tmp_path: Path, script: str) -> None:
    config(tmp_path, script)
    check_script(tmp_path / "prepare.py", {"word": "y"})


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("def prepare(output, seed): ...", ConfigError, r"prepare_script_args: .*prepare.py needs seed"),
        ("x = 1", ConfigError, r"must define prepare\(output"),
        ("import no_such_module", DataError, "failed with ModuleNotFoundError"),
        ("def prepare(output):\n raise ValueError('it is odd')", ConfigError, "args: .*: it is odd"),
        ("def prepare(output):\n raise RuntimeError('a\\nb')", DataError, "failed with RuntimeError: a b"),
        ("def prepare(output): pass", DataError, "did not write its output file"),
        ("def prepare(output): output.write_text('')", DataError, "wrote no rows"),
        ("def prepare(output): output.write_text('{}\\n[]')", DataError, r"is not a row, line 2: must be"),
    ],
)  # fmt: skip
def test_a_script_that_fails_leaves_no_file_and_one_sentence(
    tmp_path: Path, script: str, error: type[GymError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        ensure_data(config(tmp_path, script))
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path / "data") == []


def test_a_script_may_hold_dataclasses_and_take_any_argument(tmp_path: Path) -> None:
    script = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Row:
    a: int
def prepare(output, **more):
    output.write_text('{"a": %d}' % Row(more["n"]).a)
"""
    before = set(sys.modules)
    assert ensure_data(config(tmp_path, script, prepare_script_args={"n": 4})).read_text() == '{"a": 4}'
    assert not [name for name in set(sys.modules) - before if "prepare" in name]


@pytest.mark.slow
def test_two_that_prepare_at_once_end_up_with_one_whole_file(tmp_path: Path) -> None:
    script = """
import time
def prepare(output):
    with output.open("w") as stream:
        stream.write('{"a":')
        stream.flush()
        time.sleep(0.2)
        stream.write(' 1}\\n')
"""
    run = config(tmp_path, script)
    worker = """
import json, sys
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.rollouts.data.prepare import ensure_data
print(ensure_data(RunConfig.model_validate(json.loads(sys.argv[1]))))
"""
    command = [sys.executable, "-c", worker, json.dumps(run.to_plain())]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    seen = set()
    while any(worker.poll() is None for worker in workers):
        if data_path(run).exists():
            seen.add(data_path(run).read_text())
        time.sleep(0.005)
    assert [worker.communicate()[0].strip() for worker in workers] == [str(data_path(run))] * 3
    assert seen <= {'{"a": 1}\n'}
    assert os.listdir(tmp_path / "data") == [data_path(run).name]


def test_a_finished_file_is_never_replaced_by_a_slower_one(tmp_path: Path) -> None:
    script = """
def prepare(output):
    output.write_text('{"late": 1}\\n')
    from pathlib import Path
    final = Path(str(output.parent / output.name[1:].split(".jsonl")[0]) + ".jsonl")
    final.write_text('{"early": 1}\\n')
"""
    run = config(tmp_path, script)
    assert ensure_data(run).read_text() == '{"early": 1}\n'


def test_the_command_prints_the_path_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "benchmarks/toy"
    folder.mkdir(parents=True)
    (folder / "prepare.py").write_text(GOOD)
    (folder / "config.yaml").write_text(
        "benchmark: {name: toy, verifier: {type: match},"
        " datasets: {benchmark: {jsonl_fpath: toy.jsonl, prepare_script: prepare.py}}}"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["eval", "prepare", "--benchmark", "toy", "+prepare_script_args.count=5"]
    first = CliRunner().invoke(gym, arguments)
    path = Path(first.stdout.strip())
    assert len(path.read_text().splitlines()) == 5
    assert "preparing the data of toy" in first.stderr
    again = CliRunner().invoke(gym, [*arguments, "--json"])
    assert json.loads(again.stdout) == {"benchmark": "toy", "path": str(path), "made": False}
    assert again.stderr == ""


@pytest.mark.e2e
def test_gym_eval_prepare_is_a_real_program_with_one_sentence_for_a_mistake(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("gym")
    command = [program, "eval", "prepare", "--benchmark", "arithmetic", "+prepare_script_args.num_taks=3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("takes no such argument (did you mean 'num_tasks'?).")
