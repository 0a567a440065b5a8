"""What the bill of a job looks like to a person, and that a program gets all of it."""

from tests.nemo_helix_plugin import stand_in

JOB = "unsloth-0000000000aa"


def test_a_line_for_each_allocation_and_the_sums(service, nemo):
    ran = nemo("jobs", "bill", JOB, "-f", "table")
    assert (ran.status, ran.err) == (0, "")
    first, second = [line for line in ran.out.splitlines() if line.lstrip().startswith("training")]
    for what in ("1 min 30 s", "1 h 30 min", "23.999", "0 to 4,207", " 7 ", "8.5 s"):
        assert what in first, what
    assert "interrupted, since it was preempted, without notice: job 4711 on n3" in " ".join(ran.out.split())
    assert "training (attempt 2)" in second
    assert "waits" in second
    sums = ran.out.split("\n\n")[1].splitlines()
    ran_for = "2 allocations ran 1 h 30 min (3.00 node hours, 23.999 GPU hours)"
    assert sums == [
        f"{ran_for}, of which 30.0 s until their first training steps.",
        "Waited 3 min.",
        "Interrupted 1 time.",
        "Lost 8.5 s, 7 training steps to be done again.",
    ]


def test_a_program_gets_the_whole_bill(service, nemo):
    document = nemo("jobs", "bill", JOB, "--json").document
    assert document["totals"] == stand_in.BILL["totals"]
    assert [line["task"] for line in document["allocations"]] == ["task-1", "task-2"]


def test_a_job_that_was_never_started_says_so(service, nemo, monkeypatch):
    monkeypatch.setitem(stand_in.BILL, "allocations", [])
    ran = nemo("jobs", "bill", JOB, "-f", "table")
    assert (ran.status, ran.out) == (0, "")
    assert "was not started yet" in ran.err


def test_a_table_of_values_has_a_row_for_each_allocation(service, nemo):
    ran = nemo("jobs", "bill", JOB, "-f", "csv")
    header, *rows = ran.out.splitlines()
    assert header.split(",")[:3] == ["attempt", "step", "task"]
    assert len(rows) == 2
