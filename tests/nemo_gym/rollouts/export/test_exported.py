"""What may be given away of a run."""

import json
import zipfile
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import exported

from nemo_gym.cli.main import _status
from nemo_gym.errors import DataError
from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.export.writing import ExportRequest, write_export


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


def test_settings_have_no_path_and_no_address_in_a_list_either(tmp_path: Path) -> None:
    output = exported(tmp_path)
    known = json.loads(output.paths.manifest.read_text())
    tools = [{"type": "mcp", "command": ["/home/ada/bin/python", "./server.py"]}]
    known["identity"]["generation"]["benchmark"]["agent"] = {"type": "tools", "tools": tools, "max_turns": 3}
    output.paths.manifest.write_text(json.dumps(known))
    settings = output.settings()
    assert "benchmark.agent.tools" not in settings
    assert settings["benchmark.agent.max_turns"] == 3


SECRET = "the customer's questions are confidential"


def confidential(folder: Path) -> ExportedOutput:
    """An output whose manifest has what `benchmark.unpublished` says."""
    output = exported(folder)
    known = json.loads(output.paths.manifest.read_text())
    output.paths.manifest.write_text(json.dumps({**known, "unpublished": SECRET}))
    return ExportedOutput(output.benchmark, output.paths, output.run)


@pytest.mark.parametrize("form", ["csv", "share", "report", "lm-eval", "model-card"])
def test_rows_that_a_config_calls_unpublished_are_in_no_export(tmp_path: Path, form: str) -> None:
    output = confidential(tmp_path / "a")
    assert output.unpublished == SECRET
    written = write_export([output], ExportRequest(form=form, path=tmp_path / "out"))
    if form == "share":
        with zipfile.ZipFile(written) as archive:
            archive.extractall(tmp_path / "share")
        written = tmp_path / "share"
    files = [path for path in ([written] if written.is_file() else written.rglob("*")) if path.is_file()]
    text = "".join(path.read_text() for path in files)
    for row in ("What is", "Zero it is", "thought of 0", "benchmark.prompt"):
        assert row not in text
    if form in ("share", "report"):
        assert "must stay unpublished: the customer&#x27;s questions are confidential." in text


def test_a_group_of_lm_eval_with_such_a_task_stays_here_whatever_it_is_called(tmp_path: Path) -> None:
    output = exported(tmp_path)
    known = json.loads(output.paths.manifest.read_text())
    tasks = {"tasks": {"leaderboard_gpqa_main": 1.0}}
    known["identity"]["scoring"]["benchmark"]["lm_eval"] = {"definition": tasks}
    output.paths.manifest.write_text(json.dumps(known))
    assert not ExportedOutput("leaderboard", output.paths, "run").publishes_rows


def test_show_says_that_rows_must_stay_unpublished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = confidential(tmp_path / "a").paths.output.parent
    assert _status(["job", "show", str(folder), "--task", "0"]) == 0
    said = capsys.readouterr()
    assert f"must stay unpublished; do not pass them on: {SECRET}." in said.err
    assert "What is" in said.out
    assert _status(["job", "show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unpublished"] == {folder.name: SECRET}
