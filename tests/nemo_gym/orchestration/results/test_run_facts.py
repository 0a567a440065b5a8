"""Facts about runs beside their scores."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.results.test_matrix import cell
from tests.nemo_gym.orchestration.results.test_scores import record

from nemo_gym.orchestration.results.run_facts import run_fact
from nemo_runs.clock import moment

NOW = moment("2026-11-30T06:00:00Z") / 1_000_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "m"),
        ("id", "gym-job-m"),
        ("age", "1 d"),
        ("cluster", "here"),
        ("labels", "team=a n=1"),
        ("label.team", "a"),
        ("label.other", None),
        ("responses_create_params.temperature", "0.5"),
        ("num_repeats", "1"),
        ("benchmark.verifier.mode", "numeric"),
        ("no.such.setting", None),
    ],
)
def test_labels_age_and_settings_are_facts(tmp_path: Path, name: str, value: str | None) -> None:
    _, found = cell(tmp_path, "m", 10, overrides=["responses_create_params.temperature=0.5"])
    assert run_fact(name, record(tmp_path), found, now=NOW) == value


def test_a_run_without_files_has_no_settings(tmp_path: Path) -> None:
    _, found = cell(tmp_path, "m", 10)
    gone = replace(found, output=str(tmp_path / "gone"))
    assert run_fact("num_repeats", record(tmp_path), gone, now=NOW) is None
