"""The tutorial of the Jobs service says what happens: its commands are run, and their outputs compared."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests import engines

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tutorial() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("write_tutorial", ROOT / "scripts" / "write_tutorial.py")
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    sys.modules["write_tutorial"] = writer  # dataclasses look their module up
    spec.loader.exec_module(writer)
    return writer


@pytest.mark.e2e
@pytest.mark.slow
def test_the_tutorial_says_what_its_commands_print(tutorial: ModuleType) -> None:
    page = tutorial.PAGE.read_text(encoding="utf-8")
    assert len(tutorial.shown(page)) > 20
    assert tutorial.differences(page, tutorial.write(page)) == []


@pytest.mark.e2e
@pytest.mark.slow
def test_the_tutorial_of_fine_tuning_does_too(
    tutorial: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.engine_python("trl")
    monkeypatch.setenv("XDG_CACHE_HOME", engines.shared_cache(tmp_path / "cache"))
    page = tutorial.PAGE.with_name("fine-tune.md").read_text(encoding="utf-8")
    assert "every step, to the last digit: the same\n" in page
    assert "&& echo the same bytes\nthe same bytes\n" in page
    assert tutorial.differences(page, tutorial.write(page)) == []


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        ("first-training  paused", "first-training  active"),
        ("free memory on the machine", "wait for a while"),
        ("out of memory", "disk full"),
        ("nemo jobs resume first-training", "nemo jobs rerun first-training"),
        ("6 d 23 h left", "3 h 59 min left"),
        ("pause, train_loss", "periodic, train_loss"),
        ("done after step", "stopped after step"),
        ("created at", "made at"),
        ("continuing from step 90", "continuing from step 60"),
    ],
)
def test_an_output_that_is_not_so_is_found(tutorial: ModuleType, told: str, instead: str) -> None:
    page = tutorial.PAGE.read_text(encoding="utf-8")
    outputs = [one for one in tutorial.shown(page) if told in one.output]
    assert outputs
    output = outputs[0].output
    assert tutorial.differences(page, page.replace(output, output.replace(told, instead)))


def test_the_page_of_demos_shows_outputs_of_the_tutorial(tutorial: ModuleType) -> None:
    demos = tutorial.shown(tutorial.PAGE.with_name("demos.md").read_text(encoding="utf-8"))
    page = tutorial.shown(tutorial.PAGE.read_text(encoding="utf-8"))
    there = {(one.command, *tutorial.comparable(one.output)) for one in page}
    assert demos
    assert [one for one in demos if (one.command, *tutorial.comparable(one.output)) not in there] == []


def test_numbers_times_and_ids_of_another_run_are_no_difference(tutorial: ModuleType) -> None:
    before = "platform-job-attempt-V9hV7NGNyzthyCByYFYHN3  2026-11-29T18:08Z  4 s ago  step 7 loss 0.25\n"
    after = "platform-job-attempt-xp58TKhNPeY8ztq9qVzRtJ  2027-01-02T03:04Z  now  step 12 loss 1e-05\n"
    assert tutorial.comparable(before) == tutorial.comparable(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kept, 6 d 23 h left", "kept, 7 d left"),
        ("kept, 6 d 23 h left", "kept, 6 d 23 h 59 min left"),
        ("kept, 13 d 23 h left", "kept, 14 d left"),
        ("kept, 3 h 59 min left", "kept, 4 h left"),
        ("kept, 23 h 59 min left", "kept, 1 d left"),
        ("begun 59 s ago", "begun 1 min 2 s ago"),
        ("begun now", "begun 2 min ago"),
    ],
)
def test_a_second_more_or_less_is_no_difference(tutorial: ModuleType, before: str, after: str) -> None:
    assert tutorial.comparable(before) == tutorial.comparable(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kept, 7 d left", "kept, 14 d left"),
        ("kept, 4 h left", "kept, 3 h left"),
        ("kept, 4 h left", "kept, 4 d left"),
    ],
)
def test_another_window_is_one(tutorial: ModuleType, before: str, after: str) -> None:
    assert tutorial.comparable(before) != tutorial.comparable(after)


def test_of_many_lines_that_are_alike_the_first_and_the_last_are_shown(tutorial: ModuleType) -> None:
    log = "\n".join(["begin", *(f"step {n} loss 0.{n}" for n in range(1, 9)), "end"])
    assert tutorial.shortened(log) == "begin\nstep 1 loss 0.1\n...\nstep 8 loss 0.8\nend"
