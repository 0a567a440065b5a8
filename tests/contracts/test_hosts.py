"""What every host does: this machine, and one over ssh (the sshd of the real Slurm's lab)."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.lab import Lab, slurm_lab, until

from nemo_slurm import ssh
from nemo_slurm.calls import HostCalls
from nemo_slurm.errors import (
    CommandFailedError,
    CommandMissingError,
    LoginNeededError,
    NoSuchPathError,
    NotConnectedError,
    NotReachableError,
    PathExistsError,
    UnusableValueError,
)
from nemo_slurm.hosts import Host, LocalHost, is_this_machine
from nemo_slurm.ssh import CONFIG_VARIABLE, SshHost, host_of

pytestmark = pytest.mark.services

__all__ = ["slurm_lab"]

ODD = 'it\'s "odd"\n$(touch /tmp/never) `id` ;\\ ☃'


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.slurm)])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of host."""
    if request.param == "local":
        yield LocalHost()
        return
    lab: Lab = request.getfixturevalue("slurm_lab")
    with SshHost("lab", environ=lab.environ) as found:
        yield found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with everything odd in it."""
    tree = tmp_path / ODD.replace("/", "_")
    (tree / " blank ").mkdir(parents=True)
    (tree / "empty folder").mkdir()
    (tree / " blank " / "-n\nname").write_bytes(bytes(range(256)) * 700)
    (tree / "secret.sh").write_text("export X='y'\n")
    (tree / "secret.sh").chmod(0o600)
    (tree / "empty").touch()
    return tree


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(f.relative_to(folder)): (stat.S_IMODE(f.stat().st_mode), f.read_bytes()) for f in files}


def test_a_script_has_its_status_output_and_errors_apart(host: Host) -> None:
    done = host.run("printf 'out\\nno newline'; echo err >&2; exit 3")
    assert (done.status, done.stdout, done.stderr) == (3, "out\nno newline", "err\n")


def test_values_reach_a_script_whole_and_in_no_argument_list(host: Host) -> None:
    script = """printf '%s' "$VALUE"; tr '\\0' ' ' </proc/$$/cmdline >&2; cat /proc/$PPID/cmdline >&2"""
    done = host.run(script, env={"VALUE": ODD})
    assert done.stdout == ODD
    assert "never" not in done.stderr
    assert not Path("/tmp/never").exists()


def test_no_process_anywhere_shows_a_value_while_a_script_runs(host: Host, tmp_path: Path) -> None:
    secret = "canary-4711"
    shown: list[str] = []
    seen = tmp_path / "seen"
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            # the script goes on until a whole look had it before its eyes
            if any("sleep 0.05" in line for line in shown):
                seen.touch()
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    shown.append(file.read_bytes().decode(errors="replace").replace("\0", " "))
            time.sleep(0.03)

    host.run("true")
    thread = threading.Thread(target=look)
    thread.start()
    script = (
        f'for i in {{1..600}}; do [ -e "{seen}" ] && break; sleep 0.05; done; sleep 0.4; echo "${{#TOKEN}}"'
    )
    done = host.run(script, env={"TOKEN": secret})
    over.set()
    thread.join()
    assert done.stdout == f"{len(secret)}\n"
    assert seen.exists()
    assert not [line for line in shown if secret in line]


def test_a_script_reads_an_empty_input_and_not_the_rest_of_itself(host: Host) -> None:
    assert host.run('cat; read -r line; echo "[$line]"\necho after').stdout == "[]\nafter\n"


def test_a_script_of_any_size_is_taken_and_a_broken_one_is_an_error(host: Host) -> None:
    long = "x" * 300_000
    assert host.run(f"v={long}; echo ${{#v}}").stdout == "300000\n"
    broken = host.run("echo one; if")
    assert broken.status != 0
    assert "syntax error" in broken.stderr


def test_a_command_that_does_not_end_is_given_up_in_time(host: Host) -> None:
    host.run("true")
    with pytest.raises(NotReachableError, match=r"no answer within 0\.3 s"):
        host.run("sleep 30", timeout=0.3)
    assert host.run("echo fine").stdout == "fine\n"


def test_a_copy_has_the_same_names_bytes_and_permissions(host: Host, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "not there yet" / f"run {ODD}".replace("/", "_")
    host.copy_in(tree, str(target))
    assert content(target) == content(tree)
    assert (target / "empty folder").is_dir()
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    host.copy_in(tree / "secret.sh", str(tmp_path / "one file"))
    assert stat.S_IMODE((tmp_path / "one file").stat().st_mode) == 0o600


def test_a_copy_has_the_times_of_the_host_although_the_clock_here_is_wrong(
    host: Host, tree: Path, tmp_path: Path
) -> None:
    ahead = time.time() + 7200
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (ahead, ahead))
    host.copy_in(tree, str(tmp_path / "there"))
    assert all(path.stat().st_mtime < ahead - 3600 for path in (tmp_path / "there").rglob("*"))


def test_a_copy_never_touches_what_is_there(host: Host, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").write_text("kept")
    for local in (tree, tree / "empty"):
        with pytest.raises(PathExistsError, match="is there already"):
            host.copy_in(local, str(target))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(PathExistsError):
        host.copy_in(tree, str(link))
    assert content(target) == {"mine": (0o644, b"kept")}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["link", "target", tree.name])


def test_a_copy_to_where_nothing_can_be_written_says_why(host: Host, tree: Path) -> None:
    with pytest.raises(CommandFailedError, match="proc"):
        host.copy_in(tree, "/proc/nowhere/run")


def test_files_come_back_whole_and_only_when_they_changed(host: Host, tree: Path, tmp_path: Path) -> None:
    local = tmp_path / "mine"
    assert len(host.copy_out(str(tree), local)) == 3
    assert {name: data for name, (_, data) in content(local).items()} == {
        name: data for name, (_, data) in content(tree).items()
    }
    (local / "of mine alone").write_text("kept")
    assert host.copy_out(str(tree), local) == []
    (tree / "empty").write_text("no more")
    assert host.copy_out(str(tree), local) == [local / "empty"]
    assert (local / "empty").read_text() == "no more"
    assert (local / "of mine alone").read_text() == "kept"


def test_a_part_of_a_folder_can_be_wanted(host: Host, tree: Path, tmp_path: Path) -> None:
    found = host.copy_out(str(tree), tmp_path / "mine", wanted=lambda path: not path.startswith(" blank /"))
    assert [path.name for path in found] == ["empty", "secret.sh"]


def test_a_copy_that_broke_off_goes_on_where_it_stopped(host: Host, tmp_path: Path) -> None:
    source, local = tmp_path / "there", tmp_path / "here"
    source.mkdir()
    data = os.urandom(1 << 16)
    (source / "rollouts.jsonl").write_bytes(data)
    host.copy_out(str(source), local)
    # as a broken copy leaves it: a beginning, recognisable by a byte that the source does not have
    from nemo_slurm import transfer

    (local / "rollouts.jsonl").unlink()
    (file,) = transfer.listing(host, str(source))  # type: ignore[arg-type]
    part = file.part(local / "rollouts.jsonl")
    part.write_bytes(b"\xff" * 1000)
    stale = local / ".rollouts.jsonl.part-0123456789"
    stale.write_bytes(b"of an older file")
    host.copy_out(str(source), local)
    assert (local / "rollouts.jsonl").read_bytes() == b"\xff" * 1000 + data[1000:]
    assert [path.name for path in local.iterdir()] == ["rollouts.jsonl"]


def test_reading_and_writing_small_files(host: Host, tmp_path: Path) -> None:
    path = str(tmp_path / ODD.replace("/", "_") / "a\nfile")
    assert not host.exists(path)
    host.write(path, b"\0first\n", mode=0o600)
    host.write(path, bytes(range(256)), mode=0o640)
    assert host.exists(path)
    assert host.read(path) == bytes(range(256))
    assert host.read(path, offset=250, limit=3) == bytes([250, 251, 252])
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o640
    assert [entry.name for entry in Path(path).parent.iterdir()] == ["a\nfile"]
    with pytest.raises(NoSuchPathError, match="no such file"):
        host.read(str(tmp_path / "nothing"))
    with pytest.raises(NoSuchPathError, match="no such folder"):
        host.copy_out(str(tmp_path / "nothing"), tmp_path / "x")


def test_what_cannot_be_meant_is_refused_before_anything_is_sent(host: Host) -> None:
    for path in ("relative", "", "/zero\0byte"):
        with pytest.raises(UnusableValueError):
            host.exists(path)
    with pytest.raises(UnusableValueError):
        host.run("true", env={"A B": "x"})
    with pytest.raises(UnusableValueError):
        host.run("true", env={"A": "x\0y"})


def test_a_missing_command_is_explained_with_the_path_that_was_searched(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandMissingError) as caught:
        HostCalls(host).call([["sbatch-of-nowhere", "x"]])
    assert "sbatch-of-nowhere cannot be found on" in str(caught.value)
    assert "PATH=/" in str(caught.value)


def test_a_chatty_shell_does_not_get_into_what_a_command_prints(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = tmp_path / "noise"
    noise.write_text("echo 1234; echo welcome >&2\n")
    if isinstance(host, LocalHost):
        monkeypatch.setenv("BASH_ENV", str(noise))
    else:
        host.name = f"{host.name}"  # type: ignore[misc]
        host.argv = lambda argv=host.argv: [*argv()[:-1], f"cat '{noise}' | bash; exec bash -s"]  # type: ignore[attr-defined]
    done = host.run("echo only this")
    assert (done.stdout, done.stderr) == ("only this\n", "")


def test_a_command_missing_here_but_found_by_a_login_shell_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    program = tmp_path / "site" / "sbatch-x"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (own_home / ".bash_profile").write_text(f"echo welcome; PATH=$PATH:{program.parent}\n")
    with pytest.raises(CommandMissingError) as caught:
        HostCalls(LocalHost()).call([["sbatch-x"]])
    assert f"a login shell finds {program}" in str(caught.value)
    assert f"export PATH={program.parent}:$PATH" in str(caught.value)


def test_only_a_name_of_this_machine_is_this_machine() -> None:
    import socket

    assert is_this_machine(None)
    assert is_this_machine(socket.gethostname())
    assert not is_this_machine("login.example.org")
    assert isinstance(host_of(None), LocalHost)
    assert host_of("login.example.org").name == "login.example.org"
    for name in ("-oProxyCommand=x", "a b", "", "a\nb"):
        with pytest.raises(UnusableValueError):
            host_of(name)


# ---------------------------------------------------------------- ssh alone


def config_with(lab: Lab, folder: Path, host: str, **changes: str) -> dict[str, str]:
    """The lab's ssh configuration with other values."""
    text = (lab.folder / "ssh" / "config").read_text().replace("Host lab", f"Host {host}")
    lines = [line for line in text.splitlines() if line.split()[0] not in changes]
    config = folder / "ssh config"
    config.write_text("\n".join([*lines, *(f"  {key} {value}" for key, value in changes.items()), ""]))
    return {CONFIG_VARIABLE: str(config)}


