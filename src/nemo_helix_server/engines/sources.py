"""What an engine's process gets of ours: a folder of links to the few packages that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nemo_helix_server.errors import UnavailableError
from nemo_runs.environments import package_links

PACKAGES = ("nemo_engines", "nemo_trainer", "nemo_runs", "nemo_gym")
"""What an engine runs: drivers, the trainer contract, durable files, and the verifiers of gym benchmarks."""


def package_folder(name: str) -> Path:
    """Where a package of ours lies; found, not imported."""
    try:
        return package_links.package_folder(name)
    except package_links.NoPackageError as error:
        raise UnavailableError(f"the package {name} is not installed beside the service") from error


def source_path(cache: Path) -> Path:
    """The folder for ``PYTHONPATH``, made when it is not there. Safe to call from several processes at
    once."""
    try:
        return package_links.link_folder(cache, PACKAGES)
    except package_links.NoPackageError as error:
        raise UnavailableError(f"{error}, beside the service") from error


def engine_environment(cache: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of an engine's process: ours on its path, and nothing fetched from a hub."""
    path = str(source_path(cache))
    return engine_variables(path) | package_links.variables(path, environ)


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
