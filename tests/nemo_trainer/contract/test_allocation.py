import json

import pytest

from nemo_trainer.contract import Allocation, BadSpecError, JobContext, read_allocation, write_allocation
from nemo_trainer.contract.allocation import FILE


def test_what_is_written_is_read(tmp_path):
    said = Allocation(
        ends_at=1800.5, notice="it is preempted", kind="preemption", noticed_at=1780.0, by="slurm", at=1781.0
    )
    write_allocation(tmp_path / FILE, said)
    assert read_allocation(tmp_path / FILE) == said
    assert set(json.loads((tmp_path / FILE).read_bytes())) == {
        "ends_at",
        "notice",
        "kind",
        "noticed_at",
        "by",
        "at",
    }
    assert said.grace_seconds == 20.5


def test_a_file_of_an_earlier_version_says_nothing_of_when_the_notice_was_given(tmp_path):
    (tmp_path / FILE).write_text('{"ends_at": 9, "notice": "it is preempted", "by": "slurm", "at": 1}')
    found = read_allocation(tmp_path / FILE)
    assert found is not None
    assert (found.notice, found.kind, found.noticed_at, found.grace_seconds) == (
        "it is preempted",
        "",
        None,
        None,
    )


def test_no_end_and_no_notice(tmp_path):
    (tmp_path / FILE).write_text('{"ends_at": null, "by": "slurm", "at": 1, "later": "field"}')
    assert read_allocation(tmp_path / FILE) == Allocation(ends_at=None, by="slurm", at=1.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "7",
        '{"by": "a", "at": 1}',
        '{"ends_at": "soon", "by": "a", "at": 1}',
        '{"ends_at": NaN, "by": "a", "at": 1}',
        '{"ends_at": 1e18, "by": "a", "at": 1}',
        '{"ends_at": 1, "noticed_at": -1, "by": "a", "at": 1}',
        '{"ends_at": 1, "noticed_at": "now", "by": "a", "at": 1}',
        '{"ends_at": 1, "noticed_at": Infinity, "by": "a", "at": 1}',
        '{"ends_at": 1e999, "by": "a", "at": 1}',
        '{"ends_at": 1',
        "[" * 100_000,
    ],
)
def test_anything_else_is_no_news(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_allocation(tmp_path / FILE) is None


def test_the_environment_names_the_file_the_end_and_the_signal(tmp_path):
    context = JobContext.from_environ(
        {
            "NEMO_JOB_ENDS_AT": "1800000000.5",
            "NEMO_JOB_ALLOCATION_FILE": str(tmp_path / FILE),
            "NEMO_JOB_END_SIGNAL": "USR1",
            "NEMO_JOB_SECONDS_BETWEEN_INTERRUPTIONS": "7200",
        }
    )
    assert context.ends_at == 1_800_000_000.5
    assert context.allocation_file == tmp_path / FILE
    assert context.end_signal is not None
    assert context.end_signal.name == "SIGUSR1"
    assert context.between_interruptions == 7200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEMO_JOB_ENDS_AT", "tomorrow"),
        ("NEMO_JOB_ENDS_AT", "nan"),
        ("NEMO_JOB_ENDS_AT", "-1"),
        ("NEMO_JOB_SECONDS_BETWEEN_INTERRUPTIONS", "0"),
        ("NEMO_JOB_END_SIGNAL", "USR2"),
        ("NEMO_JOB_END_SIGNAL", "10"),
    ],
)
def test_what_is_none_of_these_is_refused_by_its_name(name, value):
    with pytest.raises(BadSpecError, match=f"{name} is '{value}'; it must be"):
        JobContext.from_environ({name: value})
