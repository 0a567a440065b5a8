"""Isolation by the program ``bwrap``: namespaces of the kernel, without a daemon and without an image.

As an ordinary user it needs user namespaces, which some sites forbid. As root it does without them: the
program then gets a user of its own number, which nothing else on the machine has, and no capability.
"""

from __future__ import annotations

import functools
import os
import random
import re
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nemo_gym.sandbox import seccomp
from nemo_gym.sandbox.interpreter import SandboxPython
from nemo_gym.sandbox.launching import (
    DATA,
    MOUNTED_AT,
    SPARE_FILE,
    SPARE_PROCESSES,
    STATUS,
    SandboxCommand,
    inner_environment,
)
from nemo_gym.sandbox.protocol import Limits, SandboxError
from nemo_gym.sandbox.scratch import program

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
)
"""What programs need of /etc and what says nothing about users."""
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_INNER_USER = 1000
"""The number that an ordinary user has in the sandbox."""
_FIRST_OWN_USER, _OWN_USERS = 0x40000000, 0x10000000
"""Numbers from which root takes one for each session; no accounts have them."""
_BEGIN = 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; cd /work && exec "$@"'
"""When the machine's memory is short the kernel is to end the sandbox's programs first."""
_TIMEOUT = 20.0


class Bubblewrap:
    """Starts programs by ``bwrap``."""

    overhead = 2
    """The one outside, and the one that is the sandbox's first."""

    def __init__(
        self, interpreter: SandboxPython, read_only: Sequence[str] = (), *, as_root: bool | None = None
    ) -> None:
        """``read_only``: further folders that programs see. ``as_root``: by default whether this is root.

        Raises `SandboxError` where a program that is needed is missing.
        """
        self._interpreter = interpreter
        self._read_only = tuple(read_only)
        self._as_root = os.geteuid() == 0 if as_root is None else as_root
        self._needed = {name: _needed(name) for name in self._programs()}
        self._options = _options(self._needed["bwrap"])

    def versions(self) -> dict[str, str]:
        """What the programs say."""
        return {"bwrap": _version(self._needed["bwrap"])}

    def owner(self) -> int | None:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        return random.randrange(_FIRST_OWN_USER, _FIRST_OWN_USER + _OWN_USERS) if self._as_root else None

    def launch(self, argv: Sequence[str], folder: Path, limits: Limits, owner: int | None) -> SandboxCommand:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        filtered = seccomp.program()
        command = [
            self._needed["bwrap"],
            *("--json-status-fd", STATUS),
            *(("--seccomp", DATA) if filtered else ()),
            *_NAMESPACES,
            *self._user(),
            *("--die-with-parent", "--new-session"),
            *self._mounts(folder),
            "--",
            *self._inner(limits, owner),
            *argv,
        ]
        return SandboxCommand(
            argv=command,
            env=inner_environment([self._interpreter.bin]),
            data=filtered or b"",
        )

    def _programs(self) -> tuple[str, ...]:
        return ("bwrap", "prlimit", "setpriv") if self._as_root else ("bwrap", "prlimit")

    def _user(self) -> list[str]:
        if self._as_root:
            kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
            return ["--cap-drop", "ALL", *(word for cap in kept for word in ("--cap-add", cap))]
        user = str(_INNER_USER)
        further = ["--disable-userns"] if "--disable-userns" in self._options else []
        return ["--unshare-user", *further, "--uid", user, "--gid", user, "--cap-drop", "ALL"]

    def _mounts(self, folder: Path) -> list[str]:
        found: list[str] = []
        for path in (*_SYSTEM, *_SETTINGS):
            if os.path.islink(path) and path in _SYSTEM:
                found += ["--symlink", os.readlink(path), path]
            elif os.path.exists(path):
                found += [*self._way_to(path), "--ro-bind", path, path]
        found += ["--proc", "/proc", "--dev", "/dev"]
        for name, place in MOUNTED_AT.items():
            found += ["--bind", str(folder / name), place]
        # behind the others, since they may be below one of them
        for path in (*self._interpreter.folders, *self._read_only):
            found += [*self._way_to(path), "--ro-bind", path, path]
        return [*found, "--remount-ro", "/dev", "--remount-ro", "/"]

    def _way_to(self, path: str) -> list[str]:
        """Makes the folders above a path, which others may not enter on the machine, open to the program."""
        above = [str(folder) for folder in reversed(Path(path).parents) if folder != Path("/")]
        if "--perms" not in self._options:
            return []
        return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]

    def _inner(self, limits: Limits, owner: int | None) -> list[str]:
        found: list[str] = []
        if owner is not None:
            user = (f"--reuid={owner}", f"--regid={owner}", "--clear-groups")
            found = [self._needed["setpriv"], *user, "--inh-caps=-all", "--bounding-set=-all", "--"]
        most = {
            "nproc": (resource.RLIMIT_NPROC, limits.processes + SPARE_PROCESSES),
            "fsize": (resource.RLIMIT_FSIZE, limits.disk_bytes + SPARE_FILE),
            "core": (resource.RLIMIT_CORE, 0),
        }
        bounds = [f"--{name}={_at_most(kind, value)}" for name, (kind, value) in most.items()]
        return [*found, "/bin/sh", "-c", _BEGIN, "sh", self._needed["prlimit"], *bounds, "--"]


def _at_most(kind: int, value: int) -> int:
    """A limit of one process, which cannot be more than the one that this process has."""
    most = resource.getrlimit(kind)[1]
    return value if most == resource.RLIM_INFINITY else min(value, most)


def _needed(name: str) -> str:
    found = program(name)
    if found is None:
        package = "bubblewrap" if name == "bwrap" else "util-linux"
        raise SandboxError(f"the program {name} is not there; it comes with the package {package}")
    return found


@functools.cache
def _options(bwrap: str) -> frozenset[str]:
    """The options that this version has."""
    return frozenset(re.findall(r"--[a-z0-9-]+", _said(bwrap, "--help")))


@functools.cache
def _version(bwrap: str) -> str:
    return _said(bwrap, "--version").removeprefix("bubblewrap").strip()


def _said(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{argv[0]} cannot be run: {error}") from error
    return done.stdout + done.stderr
