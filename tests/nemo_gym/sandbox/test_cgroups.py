"""Files of control groups as the kernel shows them: test machines have none that a test may divide."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nemo_gym.sandbox import cgroups
from nemo_gym.sandbox.cgroups import ControlGroup, ControlGroups
from nemo_gym.sandbox.protocol import Limits

MOUNTS = "35 26 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = (
    "30 24 0:26 / /sys/fs/cgroup/memory rw shared:15 - cgroup cgroup rw,memory\n"
    "29 24 0:25 / /sys/fs/cgroup/unified rw shared:14 - cgroup2 cgroup2 rw\n"
)
CONTAINER = "900 800 0:30 /docker/ab12 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "folder"),
    [
        ("0::/user.slice/gym.scope\n", MOUNTS, "/sys/fs/cgroup/user.slice/gym.scope"),
        ("4:memory:/a\n0::/\n", HYBRID, "/sys/fs/cgroup/unified"),
        ("0::/docker/ab12/job\n", CONTAINER, "/sys/fs/cgroup/job"),
        ("0::/docker/ab123\n", CONTAINER, None),
        ("4:memory:/a\n", MOUNTS, None),
        ("0::/a\n", "22 1 8:1 / / rw - ext4 /dev/sda rw\n", None),
    ],
)
def test_the_own_group_is_found(cgroup: str, mounts: str, folder: str | None) -> None:
    assert cgroups.own_group(cgroup, mounts) == (None if folder is None else Path(folder))


def group(folder: Path, **files: str) -> Path:
    """A group's files, as a scope that systemd delegates has them."""
    folder.mkdir(parents=True)
    texts = {
        "cgroup.type": "domain\n",
        "cgroup.procs": f"{os.getpid()}\n",
        "cgroup.controllers": "cpu memory pids\n",
        "cgroup.subtree_control": "",
    }
    for name, text in (texts | {key.replace("__", "."): value for key, value in files.items()}).items():
        (folder / name).write_text(text)
    return folder


def given(tmp_path: Path) -> ControlGroups | None:
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/scope\n")
    (proc / "mountinfo").write_text(MOUNTS.replace("/sys/fs/cgroup", str(tmp_path / "fs")))
    return cgroups.delegated(tmp_path / "proc")


def test_a_group_that_was_given_to_us_alone_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = group(tmp_path / "fs/scope")
    monkeypatch.setattr(cgroups, "_NEEDED", ("memory", "pids"))
    real = Path.write_text

    def as_kernel(path: Path, text: str) -> int:  # the kernel shows names without their signs
        return real(path, text.replace("+", "") if path.name == "cgroup.subtree_control" else text)

    monkeypatch.setattr(Path, "write_text", as_kernel)
    found = given(tmp_path)
    assert found is not None
    assert (part / "gym-own/cgroup.procs").read_text() == str(os.getpid())
    assert (part / "cgroup.subtree_control").read_text() == "memory pids"
    made = found.new(Limits(memory_bytes=4096, processes=10), overhead=2)
    texts = {path.name: path.read_text() for path in made.folder.iterdir()}
    assert texts == {"memory.max": "4096", "memory.oom.group": "1", "memory.swap.max": "0", "pids.max": "20"}


@pytest.mark.parametrize(
    "files",
    [
        {"cgroup__procs": f"{os.getpid()}\n{os.getppid()}\n"},
        {"cgroup__controllers": "cpu pids\n"},
    ],
    ids=["others", "no memory"],
)
def test_a_group_of_others_or_without_what_is_needed_is_left_as_it_is(
    tmp_path: Path, files: dict[str, str]
) -> None:
    part = group(tmp_path / "fs/scope", **files)
    assert given(tmp_path) is None
    assert not (part / "gym-own").exists()
    assert (part / "cgroup.subtree_control").read_text() == ""


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.events": "low 0\nmax 12\noom 1\noom_kill 3\n", "pids.events": "max 0\n"}, "memory"),
        ({"memory.events": "max 4\noom_kill 0\n", "pids.events": "max 7\n"}, "processes"),
        ({"memory.events": "max 4\noom_kill 0\n", "pids.events": "max 0\n"}, None),
        ({}, None),
    ],
)
def test_what_the_kernel_enforced_is_read(tmp_path: Path, files: dict[str, str], limit: str | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert ControlGroup(tmp_path).exceeded() == limit


def test_a_command_enters_its_group_before_it_runs(tmp_path: Path) -> None:
    argv = [*ControlGroup(tmp_path).prefix, "printf", "%s ", "a b", "c"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (done.stdout, (tmp_path / "cgroup.procs").read_text()) == ("a b c ", "0\n")
