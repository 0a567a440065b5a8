"""Calling Slurm's commands on a host: many in one round trip, in a clean environment, one answer each."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from nemo_slurm import commands
from nemo_slurm.channel import new_mark, tail
from nemo_slurm.errors import CommandMissingError, NoSuchPathError, NotReachableError
from nemo_slurm.hosts import Completed, Host
from nemo_slurm.remote_script import remote_script

_MISSING = 46
_SLOW = 124
_ENTRY = 47


class Calls(Protocol):
    """Calls commands of a cluster. The fake cluster has its own."""

    def call(
        self,
        argvs: Sequence[Sequence[str]],
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> list[Completed]:
        """Call one command after the other, whatever becomes of the earlier ones; one answer each.

        Raises `NotReachableError` when the host or one of the commands does not answer within ``timeout``
        seconds, `CommandMissingError` when one cannot be found.
        """
        ...


class HostCalls:
    """Calls commands on a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def call(
        self,
        argvs: Sequence[Sequence[str]],
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> list[Completed]:
        """See `Calls.call`. One round trip."""
        if not argvs:
            return []
        mark = new_mark()
        script = _script(argvs, folder, mark, timeout)
        # a hung command is ended there; the host is waited for a little longer
        done = self._host.run(script, env=env, timeout=timeout * len(argvs) + 15)
        if done.status == _MISSING:
            raise CommandMissingError(self._explain(done.stdout))
        if done.status == _ENTRY:
            raise NoSuchPathError(f"{folder} on {self._host.label} cannot be entered: {tail(done.stderr)}")
        answers = list(_split(done, mark))
        for argv, answer in zip(argvs, answers, strict=True):
            if answer.status == _SLOW:
                raise NotReachableError(
                    f"{argv[0]} on {self._host.label} gave no answer within {timeout:g} s"
                )
        return answers

    def _explain(self, found: str) -> str:
        lines = dict(line.partition("=")[::2] for line in found.splitlines())
        name, path, login = (lines.get(key, "") for key in ("name", "path", "login"))
        start = f"{name} cannot be found on {self._host.label}: commands without a terminal have PATH={path}"
        if login.startswith("/"):
            folder = login.rpartition("/")[0]
            return (
                f"{start}, while a login shell finds {login}; put `export PATH={folder}:$PATH` at the very "
                "top of ~/.bashrc there, above any line that returns when the shell is not interactive"
            )
        return f"{start}; is Slurm installed there, or is `hostname` of another machine meant?"


def _script(argvs: Sequence[Sequence[str]], folder: str | None, mark: str, timeout: float) -> str:
    clean = pkgutil.get_data("nemo_slurm", "clean_environment.sh") or b""
    return clean.decode() + remote_script(
        "nemo_slurm",
        "call",
        slurm_mark=mark,
        slurm_limit=f"{timeout:g}",
        slurm_folder=folder or "",
        slurm_settings=[f"{name}={value}" for name, value in commands.ENVIRONMENT.items()],
        slurm_words=[word for argv in argvs for word in argv],
        slurm_counts=[len(argv) for argv in argvs],
    )


def _split(done: Completed, mark: str) -> list[Completed]:
    """The answers to the single commands."""
    out, err = (re.split(f"\n{mark} ([0-9]+)\n", text) for text in (done.stdout, done.stderr))
    return [
        Completed(int(status), text, said)
        for text, status, said in zip(out[::2], out[1::2], err[::2], strict=False)
    ]
