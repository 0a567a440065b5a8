"""The folder that puts our own packages on an engine's path, and nothing else.

An engine's interpreter has its own versions of everything. The folder in which this project is installed
may be a
whole site-packages, which would shadow them; so the engine gets a folder of links to the few packages it
needs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from nemo_helix_server.errors import UnavailableError

PACKAGES = ("nemo_engines", "nemo_trainer", "nemo_runs", "nemo_gym")
"""What an engine runs: drivers, the trainer contract, durable files, and the verifiers of gym benchmarks."""


def package_folder(name: str) -> Path:
    """Where a package of ours lies; found, not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError(f"the package {name} is not installed beside the service")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def source_path(cache: Path) -> Path:
    """The folder for ``PYTHONPATH``, made when it is not there. Safe to call from several processes at
    once."""
    folders = {name: package_folder(name) for name in PACKAGES}
    key = hashlib.sha256("\0".join(map(str, folders.values())).encode()).hexdigest()[:16]
    target = cache / "sources" / key
    target.mkdir(parents=True, exist_ok=True)
    for name, folder in folders.items():
        _link(target / name, folder)
    return target


def _link(link: Path, folder: Path) -> None:
    try:
        link.symlink_to(folder, target_is_directory=True)
    except FileExistsError:
        if link.is_symlink() and link.readlink() == folder:
            return
        temporary = link.with_name(f".{link.name}.{os.getpid()}")
        temporary.symlink_to(folder, target_is_directory=True)
        temporary.replace(link)


def engine_environment(cache: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of an engine's process: ours on its path, and nothing fetched from a hub."""
    ours = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
    kept = {name: value for name, value in environ.items() if name not in ours}
    return {**engine_variables(str(source_path(cache))), **kept}


def engine_variables(path: str) -> dict[str, str]:
    """The variables that every engine's process has, where our packages lie at ``path``."""
    return {
        "PYTHONPATH": path,
        "PYTHONNOUSERSITE": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
    }
