"""Starting the example training as a real process, and waiting for what it does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
TIMEOUT = 60.0


def environment(**extra: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NEMO_", "NHX_"))}
    inherited.pop("RANK", None)
    return inherited | {"PYTHONPATH": str(SOURCES)} | extra


def start(folder: Path, *options: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "nemo_trainer.example", "--dir", str(folder), *options]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**(env or {}))
    )


def run(
    folder: Path, *options: str, env: dict[str, str] | None = None, expect: int | None = 0
) -> tuple[int, str, str]:
    process = start(folder, *options, env=env)
    out, err = process.communicate(timeout=TIMEOUT)
    if expect is not None:
        assert process.returncode == expect, (process.returncode, out, err)
    return process.returncode, out, err


def eventually(happened: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not happened():
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, (process.poll(), *process.communicate())
        time.sleep(0.005)


def weights(folder: Path) -> str:
    return (folder / "model" / "weights.json").read_text()
