"""Where the rows are that a generation goes on from, though the file that was named may be gone."""

import pytest

from nemo_trainer.contract import TrainerError, generations
from nemo_trainer.contract.generations import Takeover
from nemo_trainer.rows_before import open_rows


def took_over(folder, number, file, offset, of, after=0):
    generations.claim(folder)
    takeover = Takeover(step=1, file=file, offset=offset, of=of, after=after)
    generations.record_takeover(folder, number, takeover)


def rows(folder, name):
    with open_rows(folder, name) as found:
        data = b""
        while block := found.read(2):
            data += block
        return found.name, data


def test_the_file_itself_is_whole(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b"1\n2\n")
    took_over(tmp_path, 1, "metrics.jsonl", 2, "metrics.jsonl")
    assert rows(tmp_path, "metrics.jsonl") == ("metrics.jsonl", b"1\n2\n")


def test_a_file_that_was_recorded_and_never_made_is_what_it_would_be_a_copy_of(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b"1\n2\nlate\n")
    took_over(tmp_path, 1, "metrics.g1.jsonl", 4, "metrics.jsonl")
    took_over(tmp_path, 2, "metrics.g2.jsonl", 4, "metrics.g1.jsonl")
    for name in ("metrics.g1.jsonl", "metrics.g2.jsonl"):
        assert rows(tmp_path, name) == ("metrics.jsonl", b"1\n2\n")


def test_a_file_that_another_start_has_copied_and_removed_is_in_its_copy(tmp_path):
    took_over(tmp_path, 1, "metrics.g1.jsonl", 0, "metrics.jsonl")
    took_over(tmp_path, 2, "metrics.g2.jsonl", 4, "metrics.g1.jsonl", after=1)
    (tmp_path / "metrics.g2.jsonl").write_bytes(b"1\n2\nof the second\n")
    assert rows(tmp_path, "metrics.g1.jsonl") == ("metrics.g2.jsonl", b"1\n2\n")


def test_one_that_is_removed_between_the_look_and_the_opening_is_in_its_copy_too(tmp_path, monkeypatch):
    (tmp_path / "metrics.g1.jsonl").write_bytes(b"1\n2\n")
    took_over(tmp_path, 1, "metrics.g1.jsonl", 2, "metrics.jsonl")
    real, looks = generations.records, []

    def records(folder):
        found = real(folder)
        if not looks:
            (tmp_path / "metrics.g1.jsonl").rename(tmp_path / "metrics.g2.jsonl")
            took_over(tmp_path, 2, "metrics.g2.jsonl", 4, "metrics.g1.jsonl", after=1)
        looks.append(folder)
        return found

    monkeypatch.setattr(generations, "records", records)
    assert rows(tmp_path, "metrics.g1.jsonl") == ("metrics.g2.jsonl", b"1\n2\n")


def test_where_no_row_was_ever_recorded_there_need_not_be_a_file(tmp_path):
    assert rows(tmp_path, "metrics.jsonl") == ("metrics.jsonl", b"")
    took_over(tmp_path, 1, "metrics.jsonl", 0, "metrics.jsonl")
    took_over(tmp_path, 2, "metrics.g2.jsonl", 0, "metrics.jsonl", after=1)
    assert rows(tmp_path, "metrics.g2.jsonl") == ("metrics.g2.jsonl", b"")


def test_rows_that_are_nowhere_any_more_are_not_passed_over_in_silence(tmp_path):
    took_over(tmp_path, 1, "metrics.g1.jsonl", 4, "metrics.jsonl")
    message = r"metrics\.g1\.jsonl: is missing, and no other file has .* make it an empty file"
    with pytest.raises(TrainerError, match=message):
        open_rows(tmp_path, "metrics.g1.jsonl")
    (tmp_path / "metrics.g1.jsonl").touch()
    assert rows(tmp_path, "metrics.g1.jsonl") == ("metrics.g1.jsonl", b"")
