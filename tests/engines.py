"""Engine environments and a tiny model for tests, kept in the user's real cache: made once, found by later
runs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from nemo_gym.bfcl import environment as bfcl
from nemo_gym.harness import environment as harness
from nemo_helix_server.engines import catalogue, environments, machine, sources

CACHE = environments.cache_folder(dict(os.environ))
"""The user's; every test has a home of its own, which is empty."""
_TINY_MODEL = Path(__file__).parent / "nemo_engines" / "tiny_model.py"


def shared_cache(folder: Path) -> str:
    """A cache folder with the user's engines in it; submissions have an index of their own there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CACHE.name).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (folder / CACHE.name).symlink_to(CACHE)
    return str(folder)


def shared_engines(folder: Path) -> str:
    """A cache folder with the user's engines in it, in which everything else is the test's own."""
    for name in ("engines", "sources"):
        (CACHE / name).mkdir(parents=True, exist_ok=True)
        (folder / CACHE.name).mkdir(parents=True, exist_ok=True)
        (folder / CACHE.name / name).symlink_to(CACHE / name)
    return str(folder)


@cache
def engine_python(name: str) -> Path:
    """The interpreter of an engine; installed as ``nemo engines install`` does, if it is not there."""
    recipe = catalogue.recipe(name)
    return environments.install(recipe, machine.found_device(), CACHE, report=print).python


@cache
def harness_python() -> Path:
    """The interpreter that has lm-eval; installed, if it is not there, before a test counts its time."""
    return harness.ensure_python(print, {"XDG_CACHE_HOME": str(CACHE.parent)})


@cache
def bfcl_python() -> Path:
    """The interpreter that has bfcl-eval, likewise."""
    return bfcl.ensure_python(print, {"XDG_CACHE_HOME": str(CACHE.parent)})


def engine_environ() -> dict[str, str]:
    """The environment variables of an engine's process."""
    return sources.engine_environment(CACHE, os.environ)


@cache
def tiny_model() -> Path:
    """A Qwen3 model of 131 thousand parameters with a tokenizer of 512 tokens and a chat template."""
    python = engine_python("trl")
    key = hashlib.sha256(_TINY_MODEL.read_bytes() + str(python).encode()).hexdigest()[:16]
    folder = CACHE / "test-models" / f"tiny-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                argv = [str(python), str(_TINY_MODEL), made + "/model"]
                subprocess.run(argv, check=True, env=engine_environ(), capture_output=True, timeout=300)
                Path(made, "model").rename(folder)
    return folder


def preference_rows(path: Path) -> Path:
    """A file of rows for DPO, all of one kind."""
    rows = [
        {"prompt": f"What is {n} + {n}?", "chosen": f"{2 * n}", "rejected": f"{2 * n + 1}"} for n in range(24)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
