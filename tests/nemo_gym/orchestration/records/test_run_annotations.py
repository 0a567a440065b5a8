"""Tags and notes of runs: beside the record, which stays as it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.records.test_index import record

from nemo_gym.cli.main import _status
from nemo_gym.errors import DataError
from nemo_gym.orchestration.records import index, run_annotations
from nemo_gym.orchestration.records.run_annotations import Annotations
from nemo_gym.pages.index.run_places import RunPlaces
from nemo_gym.pages.index.run_reading import fingerprint


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A submission of this machine, in the index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = record(tmp_path / "runs")
    index.write_records(made, "", report=pytest.fail)
    return made


@pytest.fixture
def gym(capsys: pytest.CaptureFixture[str]):
    """Runs `gym job`; its status, and what it prints."""

    def run(*arguments: str) -> tuple[int, str]:
        status = _status(["job", *arguments])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_tags_and_note_are_kept_beside_the_record_and_shown_by_the_list(known, gym):
    before = (Path(known.run_dir) / "gym-job.json").read_bytes()
    name = known.gym_job_id
    assert gym("tag", name) == (0, "no tags\n")
    assert gym("tag", name, "baseline", "paper", "--note", "run for table 2") == (
        0,
        "baseline paper\nrun for table 2\n",
    )
    assert gym("tag", name, "final", "--remove", "paper")[1].startswith("baseline final\n")
    assert (Path(known.run_dir) / "gym-job.json").read_bytes() == before
    listed = gym("list")[1]
    assert "TAGS" in listed
    assert "baseline final" in listed
    [shown] = json.loads(gym("list", "--json")[1])["submissions"]
    assert (shown["tags"], shown["note"]) == (["baseline", "final"], "run for table 2")
    assert json.loads(gym("tag", name, "--note", "", "--json")[1])["note"] == ""


def test_a_note_of_somebody_else_cannot_command_the_terminal(known, gym):
    run_annotations.change(run_annotations.file_of(known), ["a\x1b[2Jb"], (), "one\x1b]0;title\x07\ntwo")
    assert gym("tag", known.gym_job_id) == (0, "a\\x1b[2Jb\none\\x1b]0;title\\x07\ntwo\n")


def test_of_a_run_on_another_machine_they_lie_in_the_index_and_are_no_record(known):
    there = replace(known, hostname="login", run_dir="/far/away/run", gym_job_id="gym-job-far")
    file = run_annotations.file_of(there)
    run_annotations.change(file, ["far"], (), None)
    assert run_annotations.read(file).tags == ("far",)
    assert [each.gym_job_id for each in index.indexed(report=pytest.fail)] == [known.gym_job_id]


@pytest.mark.parametrize("tag", ["", "two words", "line\nfeed", "x" * 101])
def test_what_is_not_one_word_is_not_a_tag(tag):
    with pytest.raises(DataError, match="one word of at most 100 characters"):
        Annotations().changed([tag], (), None)


def test_there_are_at_most_fifty_tags_and_a_note_has_an_end():
    full = Annotations(tuple(f"t{number}" for number in range(50)))
    assert full.changed(["t1"], (), None) == full
    with pytest.raises(DataError, match="at most 50 tags, this would be 51"):
        full.changed(["more"], (), None)
    with pytest.raises(DataError, match="it can have 4,096"):
        full.changed((), (), "x" * 4097)


@pytest.mark.parametrize("content", ["{", "[]", '{"tags": "a", "note": ""}', '{"tags": [1], "note": ""}'])
def test_a_damaged_file_is_named_and_changes_nothing(known, content, gym):
    file = run_annotations.file_of(known)
    file.write_text(content)
    with pytest.raises(DataError, match=r"gym-annotations\.json"):
        run_annotations.change(file, ["a"], (), None)
    assert file.read_text() == content
    assert "gym-annotations.json" in gym("list")[1]


def test_a_change_of_tags_is_seen_by_the_next_look_of_the_pages(known):
    [place] = RunPlaces([], records=True).find(report=pytest.fail)
    before = fingerprint(place)
    run_annotations.change(run_annotations.file_of(known), ["new"], (), None)
    assert fingerprint(place) != before
