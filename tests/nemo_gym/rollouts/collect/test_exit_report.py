"""What a collector says to its chain at its end."""

import json

import pytest

from nemo_gym.errors import BusyError, ConfigError, DataError, ResumeRefusedError, UsageError
from nemo_gym.rollouts.collect import exit_report
from nemo_gym.rollouts.collect.ends import CollectionEnd, Counts
from nemo_gym.rollouts.policy.endpoint import EndpointError, RejectedError
from nemo_runs.errors import DiskFullError


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "hopeless"),
    [
        (ConfigError("limit: x"), True),
        (UsageError("no output"), True),
        (DataError("rows.jsonl: there is no such file."), True),
        (ResumeRefusedError("model differs"), True),
        (RejectedError("policy_api_key: answered 401"), True),
        (EndpointError("cannot be reached"), False),
        (BusyError("somebody else"), False),
        (DiskFullError("full"), False),
        (caused(DataError("the prepare script failed"), TimeoutError("network")), False),
        (caused(DataError("the prepare script failed"), ValueError("bug")), True),
    ],
)
def test_an_error_is_permanent_when_the_same_would_meet_a_retry(error, hopeless):
    said = exit_report.of_error(error)
    assert (said.state, said.expected) == ("failed", 0)
    assert (said.hopeless is not None) == hopeless


def test_an_end_is_told_with_its_counts_and_rejected_credentials_as_the_reason():
    end = CollectionEnd(1, "failed", "not one new result")
    said = exit_report.of_end(end, Counts(5, 3, 0, 1), rejected="answered 403")
    assert said == exit_report.ExitReport("failed", 1, 5, 3, 0, "answered 403")
    done = exit_report.of_end(CollectionEnd(0, "complete", ""), Counts(5, 5, 2, 0), rejected="answered 403")
    assert done.hopeless is None


def test_the_last_word_is_one_line_in_the_links_folder_and_nowhere_without_a_link(tmp_path):
    said = exit_report.ExitReport("failed", 1, 0, 0, 0, 'a "word"\nand ü')
    exit_report.write(said, {})
    exit_report.write(said, {"NEMO_GYM_LINK": str(tmp_path)})
    text = (tmp_path / "collected").read_text()
    assert text.count("\n") == 1
    assert list(json.loads(text)) == ["state", "status", "expected", "recorded", "new", "hopeless"]
    assert json.loads(text)["hopeless"] == 'a "word" and ü'


def test_a_job_that_asks_for_lines_gets_a_key_and_a_value_on_each(tmp_path):
    asking = {"NEMO_GYM_LINK": str(tmp_path), "NEMO_GYM_COLLECTED": "lines"}
    counts = ["state failed", "status 1", "expected 5", "recorded 3", "new 2"]
    exit_report.write(exit_report.ExitReport("failed", 1, 5, 3, 2, 'a "word"\nand ü'), asking)
    assert (tmp_path / "collected").read_text().splitlines() == [*counts, 'hopeless a "word" and ü']
    exit_report.write(exit_report.ExitReport("failed", 1, 5, 3, 2, None), asking)
    assert (tmp_path / "collected").read_text().splitlines() == counts
