from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_gym.cli.program import gym
from nemo_gym.rollouts.data.benchmark_list import list_benchmarks
from nemo_gym.rollouts.run_config.catalog import find_benchmark, shipped_root

CONFIG = """
benchmark:
  name: {name}
  description: About {name}.
  datasets:
    benchmark: {{jsonl_fpath: rows.jsonl}}
  verifier: {{type: match}}
  num_repeats: {repeats}
"""


def make(folder: Path, name: str, repeats: int = 1) -> Path:
    path = folder / name / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG.format(name=name, repeats=repeats))
    return path


@pytest.fixture(autouse=True)
def _no_extra_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)


def test_shipped_benchmarks_are_listed_from_any_folder(tmp_path: Path) -> None:
    entries = {entry.name: entry for entry in list_benchmarks(cwd=tmp_path)}
    shipped = {
        "arithmetic",
        "arithmetic_mcq",
        "bfcl",
        "gpqa",
        "gsm8k",
        "humaneval",
        "ifeval",
        "math",
        "math_500",
    }
    assert set(entries) == shipped
    assert all(entry.source is not None for entry in entries.values())
    assert entries["gpqa"].num_repeats == 8
    assert all(entry.error is None and entry.description for entry in entries.values())
    assert entries["gpqa"].path == shipped_root() / "benchmarks/gpqa/config.yaml"


def test_search_folders_come_first_and_hold_benchmarks_directly_or_one_level_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make(tmp_path / "mine/benchmarks", "gpqa", repeats=2)
    plain = make(tmp_path / "plain", "flat")
    extra = make(tmp_path / "extra/benchmarks", "third")
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(tmp_path / "extra"))
    found = [tmp_path / "mine", Path("plain")]
    entries = {entry.name: entry.path for entry in list_benchmarks(found, cwd=tmp_path)}
    assert (entries["gpqa"], entries["flat"], entries["third"]) == (mine, plain, extra)
    for name in ("gpqa", "flat", "third"):
        assert find_benchmark(name, cwd=tmp_path, search_dirs=found) == entries[name]


def test_a_broken_benchmark_does_not_hide_the_others(tmp_path: Path) -> None:
    make(tmp_path / "benchmarks", "broken").write_text("benchmark: {name: broken}\n")
    entries = {entry.name: entry for entry in list_benchmarks(cwd=tmp_path)}
    assert "missing benchmark.datasets" in (entries["broken"].error or "")
    assert entries["gpqa"].error is None


def test_prepared_says_whether_the_data_is_there(tmp_path: Path) -> None:
    path = make(tmp_path / "benchmarks", "one")
    assert not next(e for e in list_benchmarks(cwd=tmp_path) if e.name == "one").prepared
    (path.parent / "rows.jsonl").write_text("{}\n")
    assert next(e for e in list_benchmarks(cwd=tmp_path) if e.name == "one").prepared


def test_a_users_env_yaml_does_not_break_the_list(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("policy_model_name: ${oc.env:BATON_TEST_UNSET}\n")
    assert all(entry.error is None for entry in list_benchmarks(cwd=tmp_path))


def test_the_command_lists_for_people_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "extra", "mine", repeats=3)
    (tmp_path / "extra/bad").mkdir()
    (tmp_path / "extra/bad/config.yaml").write_text("nonsense: 1\n")
    shown = CliRunner().invoke(gym, ["list", "benchmarks", "--search-dir", "extra"])
    assert shown.exit_code == 0
    assert "mine            not prepared  3 repeats    About mine." in shown.stdout
    assert "https://huggingface.co/datasets/Idavidrein/gpqa (gpqa_diamond" in shown.stdout
    assert "license: CC-BY-4.0" in shown.stdout
    assert shown.stderr.startswith("gym: bad cannot be used: ")
    document = CliRunner().invoke(gym, ["list", "benchmarks", "--search-dir", "extra", "--json"])
    names = {entry["name"]: entry for entry in json.loads(document.stdout)}
    assert names["mine"]["path"] == os.path.abspath("extra/mine/config.yaml")
    assert names["mine"]["num_repeats"] == 3
    assert names["bad"]["error"]
    assert names["gpqa"]["source"]["license"].startswith("CC-BY-4.0")
    assert names["gpqa"]["unpublished"]
