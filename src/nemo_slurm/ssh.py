"""A host over ssh, with the user's own configuration.

A connection that the user has open (a ControlMaster, so with one-time passwords too) is used first; else one
of our own is shared by all commands; else every command connects by itself. Nothing here ever asks a person.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping

from nemo_runs.clock import GrowingPause
from nemo_slurm.channel import tail
from nemo_slurm.errors import (
    CommandFailedError,
    CommandMissingError,
    LoginNeededError,
    NotConnectedError,
    SlurmError,
    UnusableValueError,
)
from nemo_slurm.hosts import BashHost, Host, LocalHost, broken, is_this_machine

CONFIG_VARIABLE = "NEMO_GYM_SSH_CONFIG"
"""Names a file for ``ssh -F``."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%\[\]-]*")
_OPTIONS = {
    "BatchMode": "yes",
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "15",
    "LogLevel": "ERROR",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "4",
    "ServerAliveInterval": "15",
}
_LONGEST_SOCKET = 85
"""A socket's path has 107 bytes; ssh adds 17 while it makes one."""
_SOCKETS = "gym-ssh-"
"""What the names of folders with our sockets begin with."""
_SOCKETS_LEFT = 3600.0
"""Seconds after which such a folder without a connection was left behind; a connection is made within one
minute, and ends `_PERSIST` seconds after its last use."""
_PERSIST = 60
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds between two attempts to log in to a host that cannot be reached: twice as many each time."""
_FIRST_PAUSE_OF_LOGIN, _LONGEST_PAUSE_OF_LOGIN = 60.0, 900.0
"""The same where a host wants a person: sites lock out who is refused again and again."""
_LOOK_SECONDS = 5.0
"""Until then it is looked every so many seconds whether the person has opened a connection here."""
_HOST_KEY = re.compile(r"host key verification failed|remote host identification has changed", re.IGNORECASE)
_NEVER_CONNECTED = re.compile(
    r"connect to host|could not resolve|kex_exchange_identification|banner exchange|no route to host"
    r"|configuration|proxy",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"permission denied|too many authentication failures|no supported authentication methods"
    r"|password has expired",
    re.IGNORECASE,
)


class _Logins:
    """The attempts to log in to one host: after one that failed, none is made until its pause is over."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failed: NotConnectedError | None = None
        self._retry: GrowingPause | None = None
        self._look_due = 0.0

    def worked(self) -> None:
        """It was logged in."""
        self._failed = self._retry = None

    def failed(self, error: NotConnectedError) -> None:
        """One has failed; those that were made at the same time count once."""
        now, needs_person = self._monotonic(), isinstance(error, LoginNeededError)
        if self._retry is not None and type(self._failed) is type(error):
            if self._retry.is_due(now):
                self._retry.fail(now)
            return
        self._failed = error
        limits = (
            (_FIRST_PAUSE_OF_LOGIN, _LONGEST_PAUSE_OF_LOGIN)
            if needs_person
            else (_FIRST_PAUSE, _LONGEST_PAUSE)
        )
        self._retry = GrowingPause(*limits)
        self._retry.fail(now)
        self._look_due = now + _LOOK_SECONDS

    def shorten(self) -> None:
        """Make the pause the shortest one: a person may have changed something, and asks."""
        if self._retry is not None:
            self._retry.due = min(self._retry.due, self._retry.due - self._retry.pause + _FIRST_PAUSE)

    def require_due(self, is_open: Callable[[], bool]) -> None:
        """Raise what the last one failed with while its pause lasts; ``is_open`` looks without logging in."""
        now = self._monotonic()
        if self._failed is None or self._retry is None or self._retry.is_due(now):
            return
        if isinstance(self._failed, LoginNeededError) and now >= self._look_due:
            self._look_due = now + _LOOK_SECONDS
            if is_open():
                return
        raise type(self._failed)(str(self._failed))


