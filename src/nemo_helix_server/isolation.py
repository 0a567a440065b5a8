"""What the steps of jobs see of this machine where tokens keep people apart: their own files, and no keys.

A step is a process of the service's own user. So that the holder of a token of one workspace cannot read the
signing key and make itself another one, an isolated step sees the system's folders, the program's, and those
of its job and workspace; of the data directory and the user's home it sees nothing else.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from nemo_helix_server.auth.step_tokens import KEY_FILE
from nemo_helix_server.errors import ServerError
from nemo_helix_server.executors import landlock
from nemo_helix_server.executors.landlock import FileAccess
from nemo_helix_server.settings import EngineSettings, Settings
from nemo_helix_server.storage.job_folders import name_shortly
from nemo_helix_server.storage.run_storage import StepPaths

_DEVICES = (
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "dri", "kfd", "infiniband",
)  # fmt: skip
_BROKERS = ("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")
"""What starts programs for everybody who may write to it."""
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - hidden from steps, not used here
"""Where everybody's programs leave files; a step has a folder of its own instead (``TMPDIR``)."""
_NO_BOUNDARY = "a token with the role admin is not a boundary between workspaces"
_PROGRAM = """
import sys
def shut(path):
    try:
        open(path, "rb").close()
    except PermissionError:
        return True
    return False
sys.exit(0 if all(map(shut, sys.argv[1:])) else 1)
"""


class IsolationError(ServerError):
    """The settings ask for isolated steps, and this machine cannot have them."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Whether a token of one workspace keeps its holder out of the others."""

    isolated: bool
    """Whether steps are kept from the service's keys."""
    holds: bool
    sentence: str
    """For the person who starts the service, or makes such a token."""


@dataclass(frozen=True, slots=True)
class IsolationFolders:
    """What one start of a step sees, and the variables that lead there."""

    file_access: FileAccess
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Isolation:
    """Makes the folders that steps may use."""

    settings: Settings
    cache: Path
    """Where engines are installed."""
    confined: Callable[[str], bool] = lambda _name: True
    """Whether who made a job holds a token of its workspace alone."""
    also_hidden: tuple[Path, ...] = ()

    def folders_for(
        self, paths: StepPaths, workspace: str, made_by: str, checkpoint: str | None
    ) -> IsolationFolders:
        """What a step sees; its home is made where it is not there yet.

        ``paths`` and ``checkpoint`` are as the run sees them, and so does what keeps it to them.
        """
        home = self.settings.data_dir / "homes" / workspace
        scratch = Path(paths.scratch)
        filesets = self._own_filesets(workspace)
        (home / ".cache").mkdir(parents=True, exist_ok=True, mode=0o700)
        read = [*self._common(), *self._all_filesets(made_by), paths.folder]
        if checkpoint is not None and not Path(checkpoint).is_relative_to(paths.storage):
            read.append(checkpoint)  # a pinned copy; in its storage a step could lead it elsewhere
        write = [*self._shared(), *filesets, paths.storage, str(scratch), str(home)]
        temporary = name_shortly(self.settings.data_dir, scratch)
        return IsolationFolders(FileAccess(tuple(read), tuple(write)), _leading_to(home, temporary))

    def of_preview(self, folder: Path, workspace: str, asked_by: str) -> IsolationFolders:
        """What an engine sees that shows what a job would learn, in a folder of its own."""
        home, scratch = folder / "home", folder / "tmp"
        for made in (home / ".cache", scratch):
            made.mkdir(parents=True)
        filesets = [*self._all_filesets(asked_by), *self._own_filesets(workspace)]
        read = (*self._common(), *filesets)
        return IsolationFolders(FileAccess(read, (*self._shared(), str(folder))), _leading_to(home, scratch))

    def works(self) -> bool:
        """Whether a process that sees what steps see cannot read the key, nor look into this one."""
        file_access = FileAccess(tuple(self._common()), tuple(self._shared()))
        key = self.settings.data_dir / KEY_FILE
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(key), f"/proc/{os.getpid()}/environ"],
                preexec_fn=functools.partial(landlock.confine, file_access),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                cwd="/",
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0

    def _own_filesets(self, workspace: str) -> list[str]:
        """The folder of a workspace's filesets, where they are on this machine; it is made."""
        filesets = self._filesets()
        if filesets is None:
            return []
        (filesets / workspace).mkdir(parents=True, exist_ok=True, mode=0o700)
        return [str(filesets / workspace)]

    def _all_filesets(self, name: str) -> list[str]:
        """The same of all workspaces, for who may see them."""
        filesets = self._filesets()
        return [] if filesets is None or self.confined(name) else [str(filesets)]

    def _filesets(self) -> Path | None:
        root = self.settings.files.root or str(self.settings.data_dir / "filesets")
        local = root.removeprefix("file://")
        return None if "://" in local else Path(local).absolute()

    def _core(self) -> list[Path]:
        """What nobody gets, whatever the settings say."""
        found = [self.settings.data_dir, *self.also_hidden, *_database(self.settings)]
        filesets = self._filesets()
        return _resolved([*found, *([filesets] if filesets else [])])

    def _common(self) -> Iterator[str]:
        core = self._core()
        yield from landlock.all_but([*core, *_home(), *_resolved(_TEMPORARY), Path("/dev")])
        given = self.settings
        more = [*self._programs()]
        more += [*(given.customization.local_paths or ()), *given.jobs.isolation.read]
        more += [engine.python.parent.parent for engine in _engines(given) if engine.python]
        yield from _within(more, core)

    def _programs(self) -> Iterator[Path]:
        """What the service and the engines run from: read by steps, and changed by none, wherever it lies."""
        yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1], self.cache)
        yield Path(__file__).parents[2] / "benchmarks"  # those that ship, beside the sources of a checkout

    def _shared(self) -> Iterator[str]:
        core = self._core()
        yield from _within(self.settings.jobs.isolation.write, core)
        yield from (f"/dev/{name}" for name in _DEVICES)
        yield from map(str, Path("/dev").glob("nvidia*"))


