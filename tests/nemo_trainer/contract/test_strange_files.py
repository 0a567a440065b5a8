"""Whatever a workload puts in place of the contract's files, a reader is neither held up nor misled."""

import json
import os

import pytest

from nemo_trainer import contract


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def folder(path):
    path.mkdir()


def line_without_end(path):
    path.write_bytes(b"x" * (40 << 20))


STRANGE = [pipe, device, folder, line_without_end]


@pytest.mark.parametrize("make", STRANGE)
@pytest.mark.slow
def test_metrics(tmp_path, make):
    make(tmp_path / "metrics.jsonl")
    assert contract.MetricTail(tmp_path / "metrics.jsonl").read() == ([], 0)
    assert contract.history(tmp_path / "metrics.jsonl") == []


@pytest.mark.parametrize("make", STRANGE)
def test_progress_and_requests(tmp_path, make):
    make(tmp_path / "progress.json")
    assert contract.read_progress(tmp_path / "progress.json") == {}
    assert contract.read_control(tmp_path / "progress.json") is None


@pytest.mark.parametrize("make", STRANGE)
@pytest.mark.slow
def test_manifests_and_outputs(tmp_path, make):
    place = tmp_path / "checkpoints" / "5"
    place.mkdir(parents=True)
    make(place / contract.MANIFEST)
    make(tmp_path / "OUTPUTS.json")
    found = contract.newest_verified(tmp_path, deep=True)
    assert found.checkpoint is None
    assert contract.MANIFEST in found.passed_over[0].problem
    assert contract.verify_outputs(tmp_path, storage=tmp_path, deep=True)


@pytest.mark.parametrize("make", [pipe, device, folder])
def test_files_of_a_checkpoint(tmp_path, make):
    make(tmp_path / "weights")
    size = (tmp_path / "weights").stat().st_size
    entry = contract.FileEntry("weights", size, "0" * 64)
    contract.write_manifest(tmp_path, contract.Manifest(step=5, files=(entry,)))
    [problem] = contract.verify(tmp_path, deep=True)
    assert "weights" in problem


@pytest.mark.parametrize(
    "change",
    [
        {"step": 10**30},
        {"created_at": 1e300},
        {"created_at": -1},
        {"job": "\ud800"},
        {"files": [{"path": "a\ud800", "size": 1, "sha256": ""}]},
        {"files": [{"path": "a", "size": 10**30, "sha256": ""}]},
        {"files": [{"path": "../../etc/passwd", "size": 1, "sha256": ""}]},
    ],
)
def test_a_manifest_that_nobody_could_keep_is_damaged(tmp_path, change):
    manifest = {"schema": 1, "step": 5, "files": [{"path": "a", "size": 1, "sha256": ""}], **change}
    (tmp_path / contract.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(contract.CheckpointUnusableError) as refused:
        contract.read_checkpoint(tmp_path)
    str(refused.value).encode()


def test_values_of_a_manifest_that_are_no_numbers_are_left_out(tmp_path):
    entry = {"path": "a", "size": 1, "sha256": ""}
    manifest = {"schema": 1, "step": 5, "files": [entry], "metrics": {"loss": float("nan"), "rate": 1}}
    (tmp_path / contract.MANIFEST).write_text(json.dumps(manifest))
    assert contract.read_manifest(tmp_path).metrics == {"rate": 1.0}


def test_a_step_of_no_countable_number_is_no_row():
    row = {"step": 10**30, "time": 1, "attempt": "a", "values": {"loss": 1}}
    assert contract.parse_row(json.dumps(row).encode()) is None