@pytest.mark.slurm
def test_our_own_connection_is_shared_has_a_short_socket_and_leaves_nothing(slurm_lab: Lab) -> None:
    with SshHost("lab", environ=slurm_lab.environ) as host:
        assert host.shares == "ours"
        socket = next(word for word in host.argv() if word.startswith("ControlPath=")).removeprefix(
            "ControlPath="
        )
        assert len(socket) < 90
        assert stat.S_IMODE(Path(socket).parent.stat().st_mode) == 0o700
        first = host.run("echo $PPID").stdout
        assert host.run("echo $PPID").stdout == first, "each command made a connection of its own"
        end = [*host.argv()[:3], "-o", f"ControlPath={socket}", "-O", "exit", "lab"]
        subprocess.run(end, check=True, capture_output=True)
        # ssh does not wait for it: a command of this moment may still find the socket, and connects by itself
        until(lambda: not Path(socket).exists())
        second = host.run("echo $PPID").stdout
        assert second != first
        assert host.run("echo $PPID").stdout == second, "a connection that had ended was not made anew"
        socket = host.argv()[host.argv().index("-T") - 1].removeprefix("ControlPath=")
    assert not Path(socket).parent.exists()


@pytest.mark.slurm
def test_where_no_socket_can_be_made_every_command_connects_by_itself(
    slurm_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "_LONGEST_SOCKET", 0)
    with SshHost("lab", environ=slurm_lab.environ) as host:
        assert host.shares == "none"
        assert host.run("echo $PPID").stdout != host.run("echo $PPID").stdout


