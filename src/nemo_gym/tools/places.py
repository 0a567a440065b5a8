"""Where the tools of a rollout run: in the sandbox that the config names, or as the user's own programs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from nemo_gym.sandbox.options import SandboxOptions
from nemo_gym.sandbox.protocol import Limits, Sandbox
from nemo_gym.sandbox.registry import load_sandbox
from nemo_gym.tools.calling import RolloutPlace
from nemo_gym.tools.plain_programs import PlainPrograms
from nemo_gym.types import Row


class Places:
    """Makes the place of each rollout."""

    def __init__(
        self, spec: Mapping[str, Any] | None, *, needed: bool, files: Sequence[str] = (), where: str
    ) -> None:
        """``needed``: code of the model will run. ``files``: what programs of tools read of this machine.

        Raises `ConfigError` for a sandbox that cannot be had.
        """
        self._sandbox: Sandbox = PlainPrograms()
        self._limits = Limits()
        self._python = sys.executable
        self._options: SandboxOptions | None = None
        if spec is not None or needed:
            self._sandbox = load_sandbox(_with_files(spec or {}, files), where=where)
            options = {key: value for key, value in (spec or {}).items() if key != "type"}
            self._options = SandboxOptions.model_validate(options)
            self._limits = self._options.limits
            self._python = "python3"

    @asynccontextmanager
    async def open(self, row: Row | None, *, output_bytes: int) -> AsyncIterator[RolloutPlace]:
        """A place with a folder of its own; leaving it ends everything that runs there."""
        async with self._sandbox.open() as session:
            yield RolloutPlace(session, self._python, output_bytes, self._limits, self._sandbox, row)

    async def facts(self) -> dict[str, str]:
        """The Python of the sandbox, where there is one that works."""
        if self._options is None:
            return {}
        found = await self._sandbox.probe()
        return {"sandbox": f"python {found.python_version} sha256:{found.python_digest}"}


def _with_files(spec: Mapping[str, Any], files: Sequence[str]) -> Mapping[str, Any]:
    """The sandbox with further files that programs can read."""
    own = spec.get("read_only") or ()
    if not files or not isinstance(own, list | tuple):
        return spec  # what is wrong with it is said when it is loaded
    return {**spec, "read_only": [*own, *files]}
