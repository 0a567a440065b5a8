"""Artifacts of results: what an address may name, and that no link leads out of it."""

import io
import os
import tarfile

import pytest

from nemo_helix_server.errors import InvalidError, UnknownNameError
from nemo_helix_server.storage.artifacts import ArtifactLocation, ArtifactReader, parse


@pytest.fixture
def reader(tmp_path):
    (tmp_path / "storage" / "job-1").mkdir(parents=True)
    return ArtifactReader(tmp_path / "filesets", lambda _workspace, job_id: tmp_path / "storage" / job_id)


@pytest.fixture
def storage(tmp_path, reader):
    return tmp_path / "storage" / "job-1"


def find(reader, url):
    return reader.find(url, workspace="default", job="tune", job_id="job-1")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("model/final.bin", ArtifactLocation(None, ("model", "final.bin"))),
        ("./model//x/", ArtifactLocation(None, ("model", "x"))),
        ("fileset://default/mine", ArtifactLocation("mine", ())),
        ("fileset://default/mine/a/b", ArtifactLocation("mine", ("a", "b"))),
        ("fileset://default/job-fileset-tune/a", ArtifactLocation("job-fileset-tune", ("a",))),
    ],
)
def test_what_is_the_job_s_can_be_named(url, place):
    assert parse(url, workspace="default", job="tune") == place


@pytest.mark.parametrize(
    "url",
    [
        "../other/storage",
        "model/../../x",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://example.com/x",
        "fileset://other/mine",
        "fileset://default/job-fileset-other",
        "fileset://default/..",
        "fileset://default/mine/../x",
        "fileset://../mine",
        "fileset://default",
        "fileset://",
        "a\nb",
        "x" * 5000,
    ],
)
def test_what_is_not_the_job_s_cannot(url):
    with pytest.raises(InvalidError):
        parse(url, workspace="default", job="tune")


def test_a_file_comes_with_its_size(reader, storage):
    (storage / "a").mkdir()
    (storage / "a" / "weights.bin").write_bytes(b"12345")
    artifact = find(reader, "a/weights.bin")
    assert (artifact.name, artifact.size, b"".join(artifact.chunks())) == ("weights.bin", 5, b"12345")


def test_a_folder_comes_as_a_tar_of_its_regular_files(reader, storage):
    big = os.urandom(700_000)
    (storage / "out" / "inner").mkdir(parents=True)
    (storage / "out" / "one.txt").write_text("one")
    (storage / "out" / "inner" / "big.bin").write_bytes(big)
    (storage / "out" / "link").symlink_to("/etc/passwd")
    (storage / "out" / "folder").symlink_to("/etc")
    os.mkfifo(storage / "out" / "pipe")
    artifact = find(reader, "out")
    assert (artifact.name, artifact.size) == ("out.tar", None)
    with tarfile.open(fileobj=io.BytesIO(b"".join(artifact.chunks()))) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    assert found == {"out/one.txt": b"one", "out/inner/big.bin": big}


@pytest.mark.parametrize("target", ["/etc/passwd", "../job-2/secret", "../job-2"])
def test_a_link_leads_nowhere(reader, storage, target):
    other = storage.parent / "job-2"
    other.mkdir()
    (other / "secret").write_text("s")
    (storage / "link").symlink_to(target)
    for url in ("link", "link/secret"):
        with pytest.raises(UnknownNameError):
            find(reader, url)


def test_a_pipe_and_what_is_not_there_are_not_found(reader, storage):
    os.mkfifo(storage / "pipe")
    (storage / "file").write_text("")
    for url in ("pipe", "none", "file/below", "fileset://default/none"):
        with pytest.raises(UnknownNameError):
            find(reader, url)