@pytest.mark.slurm
def test_a_connection_that_the_user_has_open_is_used_and_left_open(slurm_lab: Lab, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    environ = config_with(slurm_lab, tmp_path, "theirs", ControlPath=str(folder / "s"))
    base = ["ssh", "-F", environ[CONFIG_VARIABLE]]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*base, "-MNf", "theirs"], check=True, timeout=30, **quiet)  # type: ignore[call-overload]
    try:
        # whoever logs in anew is turned away from here on: only the open connection can answer
        shutil.copy(environ[CONFIG_VARIABLE], tmp_path / "other")
        text = (tmp_path / "other").read_text().replace(str(slurm_lab.folder / "ssh" / "id"), "/dev/null")
        (tmp_path / "other").write_text(text)
        with SshHost("theirs", environ={CONFIG_VARIABLE: str(tmp_path / "other")}) as host:
            assert host.run("echo here").stdout == "here\n"
            assert host.shares == "theirs"
        assert (
            subprocess.run([*base, "-O", "check", "theirs"], capture_output=True, check=False).returncode == 0
        )
    finally:
        subprocess.run([*base, "-O", "exit", "theirs"], capture_output=True, check=False)
        shutil.rmtree(folder)


@pytest.mark.slurm
def test_a_login_that_needs_a_person_is_one_sentence_and_asks_nobody(
    slurm_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    environ = config_with(slurm_lab, tmp_path, "lab", IdentityFile=str(other))
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    monkeypatch.setattr(ssh, "_LONGEST_SOCKET", 200)
    with SshHost("lab", environ=environ) as host, pytest.raises(LoginNeededError) as caught:
        host.run("true")
    assert "needs a person" in str(caught.value)
    assert list((tmp_path / "t").iterdir()) == [], "something was left behind"
    assert "run `ssh lab`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slurm
def test_a_host_with_another_key_is_not_talked_to(slurm_lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    port = (slurm_lab.folder / "ssh" / "known_hosts").read_text().split()[0]
    known = tmp_path / "known_hosts"
    known.write_text(f"{port} {' '.join((tmp_path / 'key.pub').read_text().split()[:2])}\n")
    environ = config_with(slurm_lab, tmp_path, "lab", UserKnownHostsFile=str(known))
    with SshHost("lab", environ=environ) as host, pytest.raises(LoginNeededError, match="key of host 'lab'"):
        host.run("true")


@pytest.mark.slurm
def test_a_host_that_is_not_there_is_not_reachable(slurm_lab: Lab, tmp_path: Path) -> None:
    environ = config_with(slurm_lab, tmp_path, "lab", Port="17097")
    with (
        SshHost("lab", environ=environ) as host,
        pytest.raises(NotReachableError, match="cannot reach 'lab'"),
    ):
        host.run("true")


@pytest.mark.slurm
def test_a_connection_that_breaks_in_a_command_leaves_its_outcome_open(slurm_lab: Lab) -> None:
    with (
        SshHost("lab", environ=slurm_lab.environ) as host,
        pytest.raises(NotReachableError, match="broke before the command ended"),
    ):
        host.run("kill -9 $PPID; kill -9 $$")


@pytest.mark.parametrize(
    ("said", "nothing_was_run"),
    [
        ("ssh: connect to host x port 22: Connection refused", True),
        ("ssh: Could not resolve hostname x: Name or service not known", True),
        ("kex_exchange_identification: Connection closed by remote host", True),
        ("u@x: Permission denied (publickey).", True),
        ("", False),
        ("mux_client_request_session: read from master failed: Broken pipe", False),
        ("client_loop: send disconnect: Broken pipe", False),
        ("Connection to x closed by remote host.", False),
    ],
)
def test_only_a_connection_that_was_never_made_proves_that_nothing_was_run(
    said: str, nothing_was_run: bool
) -> None:
    error = SshHost("x", environ={}).explain(255, said)
    assert isinstance(error, NotReachableError)
    assert isinstance(error, NotConnectedError) == nothing_was_run
    assert nothing_was_run or "whether it did is not known" in str(error)


def test_a_script_that_began_has_begun_though_nothing_of_its_output_came() -> None:
    with pytest.raises(NotReachableError, match="broke before the command ended"):
        SshHost("x", environ={}).unwrap(255, b"", b"m begin\nsbatch: Permission denied\n", "m")
