"""The file of the book: whole at any moment, and readable by whoever has it open."""

import json

import pytest

from nemo_runs.errors import LeaseError
from nemo_runs.leases import lease_book
from nemo_runs.leases.lease_queue import LeaseHolder
from nemo_runs.processes import trees


def hold(folder, *names):
    """Have exactly these leases in the book."""
    with lease_book.opened(folder) as book:
        book.held = {
            name: LeaseHolder(
                name=name, label="lab", devices=(), slots=1, since=1.0, identity=trees.identify()
            )
            for name in names
        }


def held(folder):
    with lease_book.opened(folder) as book:
        return list(book.held)


def file_of(folder):
    return next(folder.glob("*.json"))


def test_a_small_book_is_changed_in_place_and_says_what_was_written_last(tmp_path):
    hold(tmp_path, "a")
    file = file_of(tmp_path).stat().st_ino
    for names in (["a", "b", "c"], ["c"], [], ["d"]):
        hold(tmp_path, *names)
        assert held(tmp_path) == names
        assert [one["name"] for one in json.loads(file_of(tmp_path).read_bytes())["held"]] == names
    assert file_of(tmp_path).stat().st_ino == file


@pytest.mark.parametrize("count", [20, 40])
def test_a_book_of_more_than_a_page_is_replaced_by_another_file(tmp_path, count):
    many = [f"lease-{number}" for number in range(count)]
    hold(tmp_path, "a")
    small = file_of(tmp_path).stat().st_ino
    hold(tmp_path, *many)
    assert file_of(tmp_path).stat().st_size > 4096
    assert (held(tmp_path), file_of(tmp_path).stat().st_ino != small) == (many, True)
    large = file_of(tmp_path).stat().st_ino
    hold(tmp_path, "b")
    assert (held(tmp_path), file_of(tmp_path).stat().st_ino != large) == (["b"], True)


def test_a_book_that_did_not_change_is_not_written(tmp_path):
    hold(tmp_path, "a", "b")
    hold(tmp_path, "a")  # shorter, so it ends with padding
    before = file_of(tmp_path).stat().st_mtime_ns
    hold(tmp_path, "a")
    assert file_of(tmp_path).stat().st_mtime_ns == before


def test_a_book_that_cannot_be_read_is_left_as_it_is(tmp_path):
    hold(tmp_path, "a")
    file_of(tmp_path).write_bytes(b'{"held": [')
    with pytest.raises(LeaseError, match="is damaged"):
        held(tmp_path)
    assert file_of(tmp_path).read_bytes() == b'{"held": ['
