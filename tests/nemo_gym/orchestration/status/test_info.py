"""What `gym job info` tells a person about the jobs of a benchmark."""

from dataclasses import replace

from tests.nemo_gym.orchestration.evidence_files import NOW, decision, known, link, progress

from nemo_gym.chain.evidence import Resubmission
from nemo_gym.orchestration.status.info import BenchmarkInfo, _lines
from nemo_gym.orchestration.status.report import assess

FIRST = decision("go_on", "running", "the first job of its chain")


def told(evidence):
    return list(_lines(BenchmarkInfo(evidence, assess(evidence), {})))


def test_the_time_of_a_finished_job_is_counted_though_no_job_follows_that_counts_it():
    ended = {"state": "COMPLETED", "exit_status": 0, "ended_at": NOW - 480}
    evidence = known(link("1.0", end="ended 0 none", exit=ended, decision=FIRST), progress(done=10))
    lines = told(replace(evidence, walltime=0, retries=0))
    assert "  used by ended jobs: 00:02:00 of walltime, 0 retries" in lines


def test_the_chains_own_count_stands_where_it_is_more():
    evidence = known(link("1.0", end="ended 1 none", decision=FIRST), progress(done=4))
    assert any("00:01:40 of walltime" in line for line in told(replace(evidence, walltime=100, retries=1)))


def test_a_resubmitted_job_is_not_called_the_first_of_its_chain():
    evidence = known(
        link("1.0", end="drained 75 person", decision=FIRST), link("5.0", started=NOW - 5, decision=FIRST)
    )
    lines = told(replace(evidence, resubmissions=(Resubmission(number=1, job_id="5"),)))
    assert "  1.0 decided at its start: go on: the first job of its chain" in lines
    assert "  5.0 decided at its start: go on: queued again (resubmission 1)" in lines


def test_a_job_that_went_on_without_some_of_its_replicas_says_so():
    evidence = known(link("1.0", end="ended 0 none", decision=FIRST, replicas_lost=2), progress(done=10))
    assert "  1.0 went on without 2 replicas of services; its log says what became of them" in told(evidence)
    evidence = known(link("1.0", end="ended 0 none", decision=FIRST), progress(done=10))
    assert "went on" not in "".join(told(evidence))
