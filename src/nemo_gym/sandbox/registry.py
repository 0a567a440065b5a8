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
from nemo_gym.package_environments import NoEnvironmentError
from nemo_gym.reports import to_stderr
from nemo_gym.sandbox import cgroups, config_files, environments
from nemo_gym.sandbox.apptainer import Apptainer
from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.bubblewrap import Bubblewrap
from nemo_gym.sandbox.environments import SandboxEnvironment
from nemo_gym.sandbox.interpreter import (
    DESCRIBE,
    SandboxPython,
    check_folders,
    describe,
    described,
    own_python,
)
from nemo_gym.sandbox.launching import SandboxKind
from nemo_gym.sandbox.options import SandboxOptions
from nemo_gym.sandbox.protocol import Limits, Sandbox, SandboxError, SandboxProbe, SandboxSession
from nemo_gym.sandbox.running import end_of_output
from nemo_gym.sandbox.session import session
from nemo_runs.suggestions import suggestion

APPTAINER, AUTO, NONE = "apptainer", "auto", "none"
_ISOLATING = ("bubblewrap", "apptainer")
"""What ``auto`` tries, in this order."""
_PROBE_LIMITS = Limits(seconds=60)


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
    if kind == APPTAINER and options.image is None:
        raise ConfigError(
            f"{where}.image: the sandbox apptainer needs an image, the path of a file or folder."
        )
    if kind == APPTAINER and options.python is not None:
        raise ConfigError(f"{where}.python: an image has its own Python; leave it out with apptainer.")
    _check_environment(kind, options, where)
    if kind == AUTO:
        names = [name for name in _ISOLATING if name != APPTAINER or options.image is not None]
        return FirstThatWorks([LaunchedSandbox(name, options) for name in names])
    return LaunchedSandbox(kind, options)


def _check_environment(kind: str, options: SandboxOptions, where: str) -> None:
    if options.environment is None:
        return
    if kind == APPTAINER:
        raise ConfigError(f"{where}.environment: an image has its own Python; leave it out with apptainer.")
    if options.python is not None:
        raise ConfigError(f"{where}.environment: name a python or an environment, not both.")
    try:
        environments.named(options.environment, options.environment_pins)
    except ConfigError as error:
        raise ConfigError(f"{where}.environment: {error}.") from None


def environment_of(spec: Mapping[str, Any]) -> SandboxEnvironment | None:
    """The named environment of a sandbox's options; raises `ConfigError`."""
    name = spec.get(config_files.NAME_KEY)
    return None if name is None else environments.named(name, spec.get(config_files.PINS_KEY))


def probe_now(sandbox: Sandbox) -> SandboxProbe:
    """What `Sandbox.probe` says, for callers that are not coroutines."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(sandbox.probe())).result()


def _kind_of(name: str, options: SandboxOptions) -> tuple[SandboxKind, SandboxPython | None]:
    """One kind of sandbox, and the Python of this machine that it is to show."""
    read_only = [str(folder) for folder in options.read_only]
    if name == APPTAINER:
        return Apptainer(options.image or "", read_only), None
    python = describe(_interpreter(options))
    if name == NONE:
        return Bare(python), python
    check_folders(python, os.environ)
    return Bubblewrap(python, read_only), python


def _interpreter(options: SandboxOptions) -> str:
    """The Python that is wanted, the environment that holds it installed first where there is one."""
    if options.environment is None:
        return options.python or own_python()
    try:
        named = environments.named(options.environment, options.environment_pins)
        return str(named.ensure_python(to_stderr))
    except NoEnvironmentError as error:
        raise SandboxError(str(error).rstrip(".")) from error


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
            launcher, python = await asyncio.to_thread(_kind_of, self._kind, self._options)
            versions = launcher.versions()
            async with session(launcher, _PROBE_LIMITS) as opened:
                done = await opened.run(["python3", "-I", "-c", DESCRIBE])
        except SandboxError as error:
            return SandboxProbe(self._kind, works=False, reason=str(error)), None
        try:
            found = described(done.stdout)
        except ValueError:
            how = f"went beyond its {done.limit}" if done.limit else f"ended with status {done.returncode}"
            reason = f"Python {how} in it: {end_of_output(done.stderr) or 'it said nothing'}"
            return SandboxProbe(self._kind, works=False, reason=reason, versions=versions), None
        if python is not None and found.digest != python.digest:
            reason = f"its Python is {found.program}, {found.version}, instead of {python.program}"
            return SandboxProbe(self._kind, works=False, reason=reason, versions=versions), None
        probe = SandboxProbe(
            self._kind,
            works=True,
            limits_by="watcher" if cgroups.of_this_process() is None else "cgroups",
            versions=versions,
            python_version=found.version,
            python_digest=found.digest,
        )
        return probe, launcher


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
