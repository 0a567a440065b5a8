"""What is shown of a benchmark whose machine does not answer."""

from pathlib import Path

from tests.nemo_gym.orchestration.evidence_files import NOW, known, link, progress, saw

from nemo_gym.orchestration.status.last_status import LastStatus
from nemo_gym.orchestration.status.report import of_submissions
from nemo_gym.orchestration.status.report_text import status_text

CHAIN = [link("1.0", end="drained 75 walltime\n", queued="2"), link("2.0", end="failed 1 none\nit broke")]
ENDED = {"1": saw("FAILED", word="FAILED"), "2": saw("FAILED", word="FAILED")}
AWAY = of_submissions([known(silent="the host gave no answer")])


def test_a_chain_that_failed_has_still_failed_when_its_machine_does_not_answer(tmp_path: Path):
    before = of_submissions([known(*CHAIN, progress(done=6), seen=ENDED)])
    path = tmp_path / "jobs" / ".status.json"
    assert LastStatus(path).completed(before, now=NOW) == before
    assert AWAY[0].benchmarks[0].state == "queued", "all that its own record can tell"
    (shown,) = LastStatus(path).completed(AWAY, now=NOW + 60)  # another command
    (status,) = shown.benchmarks
    assert (status.state, status.cause, status.job_id, status.links) == ("failed", "your code", "2", 2)
    assert (status.done, status.state_age_s, status.silent) == (6, 60.0, "the host gave no answer")
    text = status_text([shown])
    assert "failed (1 min ago)" in text
    assert "no answer: the host gave no answer. What is shown was known before." in text


def test_an_answer_counts_more_than_what_is_remembered_and_is_remembered_instead(tmp_path: Path):
    memory = LastStatus(tmp_path / "status.json")
    memory.completed(of_submissions([known(*CHAIN, seen=ENDED)]), now=NOW)
    again = of_submissions([known(*CHAIN, link("3.0"), seen={**ENDED, "3": saw("RUNNING")})])
    assert memory.completed(again, now=NOW + 1) == again
    (shown,) = memory.completed(AWAY, now=NOW + 31)
    assert (shown.benchmarks[0].state, shown.benchmarks[0].state_age_s) == ("running", 30.0)


def test_a_memory_that_is_damaged_or_cannot_be_kept_is_none(tmp_path: Path):
    path = tmp_path / "status.json"
    for content in ('{"a b": 3, "c d": {"at": 1}}', "[", "[]"):
        path.write_text(content)
        assert LastStatus(path).completed(AWAY, now=NOW) == AWAY
    before = of_submissions([known(*CHAIN, seen=ENDED)])
    (tmp_path / "file").write_text("")
    assert LastStatus(tmp_path / "file" / "status.json").completed(before, now=NOW) == before
