"""Where configurations and benchmarks are found: search folders, the current folder, then what ships."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import nemo_gym
from nemo_gym import errors
from nemo_gym.harness import names
from nemo_gym.yaml_files import holds_rows
from nemo_runs.suggestions import did_you_mean, suggestion

EXTRA_ROOTS = "NEMO_GYM_EXTRA_ROOTS"
"""Environment variable: further search folders, separated like PATH."""


def shipped_root() -> Path:
    """The folder that holds the shipped ``benchmarks/``: in the installed package, or the source checkout."""
    package = Path(nemo_gym.__file__).resolve().parent
    installed = package / "shipped"
    return installed if (installed / "benchmarks").is_dir() else package.parents[1]


def search_roots(search_dirs: Sequence[Path], cwd: Path) -> list[Path]:
    """Folders to look in, first wins: ``--search-dir``, NEMO_GYM_EXTRA_ROOTS, current, shipped."""
    extra = [Path(part) for part in os.environ.get(EXTRA_ROOTS, "").split(os.pathsep) if part]
    return list(dict.fromkeys(cwd / root for root in (*search_dirs, *extra, cwd, shipped_root())))


def _candidates(name: str, roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        yield root / name


def find_config(
    name: str,
    *,
    cwd: Path,
    search_dirs: Sequence[Path] = (),
    beside: Path | None = None,
    where: str = "--config",
) -> Path:
    """The absolute path of a config file that is named by a path.

    Looked up beside the file that names it (``beside`` is its folder), in the current folder, the search
    folders, then among what ships. `errors.ConfigError` says where it was looked for; ``where`` names
    who asked.
    """
    first = [beside] if beside is not None else []
    roots = list(dict.fromkeys([*first, cwd, *search_roots(search_dirs, cwd)]))
    for path in _candidates(os.path.expanduser(name), roots):
        if path.is_file():
            return Path(os.path.abspath(path))
    if any(path.is_dir() for path in _candidates(name, roots)):
        raise errors.ConfigError(f"{where}: {name} is a folder; give the YAML file in it.")
    looked = ", ".join(str(root) for root in roots)
    shipped = [f"benchmarks/{n}/config.yaml" for n in benchmark_names(search_dirs, cwd)]
    hint = did_you_mean(names.meant(name)) or suggestion(name, [*shipped, *_beside(name, roots)])
    raise errors.ConfigError(f"{where}: there is no {name}{hint} in {looked}.")


def _beside(name: str, roots: Sequence[Path]) -> Iterator[str]:
    """The YAML files of the folders in which ``name`` was looked for, named as it was."""
    folder = Path(name).parent
    for root in roots:
        yield from (str(folder / path.name) for path in (root / folder).glob("*.y*ml"))


def find_benchmark(name: str, *, cwd: Path, search_dirs: Sequence[Path] = ()) -> Path:
    """The config file of a benchmark: ``benchmarks/NAME/config.yaml``, or ``benchmarks/NAME.yaml``."""
    inside = all(part not in ("", ".", "..") for part in name.split("/"))
    for root in search_roots(search_dirs, cwd) if inside else ():
        for folder in (root / "benchmarks" / name, root / name):
            for path in (folder / "config.yaml", folder.with_name(f"{folder.name}.yaml")):
                if path.is_file():
                    return Path(os.path.abspath(path))
    _refuse_a_path(name, cwd / name)
    known = benchmark_names(search_dirs, cwd)
    hint = (
        did_you_mean(names.meant(name))
        or suggestion(name, known)
        or (f"; known: {', '.join(known)}, and lm_eval/{name} if it is a task of lm-evaluation-harness")
    )
    raise errors.ConfigError(f"--benchmark: there is no benchmark {name}{hint}.")


def _refuse_a_path(name: str, path: Path) -> None:
    """Say what becomes of a file or a folder that is given in place of a benchmark's name."""
    if holds_rows(path) and path.is_file():
        raise errors.ConfigError(
            f"--benchmark: {name} is a file of rows; give them with --input {name}, beside --verifier TYPE "
            "or the name of a benchmark that says how they are asked and graded (`gym list benchmarks`)."
        )
    config = path / "config.yaml" if path.is_dir() else path
    if config.is_file():
        shown = Path(name, "config.yaml") if path.is_dir() else name
        what = "a folder" if path.is_dir() else "a file"
        raise errors.ConfigError(f"--benchmark: {name} is {what}; include it with --config {shown}.")


def benchmark_files(search_dirs: Sequence[Path], cwd: Path) -> dict[str, Path]:
    """The config of every benchmark that can be found, by name."""
    found: dict[str, Path] = {}
    explicit = {cwd / folder for folder in search_dirs}
    for root in search_roots(search_dirs, cwd):
        patterns = ["benchmarks/*/config.yaml", *(["*/config.yaml"] if root in explicit else [])]
        for path in sorted(p for pattern in patterns for p in root.glob(pattern)):
            found.setdefault(path.parent.name, Path(os.path.abspath(path)))
    return found


def benchmark_names(search_dirs: Sequence[Path], cwd: Path) -> list[str]:
    """The names that `--benchmark` takes, sorted."""
    return sorted(benchmark_files(search_dirs, cwd))
