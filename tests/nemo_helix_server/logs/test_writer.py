"""What becomes of a command's output: lines, without secrets, in bounded files."""

import base64
import json
import os
import resource
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_helix_server.logs.writer import LONGEST_LINE, LineCutter, Log, Pump, Redactor, part_numbers

pytestmark = pytest.mark.services

SECRET = "s3cret-value-of-the-job"


def fed(pieces, *secrets):
    lines = LineCutter(Redactor(secrets))
    found = [line for piece in pieces for line in lines.feed(piece)]
    return found + lines.close()


@given(st.integers(0, 60), st.integers(0, 60))
def test_a_secret_is_hidden_wherever_the_reads_are_cut(first, second):
    text = f"before {SECRET} after\nnext {SECRET}".encode()
    one, two = sorted((first, second))
    found = fed([text[:one], text[one:two], text[two:]], SECRET)
    assert found == ["before *** after", "next ***"]


@pytest.mark.parametrize(
    "written",
    [
        repr,
        json.dumps,
        lambda value: f"https://user:{urllib.parse.quote(value)}@host/",
        lambda value: f"https://host/?token={urllib.parse.quote_plus(value)}",
        lambda value: f"Bearer {base64.b64encode(value.encode()).decode()}",
    ],
)
def test_a_secret_is_hidden_as_programs_write_it(written):
    value = "pass/word with 'quotes' and \"more\" + é%\nsecond line"
    [line] = fed([written(value).encode() + b"\n"], value)
    assert "***" in line
    assert not any(
        part in line for part in ("word", "quotes", "more", "second", base64.b64encode(b"pass/").decode())
    )


@given(st.integers(-30, 30))
def test_a_secret_is_hidden_where_a_long_line_is_cut(shift):
    padding = b"x" * (LONGEST_LINE + shift)
    whole = padding + SECRET.encode() + b"y" * 100
    for pieces in ([whole + b"\n"], [whole[i : i + 4096] for i in range(0, len(whole), 4096)]):
        joined = "".join(fed(pieces, SECRET))
        assert "s3cret" not in joined
        assert "of-the-job" not in joined
        assert joined.startswith("x" * 1000)


def test_a_secret_of_several_lines_and_one_inside_json_are_hidden():
    key = '-----BEGIN KEY-----\nabcdefgh"ijkl\n-----END KEY-----'
    printed = f"{key}\n{json.dumps({'key': key})}\n".encode()
    joined = "\n".join(fed([printed], key))
    assert "abcdefgh" not in joined


def test_a_line_drawn_over_counts_as_it_looks_last():
    assert fed([b"10%\r20%\r30%\nwindows\r\n\n"]) == ["30%", "windows", ""]


def test_what_is_no_text_is_kept_readable():
    assert fed([b"\xff\xfeok\n"]) == ["��ok"]


def rows(folder):
    paths = [folder / f"output.{number}.jsonl" for number in part_numbers(folder)] + [folder / "output.jsonl"]
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def test_a_log_stays_within_its_limit_and_keeps_the_newest_lines(tmp_path):
    log = Log(tmp_path / "output.jsonl", limit=20_000)
    for number in range(2000):
        log.write("out", [f"line {number}"])
    log.close()
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size <= 20_000
    found = [row["m"] for row in rows(tmp_path)]
    assert found == [f"line {number}" for number in range(2000 - len(found), 2000)]
    assert len(found) > 100


def test_a_full_disk_loses_lines_says_so_and_goes_on(tmp_path):
    """A limit on the size of files stands in for the disk."""
    log = Log(tmp_path / "output.jsonl", limit=1 << 20)
    log.write("out", ["one"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "output.jsonl").stat().st_size + 10, before[1]))
    try:
        log.write("out", ["two", "three"])
        log.write("out", ["four"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    log.write("err", ["five"])
    log.close()
    messages = [row["m"] for row in rows(tmp_path)]
    assert messages == ["one", "3 lines before this one are lost: the disk was full", "five"]


def test_both_streams_are_read_to_their_ends(tmp_path):
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    pump = Pump(Log(tmp_path / "output.jsonl", limit=1 << 20), Redactor([]), {out: "out", err: "err"})
    pump.start()
    os.write(to_out, b"a\nb")
    os.write(to_err, b"c\n")
    os.close(to_out)
    os.close(to_err)
    pump.finish(30)
    assert sorted((row["s"], row["m"]) for row in rows(tmp_path)) == [
        ("err", "c"),
        ("out", "a"),
        ("out", "b"),
    ]


def test_a_stream_that_somebody_holds_open_is_not_waited_for(tmp_path):
    reader, writer = os.pipe()
    pump = Pump(Log(tmp_path / "output.jsonl", limit=1 << 20), Redactor([]), {reader: "out"})
    pump.start()
    os.write(writer, b"said\n")
    pump.finish(30)
    assert not pump.is_alive()
    os.close(writer)
    assert [row["m"] for row in rows(tmp_path)] == ["said"]


@pytest.mark.parametrize("value", ["", "abc"])
def test_a_value_too_short_to_be_a_secret_hides_nothing(value):
    assert fed([b"abc abc\n"], value) == ["abc abc"]


def test_what_lies_in_the_pipes_is_read_at_the_end_where_nobody_read_before(tmp_path):
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    pump = Pump(
        Log(tmp_path / "output.jsonl", limit=1 << 20), Redactor(["hunter2"]), {out: "out", err: "err"}
    )
    os.write(to_out, b"a hunter2\nb")
    os.write(to_err, b"c\n")
    os.close(to_out)
    os.close(to_err)
    pump.finish(30)
    assert pump.ident is None
    assert sorted((row["s"], row["m"]) for row in rows(tmp_path)) == [
        ("err", "c"),
        ("out", "a ***"),
        ("out", "b"),
    ]


def test_a_stream_to_which_a_stranger_writes_for_ever_is_given_up(tmp_path):
    # what reads from /dev/zero has always something to read, as from a writer that never stops
    endless = os.open("/dev/zero", os.O_RDONLY)
    pump = Pump(Log(tmp_path / "output.jsonl", limit=1 << 20), Redactor([]), {endless: "out"})
    pump.finish(0.2)
    os.close(endless)
    assert rows(tmp_path)
