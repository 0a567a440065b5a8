import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runs.durable.files import RowAppender, repair_tail
from nemo_trainer.contract import ContinueRow, MetricRow, MetricTail, history, merged, parse_row

finite = st.floats(allow_nan=False, allow_infinity=False)
rows = st.one_of(
    st.builds(
        MetricRow,
        step=st.integers(1, 30),
        time=finite,
        attempt=st.text(max_size=5),
        values=st.dictionaries(st.text(max_size=5), finite, max_size=3),
        epoch=st.none() | finite,
    ),
    st.builds(
        ContinueRow,
        continue_from=st.integers(0, 30),
        attempt=st.text(max_size=5),
        task=st.text(max_size=5),
        time=finite,
    ),
)


def folded(items):
    steps = {}
    for item in items:
        steps = merged(steps, item)
    return [steps[step] for step in sorted(steps)]


@given(rows)
def test_a_row_is_read_as_it_was_written(row):
    line = row.to_line()
    assert b"\n" not in line
    assert parse_row(line) == row


@settings(max_examples=60, deadline=None)
@given(
    items=st.lists(rows, max_size=20),
    cuts=st.lists(st.integers(0, 4000), max_size=8),
    most=st.integers(1, 300),
)
def test_a_tail_read_at_any_moments_gives_each_row_once(tmp_path_factory, items, cuts, most):
    path = tmp_path_factory.mktemp("tail") / "metrics.jsonl"
    data = b"".join(row.to_line() + b"\n" for row in items)
    found, offset, written = [], 0, 0
    path.write_bytes(b"")
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        with path.open("ab") as file:
            file.write(data[written:cut])
        written = max(written, cut)
        while True:
            more, behind = MetricTail(path, offset).read(most)
            if behind == offset:
                break
            found, offset = [*found, *more], behind
    assert found == items
    assert offset == len(data)
    assert history(path) == folded(items)


@settings(max_examples=60, deadline=None)
@given(before=st.lists(rows, min_size=1, max_size=6), after=rows, cut=st.integers(0, 10_000))
@pytest.mark.slow
def test_a_row_torn_at_any_byte_is_kept_aside_and_the_next_one_is_whole(tmp_path_factory, before, after, cut):
    path = tmp_path_factory.mktemp("torn") / "metrics.jsonl"
    data = b"".join(row.to_line() + b"\n" for row in before)
    data = data[: cut % (len(data) + 1)]
    path.write_bytes(data)
    whole = data.count(b"\n")
    repair_tail(path)
    appender = RowAppender(path)
    appender.append(after.to_line())
    appender.close()
    assert MetricTail(path).read().rows == [*before[:whole], after]


def test_a_continue_row_drops_later_steps_so_that_each_appears_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    items = [MetricRow(step, float(step), "a-1", {"loss": 1.0 / step}) for step in range(1, 8)]
    items.append(ContinueRow(5, "a-2", "task", 9.0))
    items += [MetricRow(step, 10.0 + step, "a-2", {"loss": 2.0 / step}) for step in (6, 7, 8)]
    path.write_bytes(b"".join(item.to_line() + b"\n" for item in items))
    found = history(path)
    assert [(row.step, row.attempt) for row in found] == [
        *((step, "a-1") for step in range(1, 6)),
        *((step, "a-2") for step in (6, 7, 8)),
    ]


def test_values_of_one_step_come_together(tmp_path):
    path = tmp_path / "metrics.jsonl"
    items = [
        MetricRow(1, 1.0, "a", {"loss": 1.0, "x": 1.0}),
        MetricRow(1, 2.0, "a", {"val_loss": 3.0, "x": 2.0}),
    ]
    path.write_bytes(b"".join(item.to_line() + b"\n" for item in items))
    assert [dict(row.values) for row in history(path)] == [{"loss": 1.0, "val_loss": 3.0, "x": 2.0}]


def test_what_is_no_finite_number_is_no_point():
    row = MetricRow(1, 1.0, "a", {"a": math.nan, "b": math.inf, "c": True, "d": 2, "e": "text"})
    assert json.loads(row.to_line())["values"] == {"d": 2}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"null",
        b"3",
        b'"continue_from"',
        b'{"step": 1}',
        b'{"step": true, "time": 1, "attempt": "a", "values": {}}',
        b'{"step": -1, "time": 1, "attempt": "a", "values": {}}',
        b'{"step": 1, "time": 1, "attempt": "a", "values": []}',
        b'{"continue_from": 1.5, "attempt": "a", "task": "t", "time": 1}',
        b"[" * 100_000,
    ],
)
def test_a_line_of_another_kind_is_passed_over(tmp_path, line):
    assert parse_row(line) is None
    path = tmp_path / "metrics.jsonl"
    good = MetricRow(1, 1.0, "a", {"loss": 1.0})
    path.write_bytes(line + b"\n" + good.to_line() + b"\n")
    assert MetricTail(path).read().rows == [good]


@pytest.mark.parametrize("regrown", [False, True])
def test_a_file_that_lost_its_end_is_read_again_from_the_beginning(tmp_path, regrown):
    path = tmp_path / "metrics.jsonl"
    items = [MetricRow(step, 1.0, "a", {"loss": 1.0}) for step in range(1, 6)]
    lines = [item.to_line() + b"\n" for item in items]
    path.write_bytes(b"".join(lines))
    offset = MetricTail(path).read().offset
    more = [ContinueRow(2, "b", "t", 123456.0), MetricRow(3, 1.0, "b", {"loss": 7.0})] * (3 if regrown else 0)
    path.write_bytes(b"".join(lines[:2] + [item.to_line() + b"\n" for item in more]))
    found = MetricTail(path, offset).read()
    assert found.offset == path.stat().st_size
    assert folded([*items, *found.rows]) == history(path)


def test_a_missing_file_has_no_rows(tmp_path):
    assert MetricTail(tmp_path / "none", 7).read() == ([], 7)
    assert history(tmp_path / "none") == []
