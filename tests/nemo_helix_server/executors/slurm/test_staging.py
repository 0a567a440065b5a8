"""Files on their way to a cluster, whose host is this machine."""

import sys

import pytest

from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.staging import StagingError, files_of, push

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
    files = files_of(source, tmp_path / "ledger", lambda _name: True)
    return push(connection.host, connection.ask, source, files, target)


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
    push(Counting(), connection.ask, source, files, target)
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
        push(connection.host, connection.ask, source, files, target)


def test_links_of_the_service_arrive_as_what_they_lead_to(connection, source, tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "tokenizer.json").write_text("t")
    (source / "base").symlink_to(tmp_path / "hub", target_is_directory=True)
    (source / "loop").symlink_to(source, target_is_directory=True)
    target = connection.folder.job("j5").storage
    connection.prepare([target])
    assert send(connection, source, target, tmp_path) == 3
    assert connection.host.read(str(target / "base" / "tokenizer.json")) == b"t"


def test_what_is_sent_along_runs_with_nothing_else_installed(connection):
    code = connection.code()
    done = connection.host.run(
        f"cd / && PYTHONPATH={code} {sys.executable} -S -P -c "
        "'import nemo_helix_server.executors.slurm.allocation, nemo_helix_server.executors.slurm.on_cluster'"
    )
    assert (done.status, done.stderr) == (0, "")


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/false"])
def test_an_interpreter_that_is_none_is_named_with_the_key(connection, python):
    broken = ClusterConnection(
        ClusterAddress(None, connection.address.root, python), ClusterSources.of_service()
    )
    with pytest.raises(UnusableClusterError, match=rf"{python}.*by the key python of the profile"):
        broken.prepare([broken.folder.root])


def test_what_setup_lines_print_is_no_part_of_an_answer(connection):
    address = ClusterAddress(None, connection.address.root, "$PY", ("echo loading", f"PY={sys.executable}"))
    loud = ClusterConnection(address, ClusterSources.of_service())
    with pytest.raises(UnusableClusterError):  # a name, and no variable
        loud.prepare([loud.folder.root])
    address = ClusterAddress(None, connection.address.root, sys.executable, ("echo loading", "echo more >&2"))
    assert ClusterConnection(address, ClusterSources.of_service()).prepare([loud.folder.root]).free_bytes > 0
