"""What is an end, what is a failure, and what is neither, from the files of a benchmark."""

import json

import pytest

from nemo_gym.job_paths import JobPaths
from nemo_gym.notices.content import document, end_notice, no_progress_notice


@pytest.fixture
def job(tmp_path):
    paths = JobPaths(tmp_path / "gym-job-1" / "gpqa")
    paths.artifacts.mkdir(parents=True)
    paths.link("7").folder.mkdir(parents=True)
    return paths


def told(job, end="", decision="", **files):
    link = job.link("7")
    for name, text in {"end": end, "decision": decision, **files}.items():
        if text:
            getattr(link, name).write_text(text)
    found = end_notice(job, link)
    return found and (found.event, found.state, found.reason)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"end": "ended 0 none\n"}, ("end", "succeeded", "")),
        ({"end": "ended 0 none\n", "queued": "8"}, ("end", "succeeded", "")),
        ({"end": "ended 1 none\nthe driver ended"}, ("failure", "failed", "the driver ended")),
        ({"end": "ended 76 none\n"}, ("failure", "failed", "it ended with exit status 76")),
        ({"end": "drained 75 walltime\nasked", "queued": "8"}, None),
        ({"end": "drained 75 walltime\nasked", "next": "local-8"}, None),
        ({"end": "drained 75 walltime\nasked"}, ("failure", "failed", "asked")),
        ({"end": "drained 75 person\nby ann"}, ("end", "stopped", "by ann")),
        ({"end": "decided 0 none\n", "decision": "stop running\nits twin"}, None),
        ({"end": "decided 0 none\nall", "decision": "stop succeeded\nall"}, ("end", "succeeded", "")),
        ({"end": "decided 0 none\nspent", "decision": "stop stopped\nspent"}, ("end", "stopped", "spent")),
        ({"end": "decided 1 none\nno", "decision": "fail failed\nno"}, ("failure", "failed", "no")),
        ({}, None),
    ],
)
def test_an_end_is_where_nothing_follows(job, files, expected):
    assert told(job, **files) == expected


def test_a_cancelled_benchmark_has_ended_and_has_not_failed(job):
    job.cancelled.write_text("2026-11-30T10:00:00Z\nann\nwrong model\n")
    assert told(job, "stopped 143 cancel\n") == ("end", "cancelled", "2026-11-30T10:00:00Z ann wrong model")


def test_a_job_that_was_killed_and_wrote_no_end_has_failed(job):
    found = end_notice(job, job.link("7"), killed="FAILED: killed by signal 9")
    assert (found.event, found.reason) == ("failure", "FAILED: killed by signal 9")


def test_each_end_and_each_standstill_has_a_key_of_its_own(job):
    job.link("7").end.write_text("ended 1 none\n")
    keys = [end_notice(job, job.link("7")).key]
    job.resubmission(1).folder.mkdir(parents=True)
    keys.append(end_notice(job, job.link("7")).key)
    for done in (3, 5):
        job.rollouts.progress.write_text(json.dumps({"done": done}))
        keys.append(no_progress_notice(job, 1800).key)
    assert keys == ["end-0", "end-1", "no_progress-1-3", "no_progress-1-5"]
    assert no_progress_notice(job, 1800).reason == "no rollout got a result in 30 minutes"


def test_the_document_says_what_is_known_and_null_where_it_is_not(job):
    job.link("7").end.write_text("ended 0 none\n")
    notice = end_notice(job, job.link("7"))
    bare = document(notice, job, job.link("7"), at="2026-11-30T10:00:00Z")
    assert (bare["done"], bare["score"], bare["reason"]) == (None, None, None)
    assert bare["text"] == "gpqa of gym-job-1: succeeded"
    job.rollouts.progress.write_text(json.dumps({"done": 12, "expected": 12, "mean_reward_all": 0.5}))
    job.rollouts.coverage.write_text(json.dumps({"score": {"mean": 0.5, "low": 0.2, "high": 0.8}}))
    found = document(notice, job, job.link("7"), at="2026-11-30T10:00:00Z")
    assert (found["event"], found["gym_job_id"], found["benchmark"]) == ("end", "gym-job-1", "gpqa")
    assert (found["job_id"], found["done"], found["score"]["mean"]) == ("7", 12, 0.5)
    assert found["text"] == "gpqa of gym-job-1: succeeded, 12 of 12 rollouts, score 50.0%"
