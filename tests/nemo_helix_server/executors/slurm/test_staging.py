"""Files on their way to a cluster, whose host is this machine."""

import sys
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.staging import StagingError, files_of, push
from nemo_slurm.errors import SlurmError

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    return ClusterConnection(ClusterAddress(None, str(root), sys.executable), ClusterSources.of_service())


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights.bin").write_bytes(b"w" * 300_000)
    (folder / "config.json").write_text("{}")
    return folder


def send(connection, source, target, tmp_path):
    files = files_of(source, tmp_path / "ledger", lambda _name: True, constant=lambda name: name != "log")
    return push(connection.host, connection.ask, source, files, target, connection.folder.cache)


def test_files_arrive_once_with_their_digests(connection, source, tmp_path):
    target = connection.folder.job("j1").storage
    connection.prepare([target])
    assert send(connection, source, target, tmp_path) == 2
    assert connection.host.read(str(target / "model" / "weights.bin")) == b"w" * 300_000
    assert send(connection, source, target, tmp_path) == 0
    (source / "config.json").write_text('{"a": 1}')
    assert send(connection, source, target, tmp_path) == 1
    assert connection.host.read(str(target / "config.json")) == b'{"a": 1}'


def test_a_transfer_that_broke_off_goes_on_where_it_stopped(connection, source, tmp_path):
    target = connection.folder.job("j2").storage
    connection.prepare([target])
    weights = next(
        file for file in files_of(source, tmp_path / "l", lambda _name: True) if "weights" in file.path
    )
    part = target / "model" / f".weights.bin.part-{weights.sha256[:12]}"
    connection.host.write(str(part), b"w" * 100_000)
    sent = []
    host = connection.host

    class Counting(type(host)):
        def finish(self, process, feed, mark, timeout):
            def counted(stream):
                before = stream.write

                class Stream:
                    def write(self, data):
                        sent.append(len(data))
                        return before(data)

                feed(Stream())

            return super().finish(process, counted, mark, timeout)

    files = files_of(source, tmp_path / "l", lambda _name: True)
    push(Counting(), connection.ask, source, files, target, connection.folder.cache)
    assert 200_000 <= sum(sent) < 210_000
    assert connection.host.read(str(target / "model" / "weights.bin")) == b"w" * 300_000


def test_a_part_with_other_bytes_is_sent_again(connection, source, tmp_path):
    target = connection.folder.job("j3").storage
    connection.prepare([target])
    weights = next(
        file for file in files_of(source, tmp_path / "l", lambda _name: True) if "weights" in file.path
    )
    connection.host.write(str(target / "model" / f".weights.bin.part-{weights.sha256[:12]}"), b"x" * 100_000)
    assert send(connection, source, target, tmp_path) == 2
    assert connection.host.read(str(target / "model" / "weights.bin")) == b"w" * 300_000


def test_files_that_never_arrive_whole_are_an_error(connection, source, tmp_path):
    target = connection.folder.job("j4").storage
    connection.prepare([target])
    files = files_of(source, tmp_path / "l", lambda _name: True)
    (source / "config.json").write_text("[]")  # as long, and something else
    with pytest.raises(StagingError, match="change while they are copied"):
        push(connection.host, connection.ask, source, files, target, connection.folder.cache)


def test_links_of_the_service_arrive_as_what_they_lead_to(connection, source, tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "tokenizer.json").write_text("t")
    (source / "base").symlink_to(tmp_path / "hub", target_is_directory=True)
    (source / "loop").symlink_to(source, target_is_directory=True)
    target = connection.folder.job("j5").storage
    connection.prepare([target])
    assert send(connection, source, target, tmp_path) == 3
    assert connection.host.read(str(target / "base" / "tokenizer.json")) == b"t"


def test_a_large_input_is_sent_once_for_all_jobs_and_each_has_it_as_a_link(connection, source, tmp_path):
    (source / "model" / "weights.bin").write_bytes(data := b"W" * (2 << 20))
    (source / "model" / "again.bin").write_bytes(data)
    (source / "log").write_bytes(b"l" * (2 << 20))
    first, second = (connection.folder.job(name).storage for name in ("c1", "c2"))
    connection.prepare([first, second])
    assert send(connection, source, first, tmp_path) == 3  # one of the two equal ones is linked
    assert send(connection, source, first, tmp_path) == 0
    assert send(connection, source, second, tmp_path) == 2  # config.json and log: small, and written to
    one, two = (Path(folder, "model", "weights.bin") for folder in (first, second))
    assert one.samefile(two)
    assert one.stat().st_mode & 0o222 == 0
    assert not Path(first, "log").samefile(Path(second, "log"))
    assert Path(second, "log").stat().st_mode & 0o200


def test_a_cached_input_that_a_job_has_written_to_is_sent_again(connection, source, tmp_path):
    (source / "model" / "weights.bin").write_bytes(b"V" * (2 << 20))
    first, second = (connection.folder.job(name).storage for name in ("d1", "d2"))
    connection.prepare([first, second])
    send(connection, source, first, tmp_path)
    weights = Path(first, "model", "weights.bin")
    weights.chmod(0o600)
    with weights.open("r+b") as file:
        file.write(b"other")
    assert send(connection, source, second, tmp_path) == 2
    assert Path(second, "model", "weights.bin").read_bytes() == b"V" * (2 << 20)


