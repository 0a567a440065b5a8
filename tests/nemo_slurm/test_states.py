"""States of jobs as Slurm prints them, and what each means for a successor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nemo_slurm import states
from nemo_slurm.states import Meaning, read_state

# sacct(1) of Slurm 24.11, "JOB STATE CODES", base states and flags
ALL_STATES = """
BOOT_FAIL CANCELLED COMPLETED CONFIGURING COMPLETING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL
OUT_OF_MEMORY PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING
RESV_DEL_HOLD REVOKED RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UPDATE_DB
""".split()  # noqa: SIM905 - a table reads best as one


def meaning(text: str) -> Meaning | None:
    state = read_state(text)
    return state.meaning if state else None


def test_the_table_holds_every_state_of_the_manual_and_no_other() -> None:
    assert sorted(states.table()) == sorted(ALL_STATES)


@pytest.mark.parametrize("name", ALL_STATES)
def test_every_state_is_read_back_with_a_reason(name: str) -> None:
    state = read_state(name)
    assert state is not None
    assert (state.name, state.known, bool(state.reason)) == (name, True, True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("COMPLETED", Meaning.COMPLETE),
        ("CANCELLED", Meaning.CANCELLED),
        ("TIMEOUT PREEMPTED NODE_FAIL", Meaning.INFRASTRUCTURE),
        ("FAILED OUT_OF_MEMORY BOOT_FAIL DEADLINE REVOKED LAUNCH_FAILED RECONFIG_FAIL", Meaning.OTHER),
        ("PENDING RUNNING COMPLETING STOPPED SPECIAL_EXIT EXPEDITING REQUEUED SUSPENDED", Meaning.LAG),
    ],
)
def test_states_mean_what_the_page_and_the_decisions_say(names: str, expected: Meaning) -> None:
    assert {meaning(name) for name in names.split()} == {expected}


def test_a_cancellation_shows_who_cancelled() -> None:
    state = read_state("CANCELLED by 1000\n")
    assert state is not None
    assert (state.name, state.meaning, state.author) == ("CANCELLED", Meaning.CANCELLED, 1000)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL+", "NODE_FAIL"),
        ("LAUNCH_FA+", "LAUNCH_FAILED"),
        ("SPECIAL_E+", "SPECIAL_EXIT"),
    ],
)
def test_a_state_that_was_cut_short_is_found_by_its_beginning(text: str, name: str) -> None:
    state = read_state(text)
    assert state is not None
    assert (state.name, state.known) == (name, True)


def test_a_beginning_that_fits_several_states_counts_only_when_they_mean_the_same() -> None:
    assert meaning("REQUEUE_+") is Meaning.LAG
    assert meaning("RE+") is Meaning.OTHER  # REQUEUED and REVOKED


@pytest.mark.parametrize(
    "text", ["HIBERNATED", "COMPLETE", "COMPLETED by", "completed", "COMPLETED FAILED", "-", "0"]
)
def test_what_nobody_has_heard_of_is_other_and_never_done(text: str) -> None:
    state = read_state(text)
    assert state is not None
    assert (state.name, state.meaning, state.known) == (text, Meaning.OTHER, False)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_empty_output_is_not_a_state(text: str) -> None:
    assert read_state(text) is None


def test_bash_reads_the_same_table() -> None:
    file = Path(states.__file__).with_name("states.tsv")
    script = r"""while IFS=$'\t' read -r state decision reason; do
        [[ $state == '#'* ]] || printf '%s %s\n' "$state" "$decision"; done <"$1" """
    done = subprocess.run(["bash", "-c", script, "_", file], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{row.name} {row.meaning}" for row in states.table().values()]
