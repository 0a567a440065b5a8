"""Where worlds are: the configured sandbox, with the interpreter that has bfcl-eval."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nemo_gym.bfcl import environment
from nemo_gym.errors import ConfigError
from nemo_gym.reports import to_stderr
from nemo_gym.sandbox.protocol import Sandbox
from nemo_gym.sandbox.registry import load_sandbox


class Place:
    """A sandbox that is made when it is first needed: the environment may have to be installed before."""

    def __init__(self, spec: Mapping[str, Any], *, where: str) -> None:
        load_sandbox(spec, where=where)
        for key in ("python", "environment"):
            if spec.get(key) is not None:
                raise ConfigError(f"{where}.{key}: the Python of bfcl's sandbox is its own; leave it out.")
        self._spec = spec
        self._where = where
        self._made: tuple[Sandbox, str] | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> tuple[Sandbox, str]:
        """The sandbox, and the interpreter in it. Raises `GymError` where either cannot be had."""
        async with self._lock:
            if self._made is None:
                python = str(await asyncio.to_thread(environment.ensure_python, to_stderr))
                sandbox = load_sandbox({**self._spec, "python": python}, where=self._where)
                found = await sandbox.probe()
                if not found.works:
                    raise ConfigError(f"{self._where}: {found.reason.rstrip('.')}.")
                self._made = sandbox, python
            return self._made