class SshHost(BashHost):
    """Another machine; safe for several threads.

    While it cannot be reached one attempt to log in is made at a time, after growing pauses, and everything
    that needs the host meanwhile gets what the last one failed with.
    """

    name: str

    def __init__(
        self,
        name: str,
        *,
        environ: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``environ`` may name a configuration file in `CONFIG_VARIABLE`; ``monotonic`` gives seconds."""
        if not _NAME.fullmatch(name):
            raise UnusableValueError(f"{name!r} is not the name of a host")
        self.name = name
        config = (os.environ if environ is None else environ).get(CONFIG_VARIABLE)
        self._base = ["ssh", *(["-F", config] if config else [])]
        self._connection: list[str] | None = None
        self._socket = ""
        self._end: weakref.finalize[[list[str], str], SshHost] | None = None
        self._logins = _Logins(monotonic)
        self._lock = threading.RLock()
        """Held while the connection is made or ended: who needs it meanwhile waits for what comes of it."""
        self._logging_in: subprocess.Popen[bytes] | None = None

    def argv(self) -> list[str]:
        """See `BashHost.argv`. The first use finds or makes the connection, and again when it has ended.

        Raises what the last attempt failed with while its pause lasts.
        """
        with self._lock:
            if self._end is not None and not os.path.exists(self._socket):
                self.close()
            if self._connection is None:
                self._logins.require_due(self._has_theirs)
                try:
                    self._connection = self._connect()
                except NotConnectedError as error:
                    self._logins.failed(error)
                    raise
            return [*self._base, *_options(), *self._connection, "-T", "--", self.name, "exec bash -s"]

    def expect_change(self) -> None:
        """A person asks, who may have changed what kept us out: the pause is over in seconds."""
        with self._lock:
            self._logins.shorten()

    def unwrap(self, status: int, stdout: bytes, stderr: bytes, mark: str) -> tuple[int, bytes, str]:
        """See `BashHost.unwrap`; a connection that could not be made is looked for again before the next."""
        try:
            found = super().unwrap(status, stdout, stderr, mark)
        except NotConnectedError as error:
            with self._lock:
                self._logins.failed(error)
                self.close()
            raise
        with self._lock:
            self._logins.worked()
        return found

    def close(self) -> None:
        """End the connection, if it is our own, or the attempt to make it; the next command makes another."""
        logging_in = self._logging_in
        if logging_in is not None:
            logging_in.kill()
        with self._lock:
            if self._end is not None:
                self._end()
                self._end = None
            self._connection = None

    @property
    def shares(self) -> str:
        """Whose connection is used: "theirs", "ours", or "none" when every command makes its own."""
        self.argv()
        if self._end is not None:
            return "ours"
        return "none" if self._connection else "theirs"

    def explain(self, status: int, text: str, *, sent: bool = True) -> SlurmError:
        """See `BashHost.explain`. ``sent``: whether a script may have reached the host.

        Only what ssh says of a connection that it could not make proves that nothing was run: one that breaks
        can take the script's first words with it.
        """
        said = tail(text) or f"ssh ended with status {status}"
        if _HOST_KEY.search(text):
            return LoginNeededError(
                f"the key of host {self.name!r} is not the known one ({said}); a person must look at it: "
                f"run `ssh {self.name}` once, then try again"
            )
        if _LOGIN.search(text):
            return LoginNeededError(
                f"logging in to {self.name!r} needs a person ({said}); run `ssh {self.name}` in another "
                "terminal with ControlMaster in your ssh configuration and leave it open, then try again"
            )
        if status == 127:
            return CommandMissingError(f"there is no bash on {self.name!r} ({said})")
        if status != 255:
            return CommandFailedError(["bash"], status, text, where=repr(self.name))
        if sent and not _NEVER_CONNECTED.search(text):
            return broken(self.label, said)
        return NotConnectedError(f"cannot reach {self.name!r}: {said}")

    def _connect(self) -> list[str]:
        """The options that make ssh use a shared connection."""
        if self._has_theirs():
            return []
        folder = _socket_folder()
        if folder is not None:
            self._socket = f"{folder}/s"
            mine = ["-o", f"ControlPath={self._socket}"]
            try:
                started = self._start_master(mine)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if started:
                last = [*self._base, *mine, "-O", "exit", "--", self.name]
                self._end = weakref.finalize(self, _end_master, last, folder)
                return ["-o", "ControlMaster=no", *mine]
            shutil.rmtree(folder, ignore_errors=True)
        return ["-o", "ControlMaster=no", "-o", "ControlPath=none"]

    def _has_theirs(self) -> bool:
        """Whether the user has a connection open; nothing is sent to the host."""
        asked = [*self._base, "-o", "BatchMode=yes", "-O", "check", "--", self.name]
        return _quiet(asked, timeout=10) == 0

    def _start_master(self, mine: list[str]) -> bool:
        """Log in once. False when this ssh or this file system cannot share connections."""
        argv = [
            *self._base,
            *_options(),
            *mine,
            "-o",
            "ControlMaster=yes",
            "-o",
            f"ControlPersist={_PERSIST}",
        ]
        # the part of ssh that stays must not hold a pipe of ours open
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                [*argv, "-N", "--", self.name],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
            self._logging_in = process
            try:
                status = process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise NotConnectedError(f"cannot reach {self.name!r}: no answer within 30 s") from None
            finally:
                self._logging_in = None
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        error = self.explain(status, text, sent=False)
        if status and (isinstance(error, LoginNeededError) or "control" not in text.lower()):
            raise error
        return status == 0 and _quiet([*self._base, *mine, "-O", "check", "--", self.name], timeout=10) == 0


def host_of(hostname: str | None, *, environ: Mapping[str, str] | None = None) -> Host:
    """The host that a configuration's ``hostname`` means; nothing is connected yet."""
    if hostname is None or is_this_machine(hostname):
        return LocalHost()
    return SshHost(hostname, environ=environ)


def _options() -> list[str]:
    return [word for key, value in _OPTIONS.items() for word in ("-o", f"{key}={value}")]


def _socket_folder() -> str | None:
    """A private folder with a short path, or `None`."""
    for base in (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", "")):  # noqa: S108 - mkdtemp makes a private folder
        if (
            base
            and len(os.fsencode(base)) + len(f"/{_SOCKETS}12345678/s") <= _LONGEST_SOCKET
            and not re.search(r"[%\s\"']", base)
        ):
            with contextlib.suppress(OSError):
                _remove_left_sockets(base)
                return tempfile.mkdtemp(prefix=_SOCKETS, dir=base)
    return None


def _remove_left_sockets(base: str) -> None:
    """Remove folders of sockets behind which nobody listens any more: of programs that were killed."""
    for entry in os.scandir(base):
        with contextlib.suppress(OSError):
            if not entry.name.startswith(_SOCKETS) or not entry.is_dir(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SOCKETS_LEFT:
                continue
            if os.path.lexists(socket_file := f"{entry.path}/s"):
                if _listens(socket_file):
                    continue
                os.unlink(socket_file)
            os.rmdir(entry.path)


def _listens(socket_file: str) -> bool:
    """Whether somebody listens at a socket; raises `OSError` where that cannot be known."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(1)
        try:
            asked.connect(socket_file)
        except ConnectionRefusedError:
            return False
    return True


def _end_master(argv: list[str], folder: str) -> None:
    _quiet(argv, timeout=5)
    shutil.rmtree(folder, ignore_errors=True)


def _quiet(argv: list[str], *, timeout: float) -> int:
    null = subprocess.DEVNULL
    try:
        return subprocess.run(
            argv, stdin=null, stdout=null, stderr=null, check=False, timeout=timeout
        ).returncode
    except FileNotFoundError:
        raise CommandMissingError("there is no ssh on this machine; install the OpenSSH client") from None
    except subprocess.TimeoutExpired:
        return 255


__all__ = ["CONFIG_VARIABLE", "Host", "LocalHost", "SshHost", "host_of"]
