"""Files of offline W&B runs: read as far as they are whole. What is in their records is read in slow tests
beside the library."""

import struct
import zlib

import pytest

from nemo_engines.trackers import wandb_files

BLOCK = 32 * 1024
HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)


def piece(kind, data):
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data


def written(records):
    """A file with these records, in pieces where a block ends."""
    made = HEADER
    for record in records:
        rest, first = record, True
        while True:
            left = BLOCK - len(made) % BLOCK
            if left < 7:
                made += bytes(left)
                left = BLOCK
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, True): 4, (False, False): 3}[first, not rest]
            made += piece(kind, part)
            first = False
            if not rest:
                break
    return made


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.wandb"


RECORDS = [b"a", b"b" * 100, b"c" * 70_000, b"d", b"e" * (BLOCK - 20), b"f"]


def test_records_are_read_over_the_ends_of_blocks(file):
    file.write_bytes(written(RECORDS))
    assert list(wandb_files.records(file)) == RECORDS


@pytest.mark.parametrize("cut", [1, 5, 8, 100])
def test_a_torn_end_is_left_out(file, cut):
    whole = written(RECORDS)
    file.write_bytes(whole[:-cut])
    found = list(wandb_files.records(file))
    assert found == RECORDS[: len(found)]
    assert len(RECORDS) - 2 <= len(found) < len(RECORDS)


def test_reading_ends_at_damage(file):
    whole = bytearray(written([b"one", b"two", b"three"]))
    whole[whole.index(b"two")] ^= 1
    file.write_bytes(whole)
    assert list(wandb_files.records(file)) == [b"one"]


@pytest.mark.parametrize("data", [b"", b":W", HEADER, b"something else entirely"])
def test_what_is_no_such_file_has_no_records(file, data):
    file.write_bytes(data)
    assert list(wandb_files.records(file)) == []


def test_a_run_without_files_has_no_last_step(tmp_path):
    assert wandb_files.last_step(tmp_path, "job-1") is None


def test_the_end_of_a_run_is_waited_for_and_a_file_is_read_only_when_it_has_grown(file, monkeypatch):
    contents, pauses, reads = [b"a", b"a", b"a", b"ab", b"ab and the end"], [], []

    def goes_on(seconds):
        pauses.append(seconds)
        file.write_bytes(contents[len(pauses) - 1])

    def has_end(path):
        reads.append(path.read_bytes())
        return reads[-1].endswith(b"the end")

    monkeypatch.setattr(wandb_files, "has_end", has_end)
    wandb_files.wait_for_end(file, sleep=goes_on)
    assert reads == [b"a", b"ab", b"ab and the end"]
    assert pauses == [0.01, 0.02, 0.04, 0.08, 0.16]
