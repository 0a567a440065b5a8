"""Sandboxes by type."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast

from nemo_gym import plugins
from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.bubblewrap import Bubblewrap
from nemo_gym.sandbox.interpreter import SandboxPython, check_folders, describe, own_python
from nemo_gym.sandbox.launching import SandboxKind
from nemo_gym.sandbox.options import SandboxOptions
from nemo_gym.sandbox.protocol import Limits, Sandbox, SandboxError, SandboxProbe, SandboxSession
from nemo_gym.sandbox.running import end_of_output
from nemo_gym.sandbox.session import session
from nemo_runs.suggestions import suggestion

AUTO, NONE = "auto", "none"
_ISOLATING = ("bubblewrap",)
"""What ``auto`` tries, in this order."""
_PROBE_LIMITS = Limits(seconds=60)
_PRINT_VERSION = "import platform; print(platform.python_version())"


def load_sandbox(spec: Mapping[str, Any] | None = None, *, where: str = "sandbox") -> Sandbox:
    """The sandbox that a config names: its ``type`` (``auto`` by default), limits and environment.

    Raises `ConfigError`, naming the dotted path below ``where``, for what is wrong in the config. Whether it
    works on this machine is what its ``probe`` says.
    """
    given = dict(spec or {})
    kind = given.pop("type", AUTO)
    options = cast("SandboxOptions", plugins.check_options(SandboxOptions, given, where=where))
    known = (AUTO, *_ISOLATING, NONE)
    if not isinstance(kind, str) or kind not in known:
        hint = suggestion(str(kind), known)
        raise ConfigError(f"{where}.type: there is no sandbox {kind!r}{hint}; known are {', '.join(known)}.")
    options = options.model_copy(update={"type": kind})
    if kind == AUTO:
        return FirstThatWorks([LaunchedSandbox(name, options) for name in _ISOLATING])
    return LaunchedSandbox(kind, options)


def python_of(spec: Mapping[str, Any]) -> SandboxPython:
    """The Python that programs find first in the sandbox of a config; raises `SandboxError`."""
    return describe(spec.get("python") or own_python())


def probe_now(sandbox: Sandbox) -> SandboxProbe:
    """What `Sandbox.probe` says, for callers that are not coroutines."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(sandbox.probe())).result()


def _launcher(kind: str, options: SandboxOptions, interpreter: SandboxPython) -> SandboxKind:
    if kind == NONE:
        return Bare(interpreter)
    check_folders(interpreter, os.environ)
    return Bubblewrap(interpreter, [str(folder) for folder in options.read_only])


class LaunchedSandbox:
    """A sandbox of one type."""

    def __init__(self, kind: str, options: SandboxOptions) -> None:
        self._kind = kind
        self._options = options
        self._found: tuple[SandboxProbe, SandboxKind | None] | None = None
        self._probing = asyncio.Lock()

    async def probe(self) -> SandboxProbe:
        """See `nemo_gym.sandbox.protocol.Sandbox`."""
        return (await self._tried())[0]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SandboxSession]:
        """See the protocol."""
        probe, launcher = await self._tried()
        if launcher is None:
            raise SandboxError(f"the sandbox {self._kind} does not work here: {probe.reason}")
        async with session(launcher, self._options.limits) as opened:
            yield opened

    async def _tried(self) -> tuple[SandboxProbe, SandboxKind | None]:
        async with self._probing:
            if self._found is None:
                self._found = await self._try()
            return self._found

    async def _try(self) -> tuple[SandboxProbe, SandboxKind | None]:
        try:
            interpreter = await asyncio.to_thread(describe, self._options.python or own_python())
            launcher = await asyncio.to_thread(_launcher, self._kind, self._options, interpreter)
            versions = launcher.versions()
            async with session(launcher, _PROBE_LIMITS) as opened:
                done = await opened.run(["python3", "-c", _PRINT_VERSION])
        except SandboxError as error:
            return SandboxProbe(self._kind, works=False, reason=str(error)), None
        version = end_of_output(done.stdout)
        if done.returncode != 0 or version != interpreter.version:
            how = f"went beyond its {done.limit}" if done.limit else f"ended with status {done.returncode}"
            said = end_of_output(done.stderr) or f"its version was {version or 'not said'}"
            reason = f"the Python {interpreter.program} {how} in it: {said}"
            return SandboxProbe(self._kind, works=False, reason=reason, versions=versions), None
        return SandboxProbe(self._kind, works=True, versions=versions), launcher


class FirstThatWorks:
    """The first of several sandboxes that works on this machine."""

    def __init__(self, candidates: Sequence[LaunchedSandbox]) -> None:
        self._candidates = candidates

    async def probe(self) -> SandboxProbe:
        """That of the first that works; where none does, the reasons of all."""
        found = [await candidate.probe() for candidate in self._candidates]
        works = next((probe for probe in found if probe.works), None)
        if works is not None:
            return works
        reasons = "; ".join(f"{probe.type}: {probe.reason}" for probe in found)
        return SandboxProbe(AUTO, works=False, reason=f"no sandbox works here ({reasons})")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SandboxSession]:
        """A session of the first that works."""
        for candidate in self._candidates:
            if (await candidate.probe()).works:
                async with candidate.open() as opened:
                    yield opened
                return
        raise SandboxError((await self.probe()).reason)
