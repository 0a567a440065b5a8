"""What Slurm prints, read."""

from __future__ import annotations

import pytest

from nemo_slurm import records
from nemo_slurm.errors import UnusableValueError
from nemo_slurm.records import BREAK, QUEUE_FIELDS, SlurmJob


def queue_line(**changes: str) -> str:
    values = dict.fromkeys(QUEUE_FIELDS, "(null)") | {
        "JobID": "1000", "State": "FAILED", "exit_code": "768", "RestartCnt": "0", "Requeue": "0",
        "Reason": "NonZeroExitCode", "SubmitTime": "1795961799", "StartTime": "1795961800",
        "EndTime": "1795961900", "EligibleTime": "1795961798",
        "Partition": "main", "Name": "gym-é b", "Comment": "run/a b|x/1",
    }  # fmt: skip
    return "".join(f"{value:<30}{BREAK}" for value in (values | changes).values())


def test_a_row_of_the_queue_has_its_times_as_numbers_and_its_status_taken_apart() -> None:
    (row,) = records.read_queue(queue_line() + "\n")
    assert (row.id, row.state.name, row.exit_status, row.signal) == ("1000", "FAILED", 3, 0)
    assert (row.submitted_at, row.started_at, row.ended_at) == (1795961799, 1795961800, 1795961900)
    assert row.eligible_at == 1795961798
    assert (row.name, row.comment, row.dependency, row.requeues) == ("gym-é b", "run/a b|x/1", "", False)


@pytest.mark.parametrize("field", ["Name", "Comment"])
def test_what_squeue_may_have_cut_is_not_known(field: str) -> None:
    width = QUEUE_FIELDS[field]
    fits, cut = (records.read_queue(queue_line(**{field: "x" * size}))[0] for size in (width - 1, width))
    assert len(getattr(fits, field.lower())) == width - 1
    assert getattr(cut, field.lower()) == ""


def test_text_around_rows_is_passed_over_and_a_killed_job_has_its_signal() -> None:
    text = (
        f"Welcome to login1\nCLUSTER: west\n{queue_line(exit_code='9', Requeue='1', StartTime='N/A')}\n\nbye"
    )
    (row,) = records.read_queue(text)
    assert (row.exit_status, row.signal, row.requeues, row.started_at) == (0, 9, True, None)


@pytest.mark.parametrize(
    ("state", "name", "author", "known"),
    [
        ("CANCELLED by 1000", "CANCELLED", 1000, True),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", None, True),
        ("NODE_FAIL", "NODE_FAIL", None, True),
        ("SHINY_NEW", "SHINY_NEW", None, False),
    ],
)
def test_accounting_rows_are_of_allocations_alone(
    state: str, name: str, author: int | None, known: bool
) -> None:
    fields = [
        "1000",
        state,
        "0:15",
        "90",
        "1795961799",
        "1795961800",
        "Unknown",
        "2",
        "gym",
        "token",
        "1000",
        "1000",
        "1795961790",
    ]
    step = ["1000.batch", "COMPLETED", *fields[2:]]
    text = "\n".join(["Warning: something", BREAK.join(step), BREAK.join(fields), ""])
    (run,) = records.read_accounting(text)
    assert (run.state.name, run.state.author, run.state.known) == (name, author, known)
    assert (run.elapsed, run.signal, run.nodes, run.ended_at) == (90, 15, 2, None)
    assert run.eligible_at == 1795961790


def test_a_shown_record_keeps_values_with_blanks_and_its_first_of_two_keys() -> None:
    line = "JobId=7 JobName=a b c Reason=None Comment=x Reason=y WorkDir=/tmp/it is  Power= "
    found = records.read_show(line)
    assert (found["JobName"], found["Reason"], found["WorkDir"], found["Power"]) == (
        "a b c",
        "None",
        "/tmp/it is",
        "",
    )


