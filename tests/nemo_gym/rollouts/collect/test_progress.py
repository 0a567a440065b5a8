import io
import json
import os

import pytest
from rich.console import Console

from nemo_gym.rollouts.collect import console as collect_console
from nemo_gym.rollouts.collect.progress import (
    Bar,
    ProgressLines,
    ProgressReport,
    Rate,
    Snapshot,
    progress_line,
)


def snapshot(done, expected=1000, new=None, **more):
    new = done if new is None else new
    return Snapshot(expected, done, new, more.pop("failed", 0), reward_sum=new * 0.5, **more)


class Silent:
    def show(self, *_arguments):
        pass

    def report(self, message):
        self.said = message

    def close(self):
        self.closed = True


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def test_progress_json_holds_what_later_tools_read(tmp_path):
    clock = Time()
    report = ProgressReport(tmp_path / "progress.json", Silent(), now_utc=lambda: 1.7e9, monotonic=clock)
    report.tick(snapshot(100, new=0))
    clock.now = 10.0
    report.tick(snapshot(150, new=50, failed=2, reward_before=20.0))
    assert json.loads((tmp_path / "progress.json").read_bytes()) == {
        "schema_version": 1,
        "state": "running",
        "expected": 1000,
        "done": 150,
        "new": 50,
        "failed": 2,
        "mean_reward": 0.5,
        "rollouts_per_s": 5.0,
        "eta_s": 170.0,
        "updated_at": 1.7e9,
        "pid": os.getpid(),
        "mean_reward_all": 0.3,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]


def test_the_file_is_replaced_once_a_second_and_always_at_the_end(tmp_path):
    clock, path, display = Time(), tmp_path / "progress.json", Silent()
    report = ProgressReport(path, display, now_utc=lambda: 0, monotonic=clock)
    report.tick(snapshot(1))
    first = path.stat().st_ino
    clock.now = 0.5
    report.tick(snapshot(2))
    assert json.loads(path.read_bytes())["done"] == 1
    clock.now = 1.0
    report.tick(snapshot(3))
    assert json.loads(path.read_bytes())["done"] == 3
    assert path.stat().st_ino != first
    report.finish(snapshot(4, state="complete"))
    assert json.loads(path.read_bytes())["state"] == "complete"
    assert display.closed


def test_a_file_that_cannot_be_written_ends_nothing(tmp_path):
    display = Silent()
    report = ProgressReport(tmp_path / "gone" / "progress.json", display, now_utc=lambda: 0, monotonic=Time())
    report.tick(snapshot(1))
    assert "cannot be written" in display.said


def test_lines_come_at_most_every_five_seconds_and_after_a_percent():
    lines = []
    show = ProgressLines(lines.append).show
    for tenth in range(1000):  # 100 s at 100 results a second: a percent each 0.1 s
        show(snapshot(min(1000, tenth)), 10.0, 1.0, tenth / 10)
    assert len(lines) == 19


def test_a_slow_run_says_something_once_a_minute():
    lines = []
    show = ProgressLines(lines.append).show
    for second in range(600):
        show(snapshot(second // 100, expected=1_000_000), 0.01, None, float(second))
    assert len(lines) == 9


def test_a_run_of_any_length_prints_a_bounded_number_of_lines():
    lines = []
    show = ProgressLines(lines.append).show
    for second in range(0, 3000, 1):
        show(snapshot(second, expected=3000), 1.0, 1.0, float(second))
    assert len(lines) <= 100


def test_a_line_holds_counts_reward_rate_and_time_left():
    line = progress_line(snapshot(250, failed=3), 12.5, 3725.0)
    assert line == "250/1,000 rollouts (25%), mean reward 50.0%, 12.5/s, 3 failed attempts, 1 h 2 min left"


@pytest.mark.parametrize(("eta", "text"), [(5.2, "5 s left"), (65, "1 min 5 s left"), (3599.7, "1 h left")])
def test_the_time_left_is_short(eta, text):
    assert progress_line(snapshot(1), 1.0, eta).endswith(text)


def test_the_rate_is_that_of_the_last_half_minute():
    rate = Rate(window=30)
    for second in range(100):
        rate.update(float(second), 10 * second)
    for second in range(100, 140):
        last = rate.update(float(second), 1000)
    assert last == 0.0


@pytest.mark.parametrize("shows_bar", [False, True])
def test_words_of_a_server_reach_the_terminal_without_commands(shows_bar):
    class Terminal(io.StringIO):
        def isatty(self):
            return shows_bar

    out = Terminal()
    console = collect_console.Console(out)
    console.show_progress(10)
    console.report("the server said \x1b]0;owned\x07[/red]")
    assert "said \\x1b]0;owned\\x07[/red]" in out.getvalue()


def test_the_bar_shows_done_reward_and_rate():
    out = io.StringIO()
    bar = Bar(Console(file=out, force_terminal=True, width=120), expected=1000)
    bar.show(snapshot(250), 12.0, 60.0, 0.0)
    bar.report("a line [not markup]")
    bar.close()
    text = out.getvalue()
    assert "250/1000" in text
    assert "mean reward 50.0%" in text
    assert "a line [not markup]" in text