def test_the_cache_keeps_for_a_while_what_no_job_has_any_more(connection, source, tmp_path):
    (source / "model" / "weights.bin").write_bytes(b"U" * (2 << 20))
    job = connection.folder.job("e1")
    connection.prepare([job.storage])
    send(connection, source, job.storage, tmp_path)
    blob = next(
        path
        for path in Path(connection.folder.cache).glob("*/*")
        if path.samefile(Path(job.storage, "model", "weights.bin"))
    )
    root = str(connection.folder.root)
    connection.ask({"op": "remove", "root": root, "paths": [], "unused_seconds": 0})
    assert blob.exists()
    connection.ask({"op": "remove", "root": root, "paths": [str(job.folder)], "unused_seconds": 3600})
    assert blob.exists()
    connection.ask({"op": "remove", "root": root, "paths": [], "unused_seconds": -1})
    assert not blob.exists()


def test_a_link_is_followed_only_to_where_that_is_allowed(connection, source, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key").write_text("secret")
    (source / "key").symlink_to(tmp_path / "keys" / "key")
    (source / "all").symlink_to(tmp_path / "keys", target_is_directory=True)
    found = files_of(
        source, tmp_path / "l", lambda _name: True, may_follow=lambda path: path.name not in {"key", "keys"}
    )
    assert sorted(file.path for file in found) == ["config.json", "model/weights.bin"]


def test_what_lies_below_the_root_is_for_its_owner_alone(connection, source, tmp_path):
    job = connection.folder.job("f1")
    connection.prepare([job.storage])
    send(connection, source, job.storage, tmp_path)
    root = Path(connection.folder.root)
    inner = [path for path in Path(job.folder).rglob("*") if path.is_dir()]
    assert [path for path in (*root.iterdir(), *inner) if path.stat().st_mode & 0o077] == []
    assert {path.name for path in root.iterdir()} == {"jobs", "code", "cache"}


def test_what_is_sent_along_runs_with_nothing_else_installed(connection):
    code = connection.code()
    done = connection.host.run(
        f"cd / && PYTHONPATH={code} {sys.executable} -S -P -c "
        "'from nemo_helix_server.executors.slurm.on_cluster import allocation, requests'"
    )
    assert (done.status, done.stderr) == (0, "")


@pytest.mark.parametrize("left", ["most", "folders"])
def test_sources_that_a_site_has_purged_are_brought_again(connection, tmp_path, left):
    python = str(Path(sys.base_prefix, "bin", "python3"))  # it has nothing of ours
    own = ClusterConnection(ClusterAddress(None, str(tmp_path / "root"), python), ClusterSources.of_service())
    code = Path(own.code())
    files = {path: path.read_bytes() for path in code.rglob("*") if path.is_file()}
    for path in files:
        if left == "folders" or path.name == "requests.py":
            path.unlink()
    assert own.ask({"op": "tidy", "runs": []}) == {}
    assert {path: path.read_bytes() for path in code.rglob("*") if path.is_file()} == files
    assert [path for path in (code, *code.rglob("*")) if path.stat().st_mode & 0o077] == []
    (code / "nemo_trainer" / "contract" / "allocation.py").unlink()
    own.prepare([own.folder.root])  # before a start all of it is there, also what no request needs
    assert {path: path.read_bytes() for path in code.rglob("*") if path.is_file()} == files


def test_setup_lines_are_run_for_starts_and_where_the_interpreter_needs_them(connection, tmp_path):
    def asked(python, *setup):
        said = tmp_path / "said"
        said.unlink(missing_ok=True)
        lines = (f"echo x >> {said}", *setup)
        own = ClusterConnection(
            ClusterAddress(None, connection.address.root, str(python), lines), ClusterSources.of_service()
        )
        for _ in range(3):
            own.ask({"op": "tidy", "runs": []})
        looks = len(said.read_text().split()) if said.exists() else 0
        own.prepare([own.folder.root])
        return looks, len(said.read_text().split()) - looks

    assert asked(sys.executable) == (0, 1)
    program = tmp_path / "bin" / "python-of-a-module"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$LOADED" ] || exit 127\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    assert asked(program, "export LOADED=1") == (3, 1)
    assert asked(program.name, f"PATH={program.parent}:$PATH", "export LOADED=1") == (3, 1)


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/false"])
def test_an_interpreter_that_is_none_is_named_with_the_key(connection, python):
    broken = ClusterConnection(
        ClusterAddress(None, connection.address.root, python), ClusterSources.of_service()
    )
    said = rf"^config.python: {python} .*; name an interpreter of Python 3.11 or newer"
    with pytest.raises(UnusableClusterError, match=said):
        broken.prepare([broken.folder.root])


def test_what_setup_lines_print_is_no_part_of_an_answer(connection):
    address = ClusterAddress(None, connection.address.root, "$PY", ("echo loading", f"PY={sys.executable}"))
    loud = ClusterConnection(address, ClusterSources.of_service())
    with pytest.raises(UnusableClusterError):  # a name, and no variable
        loud.prepare([loud.folder.root])
    address = ClusterAddress(None, connection.address.root, sys.executable, ("echo loading", "echo more >&2"))
    assert ClusterConnection(address, ClusterSources.of_service()).prepare([loud.folder.root]).queued is None


def test_a_root_that_may_be_mistyped_is_not_made(tmp_path):
    address = ClusterAddress(None, str(tmp_path / "scrach" / "ada" / "baton"), sys.executable)
    with pytest.raises(SlurmError) as caught:
        ClusterConnection(address, ClusterSources.of_service()).prepare([])
    assert str(caught.value) == (
        f"config.root: there is no folder {tmp_path}/scrach/ada on this machine; make it, or correct the path"
    )
    assert list(tmp_path.iterdir()) == []
