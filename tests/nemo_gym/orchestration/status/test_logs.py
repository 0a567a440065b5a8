"""Logs over several jobs: order, seams, tails, following."""

import pytest
from tests.nemo_gym.orchestration.evidence_files import known, link

from nemo_gym.errors import GymError
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status import logs

FILES = LocalRunFiles()


@pytest.fixture
def evidence(tmp_path):
    """Two jobs with logs, and a third that waits."""
    (tmp_path / "logs").mkdir()
    for name, text in (
        ("driver-9", "one\ntwo\n"),
        ("driver-10", "three\nfour"),
        ("my-service-10", "s\n"),
        ("driver-99", "somebody else's\n"),
    ):
        (tmp_path / "logs" / f"{name}.log").write_text(text)
    (tmp_path / "slurm-9.out").write_text("script\n")
    return known(
        link("9.0", started=100), link("10.0", started=200, queued="11"), first="9", job_dir=tmp_path
    )


def read(evidence, source="driver"):
    return b"".join(logs.whole(logs.pieces(evidence, source, FILES), FILES)).decode()


def test_all_logs_come_in_the_order_of_the_jobs_with_a_line_between_them(evidence):
    assert read(evidence).splitlines() == [
        "==> driver of job 9 (log 1, started 1970-01-01T00:01:40Z) <==",
        "one",
        "two",
        "==> driver of job 10 (log 2, started 1970-01-01T00:03:20Z) <==",
        "three",
        "four",
    ]
    assert read(evidence, "job") == "script\n"


def test_sources_are_those_of_this_benchmarks_jobs(evidence):
    assert logs.sources(evidence, FILES) == {"driver": {"9", "10"}, "job": {"9"}, "my-service": {"10"}}
    with pytest.raises(GymError, match="has no log 'policy'; there are driver, job, my-service"):
        logs.refuse_unknown(evidence, "policy", FILES)


def test_what_is_shown_unasked_is_what_the_job_script_said_when_no_driver_has_started(evidence, tmp_path):
    assert logs.to_show(evidence, FILES) == "driver"
    for log in (tmp_path / "logs").glob("driver-*.log"):
        log.unlink()
    assert logs.to_show(evidence, FILES) == "job"
    (tmp_path / "slurm-9.out").unlink()
    assert logs.to_show(evidence, FILES) == "driver"


@pytest.mark.parametrize(
    ("typed", "meant"), [("drivr", "driver"), ("gpq", "gpqa"), ("my-servise", "my-service")]
)
def test_a_mistyped_source_or_benchmark_is_answered_with_what_was_meant(evidence, typed, meant):
    with pytest.raises(GymError, match=rf"has no log '{typed}' \(did you mean '{meant}'\?\); .*\."):
        logs.refuse_unknown(evidence, typed, FILES)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [(0, ""), (1, "four"), (2, "==> driver of job 10"), (3, "two\n==> driver of job 10"), (99, "one\ntwo\n")],
)
def test_a_tail_reaches_back_over_the_seam(evidence, lines, shown):
    found = logs.pieces(evidence, "driver", FILES)
    assert logs.tail(found, FILES, lines).decode().startswith(shown)
    assert logs.tail(found, FILES, lines).count(b"==>") == (lines >= 2)


def test_following_shows_what_is_new_and_goes_on_into_the_next_job(evidence, tmp_path):
    written, steps = [], []

    def sleep(_seconds):
        steps.append(1)
        with (tmp_path / "logs" / "driver-10.log").open("a") as log:
            log.write("\nfive\n")
        if len(steps) == 2:
            (tmp_path / "logs" / "driver-11.log").write_text("six\n")

    def look():
        return evidence, len(steps) < 2

    follower = logs.LogFollower("driver", FILES)
    follower.start_at_end(logs.pieces(evidence, "driver", FILES))
    logs.follow(follower, look, written.append, every=0, sleep=sleep)
    assert b"".join(written) == b"\nfive\n\nfive\n==> driver of job 11 (log 3) <==\nsix\n"


def test_following_from_the_beginning_shows_everything_once(evidence):
    written = []
    logs.follow(logs.LogFollower("driver", FILES), lambda: (evidence, False), written.append, every=0)
    assert b"".join(written).decode() == read(evidence)
