import io
import json
from pathlib import Path

import pytest

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.submit.follow import follow, line, progress
from nemo_runs.clock import MovableClock

REPORT = {"expected": 40, "done": 10, "failed": 0, "mean_reward": 0.4, "rollouts_per_s": 5.0, "eta_s": 6.2}


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


class World:
    """Two queued jobs of a fake cluster and a script of what happens while they are followed."""

    def __init__(self, folder, *steps):
        self.clock = MovableClock()
        self.cluster = FakeQueue(now=self.clock.seconds)
        self.jobs = {"a": JobRef("fake-1", folder / "a"), "long": JobRef("fake-2", folder / "long")}
        for job in self.jobs.values():
            self.cluster.jobs[job.job_id] = JobObservation(JobState.QUEUED, "")
        self.steps = iter(steps)

    def sleep(self, seconds):
        self.clock.advance(seconds)
        next(self.steps)(self)

    def follow(self, stream):
        return follow(
            FakeJobExecutor(self.cluster), self.jobs, stream=stream, clock=self.clock, sleep=self.sleep
        )

    def report(self, benchmark, **report):
        path = JobPaths(self.jobs[benchmark].job_dir).rollouts.progress
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report))


def both_run(world):
    world.cluster.start("fake-1")
    world.cluster.start("fake-2")
    world.report("a", **REPORT)


def minutes_pass(world):
    world.clock.advance(120)
    world.report("a", **{**REPORT, "done": 30})


def both_end(world):
    world.cluster.end("fake-1", 0)
    world.cluster.end("fake-2", 1, "service 'policy' ended")


def nothing(world):
    pass


def test_jobs_are_followed_to_their_ends_and_each_change_is_one_line(tmp_path):
    stream = io.StringIO()
    world = World(tmp_path, both_run, nothing, nothing, minutes_pass, both_end)
    ends = world.follow(stream)
    assert {name: seen.state for name, seen in ends.items()} == {
        "a": JobState.SUCCEEDED,
        "long": JobState.FAILED,
    }
    assert stream.getvalue().splitlines() == [
        "a     queued",
        "long  queued",
        "a     running  for 0 s  10/40  mean reward 40.0%  6 s left  5.0/s",
        "long  running  for 0 s",
        "a     running  for 2 min 2 s  30/40  mean reward 40.0%  6 s left  5.0/s",
        "long  running  for 2 min 2 s",
        "a     ended with 0  30/40  mean reward 40.0%  (exited with status 0)",
        "long  failed  (service 'policy' ended)",
    ]


def test_a_terminal_is_redrawn_in_place(tmp_path):
    stream = Terminal()
    World(tmp_path, both_run, both_end).follow(stream)
    assert stream.getvalue().count("\x1b[2A") == 2
    assert stream.getvalue().count("\x1b[2K") == 6


def test_stopping_to_follow_leaves_the_jobs_alone_and_says_so(tmp_path):
    def interrupt(world):
        raise KeyboardInterrupt

    stream = io.StringIO()
    world = World(tmp_path, both_run, interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.follow(stream)
    assert stream.getvalue().endswith(
        "The jobs go on without being followed; `gym job results` reports them.\n"
    )
    assert world.cluster.jobs["fake-1"].state is JobState.RUNNING


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_progress_file_that_cannot_be_read_is_no_progress(tmp_path, text):
    path = JobPaths(tmp_path).rollouts.progress
    path.parent.mkdir()
    path.write_text(text)
    assert progress(tmp_path) == {}
    assert progress(Path("/nowhere")) == {}


def test_a_reason_of_several_lines_stays_in_one():
    seen = JobObservation(JobState.UNKNOWN, "its folder\ncannot be read")
    assert line("a", seen, {}, 0.0) == "a  unknown  (its folder cannot be read)"