def test_limits_of_a_partition_are_seconds_or_none() -> None:
    text = (
        "PartitionName=gpu AllowAccounts=a,b Default=NO DefaultTime=NONE MaxNodes=4 MaxTime=1-12:00:00 "
        "State=UP TotalNodes=9\n"
        "PartitionName=old AllowAccounts=ALL Default=YES DefaultTime=00:30:00 MaxNodes=UNLIMITED "
        "MaxTime=UNLIMITED State=DOWN TotalNodes=1\n"
    )
    gpu, old = records.read_partitions(text)
    assert (gpu.max_seconds, gpu.default_seconds, gpu.max_nodes, gpu.accounts) == (
        129_600,
        None,
        4,
        ("a", "b"),
    )
    assert (old.max_seconds, old.default_seconds, old.up, old.accounts) == (None, 1800, False, None)


def test_the_text_of_a_job_is_read_back() -> None:
    assert SlurmJob.parse(str(SlurmJob("12", "west"))) == SlurmJob("12", "west")
    for text in ("", "x", "12;", "0"):
        with pytest.raises(UnusableValueError):
            SlurmJob.parse(text)


@pytest.mark.parametrize(
    "odd",
    [
        "MaxTime=Partition_Limit",
        "MaxTime=-0:00:16",
        "MaxTime=00:99:00",
        "DefaultTime=?",
        "MaxNodes=-1",
        "MaxNodes=many",
    ],
)
def test_a_limit_that_cannot_be_read_is_not_known_and_stops_nothing(odd: str) -> None:
    key, _, value = odd.partition("=")
    limits = {"MaxTime": "48:00:00", "DefaultTime": "NOT_SET", "MaxNodes": "(null)", key: value}
    text = "PartitionName=a " + " ".join(f"{k}={v}" for k, v in limits.items()) + " State=UP"
    (found,) = records.read_partitions(f"{text}\n")
    assert found.unread == (odd,)
    assert found.max_seconds in (None, 48 * 3600)
    assert (found.default_seconds, found.max_nodes, found.up) == (None, None, True)


@pytest.mark.parametrize(("state", "up"), [("UP", True), ("INACTIVE", False), ("", None), ("SHINY", None)])
def test_a_partition_is_up_down_or_nobody_knows(state: str, up: bool | None) -> None:
    (found,) = records.read_partitions(f"PartitionName=a MaxTime=INFINITE AllowAccounts= State={state}\n")
    assert (found.up, found.accounts, found.max_seconds) == (up, None, None)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("StartTime", "Unknown"), ("EndTime", "N/A"), ("SubmitTime", "2026-11-30T05:00:00"),
        ("RestartCnt", "INVALID"), ("exit_code", "-1"), ("UserID", "4294967294x"), ("RestartCnt", "\u00b2"),
    ],
)  # fmt: skip
def test_an_odd_field_of_a_row_is_left_out_and_the_row_is_kept(field: str, text: str) -> None:
    (row,) = records.read_queue(queue_line(**{field: text}) + "\n")
    assert (row.id, row.state.name) == ("1000", "FAILED")


def test_a_number_in_digits_of_another_script_is_no_job() -> None:
    assert records.read_queue(queue_line(JobID="\u00b2\u00b3") + "\n") == []


def test_a_name_that_accounting_was_not_told_and_a_component_are_read_as_what_they_are() -> None:
    fields = ["8", "COMPLETED", "0:0", "0", "1", "2", "3", "1", "allocation", "", "1000", "7+1", "Unknown"]
    (run,) = records.read_accounting(BREAK.join(fields))
    assert (run.name, run.comment, run.user, run.component_of) == ("", "", 1000, "7")
    (leader,) = records.read_accounting(BREAK.join([*fields[:-2], "7+0", ""]))
    assert (leader.component_of, leader.eligible_at) == (None, None)


@pytest.mark.parametrize("text", ["4294967295999", "18446744073709551615", "0", "-1", "1e9"])
def test_a_number_that_is_no_date_is_no_time(text: str) -> None:
    (row,) = records.read_queue(queue_line(EndTime=text, EligibleTime=text) + "\n")
    assert (row.ended_at, row.eligible_at) == (None, None)
