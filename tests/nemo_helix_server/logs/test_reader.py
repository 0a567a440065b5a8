"""Pages of log lines: every line once, in order, whatever the pages and whenever a part was rotated away."""

import itertools
import json
import os
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_helix_server.errors import InvalidError, MalformedRequestError
from nemo_helix_server.logs.pages import shown as shown_line
from nemo_helix_server.logs.reader import Logs, LogSource
from nemo_helix_server.logs.writer import Log
from nemo_helix_server.storage.log_parts import LocalLog


def write(folder, lines, *, limit=1 << 20):
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "output.jsonl", limit=limit, clock=lambda: 1.5)
    for line in lines:
        log.write("out", [line])
    log.close()


def sources(tmp_path, *logs):
    found = []
    for number, lines in enumerate(logs):
        folder = tmp_path / f"task-{number}"
        if lines is not None:
            write(folder, lines)
        found.append(LogSource("attempt", f"step-{number}", f"task-{number}", LocalLog(folder)))
    return found


def messages(page):
    return [line.message for line in page.lines]


def all_pages(logs, given, limit):
    pages, cursor = [], None
    while True:
        page = logs.page(given, limit=limit, cursor=cursor)
        pages.append(page)
        cursor = page.next_page
        if cursor is None:
            return pages


@settings(max_examples=40)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.integers(1, 9))
def test_pages_forwards_and_backwards_have_every_line_once(tmp_path_factory, sizes, limit):
    tmp_path = tmp_path_factory.mktemp("logs")
    logs = Logs()
    given = sources(tmp_path, *[[f"{task}-{n}" for n in range(size)] for task, size in enumerate(sizes)])
    wanted = [f"{task}-{n}" for task, size in enumerate(sizes) for n in range(size)]
    pages = all_pages(logs, given, limit)
    assert [line for page in pages for line in messages(page)] == wanted
    assert all(page.total == len(wanted) for page in pages)
    assert pages[0].prev_page is None
    for before, after in itertools.pairwise(pages):
        assert messages(logs.page(given, limit=limit, cursor=after.prev_page)) == messages(before)


@pytest.mark.parametrize("tail", [1, 3, 5, 6, 100])
def test_a_tail_is_the_last_lines_over_all_tasks(tmp_path, tail):
    given = sources(tmp_path, ["a", "b", "c"], None, ["d", "e"])
    page = Logs().page(given, tail=tail)
    assert messages(page) == ["a", "b", "c", "d", "e"][-tail:]
    assert page.next_page is None


def test_a_line_carries_where_it_comes_from(tmp_path):
    (line,) = Logs().page(sources(tmp_path, ["said"])).lines
    assert (line.at, line.stream, line.message, line.step, line.task) == (
        1.5,
        "out",
        "said",
        "step-0",
        "task-0",
    )


def test_a_follower_goes_on_where_it_was_also_into_a_new_task(tmp_path):
    logs, given = Logs(), sources(tmp_path, ["a"], None)
    page = logs.page(given)
    assert page.next_page is None
    assert messages(logs.page(given, cursor=page.end)) == []
    write(tmp_path / "task-0", ["b"])
    write(tmp_path / "task-1", ["c"])
    page = logs.page(given, cursor=page.end)
    assert messages(page) == ["b", "c"]
    assert messages(logs.page(given, cursor=page.end)) == []


def test_a_follower_misses_nothing_while_parts_are_rotated(tmp_path):
    folder, logs = tmp_path / "task-0", Logs()
    folder.mkdir()
    given = [LogSource("attempt", "step", "task-0", LocalLog(folder))]
    log = Log(folder / "output.jsonl", limit=20_000)
    seen, cursor = [], None
    for number in range(2000):
        log.write("out", [str(number)])
        if number % 50 == 0:
            page = logs.page(given, cursor=cursor)
            seen += messages(page)
            cursor = page.end
    log.close()
    seen += messages(logs.page(given, cursor=cursor))
    assert seen == [str(number) for number in range(2000)]


def test_a_cursor_into_a_part_that_is_gone_goes_on_at_the_oldest_line(tmp_path):
    logs, given = Logs(), sources(tmp_path, [str(number) for number in range(10)])
    cursor = logs.page(given, limit=5).next_page
    write(tmp_path / "task-0", [f"x{number}" for number in range(3000)], limit=8192)
    oldest = messages(logs.page(given, limit=1))
    assert messages(logs.page(given, limit=1, cursor=cursor)) == oldest


def test_half_a_line_and_garbage_are_not_shown(tmp_path):
    given = sources(tmp_path, ["a"])
    with (tmp_path / "task-0" / "output.jsonl").open("ab") as file:
        file.write(
            b"garbage\n" + json.dumps({"t": 1, "s": "out", "m": "b"}).encode() + b"\n" + b'{"t": 1, "s"'
        )
    page = Logs().page(given)
    assert messages(page) == ["a", "b"]
    assert page.next_page is None


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (b'{"t": 1, "s": "out", "m": "\\ud800"}', ["?"]),
        (b'{"t": NaN, "s": "out", "m": "b"}', []),
        (b'{"t": 1e300, "s": "out", "m": "b"}', []),
        (b'{"t": -1e12, "s": "out", "m": "b"}', []),
    ],
)
def test_what_a_workload_wrote_into_its_log_can_be_answered(tmp_path, row, shown):
    given = sources(tmp_path, ["a"])
    with (tmp_path / "task-0" / "output.jsonl").open("ab") as file:
        file.write(row + b"\n")
    page = Logs().page(given)
    assert messages(page) == ["a", *shown]
    assert all(shown_line(line, "job")["message"].encode() for line in page.lines)


def test_a_row_without_end_is_passed_over_and_never_kept(tmp_path):
    given = sources(tmp_path, ["a"])
    path = tmp_path / "task-0" / "output.jsonl"
    os.truncate(path, 1 << 26)
    with path.open("ab") as file:
        file.write(b"\n" + json.dumps({"t": 1, "s": "out", "m": "b"}).encode() + b"\n")
    tracemalloc.start()
    try:
        assert messages(Logs().page(given)) == ["a", "b"]
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_no_logs_are_an_empty_page(tmp_path):
    for none in ([], sources(tmp_path, None), sources(tmp_path, [])):
        page = Logs().page(none)
        assert (page.lines, page.total, page.next_page, page.prev_page) == ((), 0, None, None)


@pytest.mark.parametrize(
    "wrong", [{"tail": 5, "limit": 5}, {"tail": 5, "cursor": "x"}, {"tail": 0}, {"limit": 10_001}]
)
def test_what_cannot_be_combined_is_refused(tmp_path, wrong):
    with pytest.raises(MalformedRequestError):
        Logs().page(sources(tmp_path, ["a"]), **wrong)


@pytest.mark.parametrize("cursor", ["x", "", "!!!!", "e30", "WzEsMiwzXQ", "bnVsbA", "WyJhIiwtMSwwXQ", "ü"])
def test_what_is_no_cursor_is_refused(tmp_path, cursor):
    if cursor in {"", "WzEsMiwzXQ"}:
        Logs().page(sources(tmp_path, ["a"]), cursor=cursor or None)
        return
    with pytest.raises(InvalidError):
        Logs().page(sources(tmp_path, ["a"]), cursor=cursor)
