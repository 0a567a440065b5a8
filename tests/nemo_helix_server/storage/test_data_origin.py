"""Data directories that were copied are told from those that were moved, mounted elsewhere or given away."""

import json
import os
import subprocess
from dataclasses import replace

import pytest

from nemo_helix_server.storage import data_origin
from nemo_helix_server.storage.data_origin import DataOrigin

LYING = DataOrigin(id="a", term=0, path="/data", inode=12, changed_ns=5, filesystem=7)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"path": "/moved"}, True),
        ({"filesystem": 8}, True),  # numbers of disks change when a machine starts
        ({"changed_ns": 6}, True),  # chmod -R
        ({"inode": 13}, False),  # cp, rsync, tar
        ({"path": "/linked", "changed_ns": 6}, False),  # cp -l
        ({"path": "/snapshot", "filesystem": 8}, False),
        ({"filesystem": 8, "changed_ns": 6}, False),  # another volume, with the same number by chance
    ],
)
def test_one_thing_that_changed_is_no_copy_and_another_inode_is_one(change, is_same):
    assert LYING.is_place_of(replace(LYING, **change)) is is_same


def test_a_directory_keeps_its_service_through_a_move_and_other_permissions(tmp_path):
    first = data_origin.read(tmp_path / "data")
    os.rename(tmp_path / "data", tmp_path / "moved")
    assert data_origin.read(tmp_path / "moved").id == first.id
    (tmp_path / "moved" / "origin.anchor").chmod(0o640)
    assert data_origin.copied_from(tmp_path / "moved") is None
    assert data_origin.read(tmp_path / "moved").id == first.id


@pytest.mark.parametrize("command", [["cp", "-a"], ["cp", "-al"]])
def test_a_copy_is_another_service_and_the_original_stays_what_it_is(tmp_path, command):
    first = data_origin.read(tmp_path / "data")
    subprocess.run([*command, tmp_path / "data", tmp_path / "copy"], check=True)
    assert data_origin.copied_from(tmp_path / "copy") == str(tmp_path / "data")
    assert data_origin.read(tmp_path / "copy").id != first.id
    assert data_origin.copied_from(tmp_path / "copy") is None
    assert data_origin.read(tmp_path / "data").id == first.id


def test_who_takes_over_has_a_term_above_that_of_the_original(tmp_path):
    data_origin.read(tmp_path)
    terms = [data_origin.take_over(tmp_path, now).term for now in (1000.5, 2000.0, 1500.0)]
    assert terms == [1000, 2000, 2001]
    assert data_origin.copied_from(tmp_path) is None


@pytest.mark.parametrize("damage", ["", "[]", '{"id": "a"}'])
def test_a_record_that_cannot_be_read_is_made_again(tmp_path, damage):
    data_origin.read(tmp_path)
    (tmp_path / "origin.json").write_text(damage)
    made = data_origin.read(tmp_path)
    assert json.loads((tmp_path / "origin.json").read_text())["id"] == made.id


def test_a_copy_without_the_anchor_is_a_copy(tmp_path):
    first = data_origin.read(tmp_path)
    (tmp_path / "origin.anchor").unlink()
    assert data_origin.copied_from(tmp_path) == str(tmp_path)
    assert data_origin.read(tmp_path).id != first.id
