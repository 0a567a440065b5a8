"""The closed set of events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nemo_gym
from nemo_gym.events import ChainEvent, record
from nemo_runs.clock import MovableClock, SystemClock, utc_text
from nemo_runs.durable.journal import Journal, read_journal

SHELL = Path(nemo_gym.__file__).parent / "shell"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / ".gym_events.jsonl")


def test_an_event_is_recorded_with_its_time_and_fields(journal: Journal) -> None:
    clock = MovableClock(1_800_000_000_250_000)
    record(journal, "submitted", clock=clock, job_id="local-7", cluster=None)
    clock.advance(90)
    returned = record(journal, ChainEvent.JOB_ENDED, clock=clock, status=0)
    assert read_journal(journal.path) == [
        {"at": "2027-01-15T08:00:00.250Z", "event": "submitted", "job_id": "local-7"},
        {"at": "2027-01-15T08:01:30.250Z", "event": "job_ended", "status": 0},
    ]
    assert returned["status"] == 0


def test_a_name_outside_the_set_is_refused_and_writes_nothing(journal: Journal) -> None:
    with pytest.raises(ValueError, match="exploded"):
        record(journal, "exploded")
    assert not journal.path.exists()


def test_without_a_clock_the_time_is_now(journal: Journal) -> None:
    before = utc_text(SystemClock().seconds())
    at = str(record(journal, ChainEvent.QUEUED)["at"])
    assert before <= at <= utc_text(SystemClock().seconds())


def test_the_shell_files_write_events_of_the_set_alone() -> None:
    texts = [path.read_text() for path in SHELL.glob("*.sh")]
    names = {
        name for text in texts for name in re.findall(r"^[^#\n]*\bgym_event ([a-z_]+)", text, re.MULTILINE)
    }
    assert names
    assert names <= {event.value for event in ChainEvent}


def test_every_event_is_a_name_in_the_past_tense_for_a_person() -> None:
    assert all(re.fullmatch(r"[a-z_]+(ed|died|lost|sent|healthy)", event.value) for event in ChainEvent)
