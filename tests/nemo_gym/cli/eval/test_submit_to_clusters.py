"""`gym eval submit` of a file with several clusters."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.nemo_gym.orchestration.submit_files import write

from nemo_gym.cli.eval import submit as command
from nemo_gym.cli.job.results import _with_other_clusters
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR, ConfigError, UsageError
from nemo_gym.orchestration.executors.fake import FakeJobExecutor
from nemo_gym.orchestration.records import index

pytestmark = pytest.mark.slow


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Types the command; its executors run nothing."""
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    executor = FakeJobExecutor()
    monkeypatch.setattr("nemo_gym.orchestration.executors.registry.executor_for", lambda *_given: executor)
    write(
        tmp_path,
        {
            "compute": {
                "here": {"type": "local"},
                "there": {"type": "local", "output_path": str(tmp_path / "t")},
            },
            "driver/policy_model": ...,
            "driver/models": {
                "policy": {"compute": "here"},
                "big": {"service": "policy", "compute": "there"},
            },
        },
    )

    def run(*words: str) -> Any:
        return CliRunner().invoke(
            command.submit, ["-c", "submit.yaml", *words], standalone_mode=False, catch_exceptions=False
        )

    return run


def test_the_plan_of_each_cluster_is_shown(typed: Any) -> None:
    shown = typed("--dry-run").output
    assert "Plan: 1 job on here, 1 at once\n  policy: sums (service policy serves tiny)" in shown
    assert "Plan: 1 job on there, 1 at once\n  big: sums (service policy serves tiny)" in shown


def test_each_has_a_record_and_one_of_them_names_all_for_the_table(typed: Any) -> None:
    done = typed("--json")
    assert done.return_value == EXIT_DONE
    document = json.loads(done.stdout)
    assert [record["cluster"] for record in document["records"]] == ["here", "there"]
    assert {record["labels"]["campaign"] for record in document["records"]} == {document["campaign"]}
    one = index.find(document["records"][1]["gym_job_id"], report=pytest.fail)
    assert [record.cluster for record in _with_other_clusters([one])] == ["there", "here"]


def test_what_is_wrong_with_one_cluster_is_found_before_anything_is_queued(
    typed: Any, tmp_path: Path
) -> None:
    (tmp_path / "t").write_text("no folder")
    with pytest.raises(ConfigError, match="is not a folder"):
        typed()
    assert list(index.indexed(report=pytest.fail)) == []


def test_a_cluster_that_refuses_does_not_keep_the_others_from_being_recorded(typed: Any) -> None:
    assert typed("--only", "big").return_value == EXIT_DONE
    done = typed()
    assert done.return_value == EXIT_ERROR
    assert "submitted policy.sums" in done.output
    assert "nothing was queued on there: gym-job-" in done.output
    assert [record.cluster for record in index.indexed(report=pytest.fail)].count("there") == 1


def test_several_cannot_be_followed_by_one_terminal(typed: Any) -> None:
    with pytest.raises(UsageError, match="gym job watch --label"):
        typed("--follow")
