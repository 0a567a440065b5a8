"""What may be given away of a run."""

from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import exported

from nemo_gym.errors import DataError
from nemo_gym.rollouts.export.exported import ExportedOutput


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [
        ("sums", True),
        ("gpqa", False),
        ("GPQA-diamond", False),
        ("lm_eval__gpqa_main_n_shot", False),
        ("leaderboard_gpqa", False),
        ("gpqanswers", True),
    ],
)
def test_rows_of_some_benchmarks_stay_here(tmp_path: Path, benchmark: str, published: bool) -> None:
    output = exported(tmp_path, benchmark)
    assert output.publishes_rows is published
    assert len(list(output.rollouts())) == (6 if published else 0)


def test_another_name_of_the_folder_does_not_hide_what_a_benchmark_is(tmp_path: Path) -> None:
    output = exported(tmp_path, "mine")
    text = output.paths.manifest.read_text().replace('"name": "sums"', '"name": "gpqa"')
    output.paths.manifest.write_text(text)
    assert ExportedOutput("mine", output.paths, "run").publishes_rows is False


def test_a_run_that_was_not_added_up_says_so(tmp_path: Path) -> None:
    output = exported(tmp_path)
    output.paths.coverage.unlink()
    with pytest.raises(DataError, match="has no summary yet"):
        _ = output.summary


def test_settings_are_flat(tmp_path: Path) -> None:
    settings = exported(tmp_path).settings()
    assert settings["responses_create_params.temperature"] == 0.5
    assert settings["benchmark.verifier.type"] == "match"