def judge(isolation: Isolation, *, tokens_required: bool) -> Boundary:
    """Try it; raises `IsolationError` where the settings ask for what this machine does not have."""
    mode: Literal["auto", "required", "none"] = isolation.settings.jobs.isolation.mode
    wanted = mode == "required" or (mode == "auto" and tokens_required)
    if not wanted:
        why = "jobs.isolation.mode is none" if mode == "none" else "no tokens are needed"
        return Boundary(False, False, _none(why))
    if not isolation.works():
        why = f"Landlock, a part of Linux, is not to be had (version {landlock.version()})"
        if mode == "required":
            raise IsolationError(f"jobs.isolation.mode is required, and {why}")
        return Boundary(False, False, _none(why))
    broker = next(_reachable(), None)
    if broker is not None:
        sentence = (
            f"steps do not see the service's keys, but everybody who reaches {broker} can start "
            "programs that do: "
            f"{_NO_BOUNDARY}; run the service as a user of its own"
        )
        return Boundary(True, False, sentence)
    shared = [
        f"{one.provider}/{one.profile}" for one in isolation.settings.jobs.executors if one.config.is_shared
    ]
    if shared:
        sentence = (
            f"steps of the execution profiles {', '.join(shared)} run as one user, who can read the files "
            f"and secrets of all jobs there (shares_user): {_NO_BOUNDARY}"
        )
        return Boundary(True, False, sentence)
    return Boundary(True, True, "steps see neither the service's keys nor what is of other workspaces")


def _none(why: str) -> str:
    return (
        f"steps run as the service's user and can read its keys ({why}): {_NO_BOUNDARY}, so give one only to "
        "who may do anything"
    )


def _reachable() -> Iterator[str]:
    own = os.getuid()
    buses = [f"/run/user/{own}/bus", f"/run/user/{own}/systemd/private"]
    if own == 0:
        buses += ["/run/systemd/private", "/run/dbus/system_bus_socket"]
    for path in (*buses, *_BROKERS):
        if Path(path).is_socket() and os.access(path, os.W_OK):
            yield path


def _leading_to(home: Path, scratch: Path) -> dict[str, str]:
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "TMPDIR": str(scratch)}


def _within(roots: Iterable[Path], core: list[Path]) -> Iterator[str]:
    for root in _resolved(roots):
        if not any(path == root or path in root.parents for path in core):
            yield from landlock.all_but(core, root)


def _home() -> list[Path]:
    home = Path(os.environ.get("HOME") or Path.home()).resolve()
    return [home] if home != Path("/") else []


def _resolved(paths: Iterable[Path]) -> list[Path]:
    return [path.expanduser().resolve() for path in paths]


def _database(settings: Settings) -> list[Path]:
    try:
        url = make_url(settings.store_url())
    except ArgumentError:
        return []
    if url.get_backend_name() != "sqlite" or not url.database:
        return []
    return [Path(url.database + ending) for ending in ("", "-wal", "-shm", "-journal")]


def _engines(settings: Settings) -> list[EngineSettings]:
    return [getattr(settings.engines, name) for name in type(settings.engines).model_fields]
