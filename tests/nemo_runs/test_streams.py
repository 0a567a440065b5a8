"""Standard streams of a program: other encodings, full, closed and slow ones; in real processes."""

import json
import os
import subprocess
import sys
import threading

import pytest

from nemo_runs import streams

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from nemo_runs import streams
streams.prepare()
{then}
"""
ODD = "→ é 😀 \udcc3"


def run(then, *, env=None, **popen):
    from pathlib import Path

    import nemo_runs

    source = str(Path(nemo_runs.__file__).parents[1])
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_", "LANG"))
    }
    words = [sys.executable, "-c", PROGRAM.format(then=then), source]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    return subprocess.run(words, env=environ | (env or {}), timeout=60, check=False, **pipes)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252", "koi8-r"])
def test_what_an_encoding_lacks_is_an_escape_that_json_reads_as_what_it_was(encoding):
    done = run(f"print('\"' + {ODD!r} + '\"')", env={"PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode(encoding)) == ODD


def test_the_handler_that_a_user_chose_stays():
    done = run("print('a→b')", env={"PYTHONIOENCODING": "ascii:replace"})
    assert done.stdout == b"a?b\n"


def test_a_command_whose_output_is_all_fails_when_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        report = "(print(error, file=sys.stderr), streams.allow_lost_stdout())"
        leave = f"sys.excepthook = lambda _, error, __: {report}"
        done = run(f"{leave}; print('x'); streams.finish()", stdout=full)
    assert done.returncode == 1
    assert done.stderr == b"[Errno 28] No space left on device: 'standard output'\n"


def test_a_command_that_has_done_something_is_told_and_not_undone():
    with open("/dev/full", "wb") as full:
        done = run(
            "streams.allow_lost_stdout(); print('x'); print(streams.finish(), file=sys.stderr)",
            stdout=full,
        )
    assert (done.returncode, done.stderr) == (0, b"No space left on device\n")


def test_a_reader_who_has_left_wants_no_more():
    reader, writer = os.pipe()
    os.close(reader)
    done = run(
        "streams.allow_lost_stdout(); print('x'); print(repr(streams.finish()), file=sys.stderr)",
        stdout=writer,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"''\n")


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_a_closed_stream_is_the_null_device_and_no_other_file_gets_its_number(closed, tmp_path):
    then = f"import os; f = open({str(tmp_path / 'f')!r}, 'w'); assert f.fileno() > 2; print(1); "
    then += "print(2, file=sys.stderr); streams.finish(); f.write('done')"
    run(then, preexec_fn=lambda: [os.close(number) for number in closed])
    assert (tmp_path / "f").read_text() == "done"


def test_words_of_others_cannot_command_a_terminal():
    assert streams.harmless("a\x1b]0;x\x07\r\u202eb\n\tä😀\xa0") == "a\\x1b]0;x\\x07\\x0d\\x202eb\n\tä😀\xa0"


@pytest.mark.parametrize("name", ["/dev/full", "a pipe without a reader"])
def test_what_cannot_be_written_on_stderr_ends_nothing(name):
    reader, writer = os.pipe()
    os.close(reader)
    stderr = os.open("/dev/full", os.O_WRONLY) if name == "/dev/full" else writer
    done = run("print('x' * 100_000, file=sys.stderr); print('done'); streams.finish()", stderr=stderr)
    for descriptor in {stderr, writer}:
        os.close(descriptor)
    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_a_slow_reader_of_a_descriptor_that_does_not_block_gets_everything():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    got = []

    def read():
        while data := os.read(reader, 65536):
            got.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    done = run("print('x' * 3_000_000); streams.finish()", stdout=writer)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(b"".join(got)) == 3_000_001
