"""Where an export goes, and what is never overwritten."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import exported
from tests.small_disk import fill, small_disk

from nemo_gym.errors import GymError, UsageError
from nemo_gym.rollouts.export import tracker_process, trackers, writing
from nemo_gym.rollouts.export.writing import ExportRequest, write_export
from nemo_runs.durable.beside import folder_beside
from nemo_runs.errors import DiskFullError


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("csv", "gym-job-20261129T000000Z-00000a.csv"),
        ("parquet", "gym-job-20261129T000000Z-00000a.parquet"),
        ("lm-eval", "gym-job-20261129T000000Z-00000a-lm-eval"),
        ("inspect", "gym-job-20261129T000000Z-00000a-inspect"),
        ("model-card", "gym-job-20261129T000000Z-00000a-model-card"),
    ],
)
def test_an_export_is_named_after_its_run_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    output = exported(tmp_path / "run")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert write_export([output], ExportRequest(form=form, path=None)) == tmp_path / "here" / name
    assert [path.name for path in (tmp_path / "here").iterdir()] == [name]
    with pytest.raises(GymError, match="is there already; choose another --output"):
        write_export([output], ExportRequest(form=form, path=None))


def test_an_export_of_a_file_of_rows_is_named_without_its_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = replace(exported(tmp_path / "run"), run=str(tmp_path / "run" / "rollouts.jsonl"))
    monkeypatch.chdir(tmp_path)
    assert write_export([output], ExportRequest(form="csv", path=None)).name == "rollouts.csv"


@pytest.mark.parametrize("form", ["csv", "lm-eval"])
def test_of_two_exports_to_one_place_the_first_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    into = tmp_path / "into"
    output, request = exported(tmp_path / "run"), ExportRequest(form=form, path=into / "x")

    def meanwhile(*args: object) -> None:
        written(*args)  # type: ignore[arg-type]
        into.joinpath("x").mkdir()
        into.joinpath("x", "first").touch()

    written = writing._write
    monkeypatch.setattr(writing, "_write", meanwhile)
    with pytest.raises(GymError, match="x is there already; choose another --output"):
        write_export([output], request)
    assert [path.name for path in into.rglob("*")] == ["x", "first"]


def test_of_two_files_to_one_place_the_first_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*args: object) -> None:
        written(*args)  # type: ignore[arg-type]
        (tmp_path / "x").write_text("first")

    written = writing._write
    monkeypatch.setattr(writing, "_write", meanwhile)
    with pytest.raises(GymError, match="x is there already; choose another --output"):
        write_export([exported(tmp_path / "run")], ExportRequest(form="csv", path=tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "first"


def test_a_link_that_leads_nowhere_and_a_long_name_are_names_like_others(tmp_path: Path) -> None:
    output, link, long = exported(tmp_path / "run"), tmp_path / "link", tmp_path / ("a" * 255)
    link.symlink_to("nowhere")
    with pytest.raises(GymError, match="link is there already"):
        write_export([output], ExportRequest(form="csv", path=link))
    assert write_export([output], ExportRequest(form="csv", path=long)) == long


@pytest.mark.parametrize("form", ["lm-eval", "model-card", "mlflow"])
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, form: str) -> None:
    output = exported(tmp_path / "run")
    output.paths.coverage.unlink()
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(GymError):
        write_export([output], ExportRequest(form=form, path=into / "x"))
    assert list(into.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "lm-eval", "share"])
def test_a_full_disk_is_named_and_nothing_is_left_on_it(tmp_path: Path, form: str) -> None:
    output = exported(tmp_path / "run")
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        fill(disk)
        with pytest.raises(DiskFullError, match=rf"{disk / 'x'}.*[Nn]o space"):
            write_export([output], ExportRequest(form=form, path=disk / "x"))
        assert [path.name for path in disk.iterdir()] == ["ballast"]


def test_what_a_killed_export_has_left_is_removed_by_the_next_one_and_what_is_being_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, place = exported(tmp_path / "run"), tmp_path / "into" / "x"
    other = tmp_path / "into" / ".gym-somebody"
    other.mkdir(parents=True)
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_args, **_more: None)
        killed.setattr(writing, "_write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_export([output], ExportRequest(form="csv", path=place))
    assert len(list(place.parent.iterdir())) == 2
    with folder_beside(place):
        write_export([output], ExportRequest(form="csv", path=place))
        assert len(list(place.parent.iterdir())) == 3
    assert {path.name for path in place.parent.iterdir()} == {other.name, "x"}


def test_a_folder_that_is_written_in_its_place_says_so_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, place, seen = exported(tmp_path / "run"), tmp_path / "x", []
    request = ExportRequest(form="mlflow", path=place)

    def look(*_args: object, **_more: object) -> None:
        seen.append([path.name for path in place.iterdir()])
        with pytest.raises(GymError, match="is there already"):
            write_export([output], request)  # another one at the same time

    monkeypatch.setattr(trackers, "tracker_python", lambda *_: "python")
    monkeypatch.setattr(trackers, "write_tracker", look)
    place.mkdir()
    (place / writing.UNFINISHED).touch()
    (place / "half").touch()
    write_export([output], request)
    assert seen == [[writing.UNFINISHED]]
    assert list(place.iterdir()) == []


def test_rows_for_a_tracker_that_end_too_early_make_no_run() -> None:
    assert list(tracker_process.read_rows(["[1]\n", "[2]\n", '"end"\n'])) == [[1], [2]]
    with pytest.raises(SystemExit, match="ended before their end"):
        list(tracker_process.read_rows(["[1]\n"]))


@pytest.mark.parametrize("more", [{"datasets": ["sums=a/b"]}, {"python": Path("python")}])
def test_an_option_of_another_format_is_refused(tmp_path: Path, more: dict[str, object]) -> None:
    request = ExportRequest(form="csv", path=tmp_path / "x", **more)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="alone"):
        write_export([exported(tmp_path / "run")], request)


def test_a_folder_that_is_there_is_answered_with_a_place_in_it(tmp_path: Path) -> None:
    say = f"{tmp_path} is there already; choose another --output, say {tmp_path}/gym-job-20261129T000000Z-0"
    for form in ("csv", "inspect"):
        with pytest.raises(GymError, match=re.escape(say)):
            write_export([exported(tmp_path / form)], ExportRequest(form=form, path=tmp_path))


@pytest.mark.parametrize(
    ("form", "name", "said"),
    [
        ("csv", "a.parquet", "--output a.parquet: --to csv writes a file that ends with .csv."),
        ("inspect", "a.eval", "--output a.eval: --to inspect writes a folder."),
        ("model-card", "README.md", "--output README.md: --to model-card writes a folder."),
        ("share", "a.PDF", "--output a.PDF: a share ends with .zip, the report alone with .html."),
    ],
)
def test_a_name_with_the_ending_of_something_else_is_refused(
    tmp_path: Path, form: str, name: str, said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        write_export([exported(tmp_path / "run")], ExportRequest(form=form, path=tmp_path / name))
    assert not (tmp_path / name).exists()
