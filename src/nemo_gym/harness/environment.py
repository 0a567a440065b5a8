"""The environment of lm-eval: pinned packages with an interpreter of their own, installed on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from nemo_gym import package_environments
from nemo_gym.package_environments import pins_text
from nemo_runs.environments import installing
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile


@cache
def recipe() -> EnvironmentRecipe:
    """How the environment is made."""
    files = ("lm_eval.txt", False), ("lm_eval-sources.txt", True)
    pins = tuple(PinsFile(name, pins_text("harness", name), sources=sources) for name, sources in files)
    return EnvironmentRecipe(name="lm_eval", device="cpu", pins=pins, noun="the environment")


def ensure_python(report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter, its environment installed first if it is not there.

    Raises `nemo_gym.package_environments.NoEnvironmentError`.
    """
    return package_environments.ensure_python(
        recipe(), report, environ, what="lm_eval/: lm-eval", command="gym list benchmarks lm_eval/"
    )


def worker_environ(environ: Mapping[str, str] = os.environ, *, offline: bool) -> dict[str, str]:
    """The variables of its processes: our packages on the path, the hub asked only where that is wanted."""
    ours = {
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    if offline:
        ours |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return package_environments.worker_environ(environ) | ours


def index_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the names of lm-eval's own tasks are kept, read once of thousands of files."""
    return recipe().home(installing.cache_folder(environ)) / "tasks.json"
