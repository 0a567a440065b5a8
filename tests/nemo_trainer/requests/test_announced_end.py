"""Leaving ahead of an end that was announced: the walltime, a preemption, a signal."""

import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest
from tests.nemo_trainer.trainings import eventually, run, start, weights

from nemo_trainer.contract import (
    Allocation,
    Control,
    JobContext,
    history,
    list_checkpoints,
    read_progress,
    write_allocation,
    write_control,
)
from nemo_trainer.requests.announced_end import AnnouncedEnd
from nemo_trainer.requests.signals import Flags
from nemo_trainer.saving import SavePolicy
from nemo_trainer.session import Session

NOW = 1_800_000_000.0


class Clock:
    """A date and a monotonic clock that are moved together."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def context_of(folder, **fields):
    fields = {"job": "job", "attempt": "attempt-1", "task": "task-1", **fields}
    return JobContext(trainer_path=folder, storage=folder, **fields)


def end_of(tmp_path, clock, flags=None, **fields):
    return AnnouncedEnd(context_of(tmp_path, **fields), flags or Flags(), clock=clock, monotonic=clock)


def steps_until_it_leaves(end, clock, *, step, save, boundary=1):
    """So many steps are done before it is time to leave, and the seconds that are left then."""
    for number in range(1, 100_000):
        clock.now += step
        end.step_done()
        end.look()
        if number % boundary == 0 and end.because(save, boundary) is not None:
            return number, end.left
    raise AssertionError("it never leaves")


@pytest.mark.parametrize(
    ("step", "save", "boundary"), [(1, 10, 1), (30, 5, 1), (0.1, 60, 1), (1, 300, 1), (2, 10, 8)]
)
def test_a_save_fits_before_the_end_and_not_another_step_besides(tmp_path, clock, step, save, boundary):
    end = end_of(tmp_path, clock, ends_at=NOW + 3600)
    _number, left = steps_until_it_leaves(end, clock, step=step, save=save, boundary=boundary)
    assert left >= save * 1.5
    assert left <= 1.5 * (save + boundary * step) + 5 + boundary * step


def test_without_an_end_nothing_is_left_early(tmp_path, clock):
    end = end_of(tmp_path, clock)
    end.step_done()
    clock.now += 1e9
    assert end.because(60, 1) is None
    assert end.left is None


def test_the_end_that_an_administrator_moves_counts_from_the_next_step_on(tmp_path, clock):
    file = tmp_path / "allocation.json"
    end = end_of(tmp_path, clock, ends_at=NOW + 100, allocation_file=file)
    assert not end.look()
    write_allocation(file, Allocation(ends_at=NOW + 1000, by="slurm", at=NOW))
    assert end.look()
    assert not end.look()
    number, left = steps_until_it_leaves(end, clock, step=1, save=10)
    assert number > 900
    assert left > 15
    write_allocation(file, Allocation(ends_at=NOW + 5000, by="slurm", at=NOW))
    assert end.look()
    assert end.because(10, 1) is None
    write_allocation(file, Allocation(ends_at=None, by="slurm", at=NOW))
    end.look()
    assert end.because(10, 1) is None


def test_a_torn_file_changes_nothing_and_is_looked_at_again(tmp_path, clock):
    file = tmp_path / "allocation.json"
    end = end_of(tmp_path, clock, ends_at=NOW + 100, allocation_file=file)
    file.write_text('{"ends_at": 18')
    assert not end.look()
    assert end.ends_at == NOW + 100
    write_allocation(file, Allocation(ends_at=NOW + 200, by="slurm", at=NOW))
    assert end.look()
    assert end.ends_at == NOW + 200


def test_a_notice_is_acted_upon_at_once_whatever_time_is_left(tmp_path, clock):
    file = tmp_path / "allocation.json"
    end = end_of(tmp_path, clock, allocation_file=file)
    write_allocation(file, Allocation(ends_at=NOW + 9999, notice="it is preempted", by="slurm", at=NOW))
    end.look()
    assert end.because(1, 1) == "it is preempted"


def test_one_slow_step_never_takes_more_than_half_of_the_time(tmp_path, clock):
    end = end_of(tmp_path, clock, ends_at=NOW + 3600)
    end.step_done()
    clock.now += 1500
    end.step_done()
    assert end.because(10, 1) is None
    clock.now += 301
    assert end.because(10, 1) is not None


def test_saves_do_not_count_as_slow_steps(tmp_path, clock):
    end = end_of(tmp_path, clock, ends_at=NOW + 3600)
    for _ in range(5):
        clock.now += 1
        end.step_done()
        clock.now += 200
        end.saved()
    clock.now = NOW + 3600 - 100
    assert end.because(10, 1) is None


class TestSession:
    def test_leaving_is_a_pause_that_says_why(self, tmp_path):
        file = tmp_path / "allocation.json"
        now = time.time()
        with Session.open(context_of(tmp_path, ends_at=now + 7200, allocation_file=file)) as session:
            session.restore()
            session.expect_checkpoint(1)
            assert session.wanted() == "run"
            write_allocation(file, Allocation(ends_at=now, by="slurm", at=now))
            assert session.wanted() == "pause"
        said = read_progress(tmp_path / "progress.json")
        assert said["leaves_because"].startswith("its allocation ends at 2")
        assert said["training_since"] > 0

    def test_to_stop_outranks_it_and_a_checkpoint_that_was_asked_for_does_not(self, tmp_path):
        control = tmp_path / "control.json"
        context = context_of(tmp_path, ends_at=1.0, control_file=control)
        with Session.open(context) as session:
            session.restore()
            write_control(control, Control(1, "checkpoint", "ann", 0.0))
            assert session.wanted() == "pause"
            write_control(control, Control(2, "stop", "ann", 0.0))
            assert session.wanted() == "stop"

    def test_other_ranks_leave_it_to_the_first(self, tmp_path):
        with Session.open(context_of(tmp_path, ends_at=1.0, rank=1)) as session:
            assert session.wanted() == "run"

    def test_the_chosen_interval_and_what_it_is_made_from_are_shown(self, tmp_path):
        context = context_of(tmp_path, ends_at=time.time() + 7200, between_interruptions=3600.0)
        with Session.open(context, policy=SavePolicy(max_overhead=0.1)) as session:
            session.restore()
            session.publish(lambda folder: (folder / "state").write_text("x"), 1)
            session.wanted()
        shown = read_progress(tmp_path / "progress.json")
        interval = shown["checkpoint_interval"]
        assert interval["chosen_by"] == "known_end"
        assert interval["save_measured"] is True
        assert interval["between_interruptions"] == 3600
        assert interval["interruptions_measured"] is True
        assert 0 < interval["left_seconds"] <= 7200
        assert shown["saving"]["measured"] is True

    def test_what_nobody_has_measured_is_said_to_be_presumed(self, tmp_path):
        with Session.open(context_of(tmp_path), policy=SavePolicy(max_overhead=0.1)) as session:
            session.restore()
        interval = read_progress(tmp_path / "progress.json")["checkpoint_interval"]
        assert interval["between_interruptions"] == 86_400
        assert interval["interruptions_measured"] is False
        assert interval["save_measured"] is False

    def test_the_next_start_knows_what_a_save_takes(self, tmp_path):
        def slow(folder):
            time.sleep(0.05)
            (folder / "state").write_text("x")

        with Session.open(context_of(tmp_path)) as session:
            session.restore()
            session.publish(slow, 1)
        with Session.open(context_of(tmp_path, task="task-2")) as session:
            session.restore()
        saving = read_progress(tmp_path / "progress.json")["saving"]
        assert saving["measured"] is True
        assert saving["seconds"] >= 0.05

    def test_a_library_that_writes_by_itself_is_timed_as_a_whole(self, tmp_path):
        with Session.open(context_of(tmp_path)) as session:
            session.restore()
            folder = tmp_path / "library"
            session.save_begins()
            folder.mkdir()
            (folder / "state").write_text("x")
            time.sleep(0.06)
            session.publish(folder, 1)
        assert read_progress(tmp_path / "progress.json")["saving"]["seconds"] >= 0.06


@pytest.mark.slow
class TestRealProcesses:
    OPTIONS = ("--steps", "150", "--step-seconds", "0.02", "--save-every", "1000")

    @pytest.fixture
    def uninterrupted(self, tmp_path):
        run(tmp_path / "alone", *self.OPTIONS)
        return weights(tmp_path / "alone")

    def test_an_announced_end_repeats_no_step_and_changes_no_weight(self, tmp_path, uninterrupted):
        folder = tmp_path / "drained"
        file = tmp_path / "allocation.json"
        env = {"NEMO_JOB_ALLOCATION_FILE": str(file), "NEMO_JOB_ATTEMPT_ID": "a", "NEMO_JOB_TASK": "t1"}
        for _ in range(2):
            file.unlink(missing_ok=True)
            before = len(list_checkpoints(folder))
            process = start(folder, *self.OPTIONS, env=env)
            eventually(lambda: read_progress(folder / "progress.json").get("phase") == "training", process)
            at = read_progress(folder / "progress.json")["step"]
            eventually(lambda: read_progress(folder / "progress.json").get("step", 0) > at + 3, process)  # noqa: B023
            write_allocation(file, Allocation(ends_at=time.time() + 0.5, by="test", at=0.0))
            out, err = process.communicate(timeout=60)
            assert process.returncode == 75, (out, err)
            assert len(list_checkpoints(folder)) > before
            assert read_progress(folder / "progress.json")["leaves_because"]
        file.unlink()
        run(folder, *self.OPTIONS, env=env)
        assert weights(folder) == uninterrupted
        rows = history(folder / "metrics.jsonl")
        raw = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"values"' in line]
        assert len(raw) == len(rows) == 150  # no step was trained twice

    @pytest.mark.parametrize(("name", "number"), [("USR1", signal.SIGUSR1), ("TERM", signal.SIGTERM)])
    def test_the_signal_that_the_launcher_names_ends_it_in_the_same_way(self, tmp_path, name, number):
        process = start(tmp_path, *self.OPTIONS, env={"NEMO_JOB_END_SIGNAL": name})
        eventually(lambda: read_progress(tmp_path / "progress.json").get("step", 0) > 3, process)
        os.kill(process.pid, number)
        process.communicate(timeout=60)
        assert process.returncode == 75
        said = read_progress(tmp_path / "progress.json")
        assert said["leaves_because"] == "a signal announced the end of its allocation"
        assert list_checkpoints(tmp_path)[-1].step == said["final_step"]

    def test_a_nudge_ends_nothing_where_no_signal_is_named(self, tmp_path):
        process = start(tmp_path, *self.OPTIONS)
        eventually(lambda: read_progress(tmp_path / "progress.json").get("step", 0) > 3, process)
        os.kill(process.pid, signal.SIGUSR1)
        process.communicate(timeout=60)
        assert process.returncode == 0

    def test_a_training_that_hangs_says_where_and_goes_on_hanging(self, tmp_path):
        process = start(tmp_path, *self.OPTIONS, "--fail-at", "5", "--fail-how", "hang")
        try:
            eventually((tmp_path / "failures").exists, process)
            assert _catches(process.pid, signal.SIGUSR2)
            os.kill(process.pid, signal.SIGUSR2)
            seen = ""
            while "fault_injection.py" not in seen:
                seen += process.stderr.readline()
            assert process.poll() is None
        finally:
            process.kill()
            process.communicate(timeout=60)


def _catches(pid, number):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_the_fields_of_a_context_that_announce_nothing_are_the_default():
    context = JobContext.from_environ({})
    assert dataclasses.asdict(context)["ends_at"] is None
    assert context.allocation_file is None
    assert context.end_signal is None
