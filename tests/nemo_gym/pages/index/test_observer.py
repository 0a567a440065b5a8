"""What pages know of runs, and how old it is."""

import json
import os
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import collected, link, progress
from tests.nemo_gym.pages.index.test_run_places import record, submit
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.orchestration.status.last_status import LastStatus
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.observer import SETTLED, EvaluationIndex
from nemo_runs.clock import MovableClock


@pytest.fixture(autouse=True)
def own_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


def observed(clock: MovableClock, *folders: Path, records: bool = False) -> EvaluationIndex:
    index = EvaluationIndex(folders, records=records, clock=clock)
    index.observe()
    return index


def write_links(run_dir: Path, *files: dict[str, str]) -> None:
    for name, text in {name: text for some in files for name, text in some.items()}.items():
        path = run_dir / "sums" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_finished_submission_has_its_state_and_is_not_read_again(
    tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = submit(record(tmp_path))
    write_links(run_dir, link("local-1.0", collected=collected(), end="succeeded 0 none\n"))
    index = observed(clock, records=True)
    [run] = index.runs()
    assert (run.state, run.live, run.seen_at) == ("succeeded", False, clock.seconds())
    read: list[int] = []
    monkeypatch.setattr(
        "nemo_gym.pages.index.observer.read_runs", lambda places, *_, **__: read.append(len(places)) or ()
    )
    clock.advance(1)
    index.observe()
    clock.advance(SETTLED)
    index.observe()
    assert read == [0, 0]
    assert index.runs()[0].seen_at == clock.seconds()


def test_a_run_that_went_on_is_read_again(tmp_path: Path, clock: MovableClock) -> None:
    run_dir = submit(record(tmp_path))
    write_links(run_dir, link("local-1.0", collected=collected(), end="succeeded 0 none\n"))
    index = observed(clock, records=True)
    before = index.version(index.runs()[0])
    write_links(run_dir, {".gym_cancelled": "2027\nann\nfor a reason\n"}, progress(3))
    os.utime(run_dir / "sums", ns=(1, 1))
    clock.advance(SETTLED)
    index.observe()
    assert index.runs()[0].benchmarks[0].evidence.cancelled
    assert index.version(index.runs()[0]) != before


def test_no_other_machine_is_asked_and_what_was_known_is_shown_with_its_age(
    tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record(tmp_path, hostname="cluster")
    submit(made, there=False)
    before = BenchmarkStatus(
        gym_job_id=made.gym_job_id,
        benchmark="sums",
        state=BenchmarkState.RUNNING,
        reason="",
        cause=None,
        job_id="7",
        links=2,
        done=5,
        expected=10,
    )
    known = SubmissionStatus(gym_job_id=made.gym_job_id, benchmarks=(before,))
    LastStatus().completed([known], now=clock.seconds() - 120)
    monkeypatch.setattr("nemo_slurm.ssh.host_of", lambda *_: pytest.fail("a connection was opened"))
    [run] = observed(clock, records=True).runs()
    [benchmark] = run.benchmarks
    assert (benchmark.state, benchmark.done, benchmark.status.state_age_s) == ("running", 5, 120.0)
    assert "no page asks cluster" in benchmark.status.silent
    assert (run.where, benchmark.result.status) == ("on cluster", "not fetched")


def test_a_run_without_jobs_has_the_words_of_its_results(tmp_path: Path, clock: MovableClock) -> None:
    config = run_config(
        benchmark_config(tmp_path / "config"), "policy_model_name=m", "policy_base_url=http://x/v1"
    )
    paths = write_output(tmp_path / "run", {(0, 0): result(), (1, 0): result(reward=0.0)}, tasks=3, repeats=1)
    write_manifest(paths, config, tasks=3, repeats=1)
    [run] = observed(clock, tmp_path / "run").runs()
    assert (run.state, run.live) == ("unfinished", True)
    paths.progress.write_text(json.dumps({"state": "running", "done": 2, "expected": 3}))
    [run] = observed(clock, tmp_path / "run").runs()
    assert (run.benchmarks[0].done, run.benchmarks[0].expected) == (2, 3)


def test_rollouts_are_read_behind_the_page_and_kept(tmp_path: Path, clock: MovableClock) -> None:
    write_output(tmp_path / "run", {(0, 0): result()}, tasks=1, repeats=1)
    index = observed(clock, tmp_path / "run")
    [run] = index.runs()
    table = index.rollouts(run, run.benchmarks[0])
    assert not table.state().whole
    while not index.read_rollouts():
        pass
    assert table.state().seen_at == clock.seconds()
    assert table.ask(queries.counts).total == 1
    again = observed(clock, tmp_path / "run")
    assert again.rollouts(again.runs()[0], again.runs()[0].benchmarks[0]).ask(queries.counts).total == 1


def test_a_run_that_is_gone_is_not_shown(tmp_path: Path, clock: MovableClock) -> None:
    paths = write_output(tmp_path / "run", {(0, 0): result()}, tasks=1, repeats=1)
    index = observed(clock, tmp_path / "run")
    assert len(index.runs()) == 1
    paths.output.unlink()
    paths.materialized_inputs.unlink()
    index.observe()
    assert index.runs() == []
    assert index.run("nothing") is None
