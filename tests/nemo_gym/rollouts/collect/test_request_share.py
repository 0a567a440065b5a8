"""The number of rollouts in flight that a job writes down once a benchmark of it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.rollouts.collect.request_share import RequestShare


@pytest.mark.parametrize(
    ("text", "number"), [("9\n", 9), ("1", 1), ("0", None), ("-3", None), ("", None), ("many", None)]
)
def test_only_a_number_of_rollouts_counts(tmp_path: Path, text: str, number: int | None) -> None:
    (tmp_path / "parallel").write_text(text)
    assert RequestShare({"NEMO_GYM_LINK": str(tmp_path)})() == number


def test_without_a_job_or_a_number_nothing_changes(tmp_path: Path) -> None:
    assert RequestShare({})() is None
    assert RequestShare({"NEMO_GYM_LINK": str(tmp_path)})() is None


def test_a_number_that_needs_too_many_open_files_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "parallel").write_text("99999999")
    assert RequestShare({"NEMO_GYM_LINK": str(tmp_path)})() is None
