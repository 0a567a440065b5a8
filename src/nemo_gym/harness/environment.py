"""The environment of lm-eval: pinned packages with an interpreter of their own, installed on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_runs.environments import installing, package_links
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile

PACKAGES = ("nemo_gym", "nemo_runs")
"""What its interpreter gets of ours."""
_OURS = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")


class NoHarnessError(GymError):
    """lm-eval is not there and cannot be installed."""


@cache
def recipe() -> EnvironmentRecipe:
    """How the environment is made."""
    files = ("lm_eval.txt", False), ("lm_eval-sources.txt", True)
    pins = tuple(PinsFile(name, _text(name), sources=sources) for name, sources in files)
    return EnvironmentRecipe(name="lm_eval", device="cpu", pins=pins, noun="the environment")


def _text(name: str) -> str:
    return (resources.files("nemo_gym") / "harness" / "pins" / name).read_text(encoding="utf-8")


def found_python(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The interpreter, if the environment is there."""
    folder = installing.find(recipe(), installing.cache_folder(environ))
    return None if folder is None else installing.python_of(folder)


def ensure_python(report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter, its environment installed first if it is not there. Raises `NoHarnessError`."""
    python = found_python(environ)
    if python is not None:
        return python
    try:
        folder = installing.install(recipe(), installing.cache_folder(environ), report=report)
    except installing.NotInstalledError as error:
        raise NoHarnessError(
            f"lm_eval/: lm-eval is not on this machine, and {error}; where there is no network, install it "
            "on a machine that shares this cache folder, with `gym list benchmarks lm_eval/`."
        ) from error
    except OSError as error:
        raise NoHarnessError(f"lm_eval/: lm-eval cannot be installed: {error}.") from error
    return installing.python_of(folder)


def worker_environ(environ: Mapping[str, str] = os.environ, *, offline: bool) -> dict[str, str]:
    """The variables of its processes: our packages on the path, the hub asked only where that is wanted."""
    path = package_links.link_folder(installing.cache_folder(environ), PACKAGES)
    kept = {name: value for name, value in environ.items() if name not in _OURS}
    ours = {
        "PYTHONPATH": str(path),
        "PYTHONNOUSERSITE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    if offline:
        ours |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return {**kept, **ours}


def index_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the names of lm-eval's own tasks are kept, read once of thousands of files."""
    return recipe().home(installing.cache_folder(environ)) / "tasks.json"
