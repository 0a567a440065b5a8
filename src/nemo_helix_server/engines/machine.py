"""What this machine can train on, found without any library."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nemo_helix_server.engines.catalogue import Device

DRIVER = Path("/proc/driver/nvidia/version")


def found_device(environ: Mapping[str, str] = os.environ) -> Device:
    """``cuda`` when an NVIDIA driver answers for at least one GPU; ``NHX_ENGINES_DEVICE`` decides
    otherwise."""
    asked = environ.get("NHX_ENGINES_DEVICE")
    if asked in ("cpu", "cuda"):
        return "cuda" if asked == "cuda" else "cpu"
    return "cuda" if gpu_names() else "cpu"


def gpu_names() -> list[str]:
    """The GPUs that the driver names; empty without a driver."""
    if shutil.which("nvidia-smi") is None:
        return ["NVIDIA GPU"] if DRIVER.exists() else []
    return _asked("name")


def gpu_bytes() -> list[int]:
    """The memory of each GPU, as the driver says it; empty without a driver."""
    return [int(text) << 20 for text in _asked("memory.total") if text.strip().isdigit()]


def _asked(what: str) -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    argv = [program, f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
