"""Who may import whom: the rules of the design, checked against every import statement of the sources."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"

MAY_IMPORT = {
    "nemo_runs": set(),
    "nemo_slurm": {"nemo_runs"},
    "nemo_trainer": {"nemo_runs"},
    "nemo_gym": {"nemo_runs", "nemo_slurm"},
    "nemo_helix_plugin": {"nemo_runs"},
    "nemo_helix_server": {"nemo_runs", "nemo_slurm", "nemo_trainer", "nemo_helix_plugin"},
    "nemo_engines": {"nemo_runs", "nemo_trainer", "nemo_gym"},
}
ONLY_PARTS = {
    # how a program treats its streams, the proxies and folders of its environment, what a plain scalar is,
    # how JSON is read that people write, how counts are said, which command may have been meant,
    # and how drawn tables end
    ("nemo_helix_plugin", "nemo_runs"): (
        "nemo_runs.streams",
        "nemo_runs.proxies",
        "nemo_runs.homes",
        "nemo_runs.yaml_scalars",
        "nemo_runs.json_lines",
        "nemo_runs.counts",
        "nemo_runs.near_commands",
        "nemo_runs.trimmed",
    ),
    ("nemo_helix_server", "nemo_trainer"): ("nemo_trainer.contract",),
    ("nemo_engines", "nemo_gym"): (
        "nemo_gym.verifiers",
        # what a verifier is called with and raises, and how a benchmark makes a prompt of a row
        "nemo_gym.types",
        "nemo_gym.errors",
        "nemo_gym.rollouts.run_config.prompts",
    ),
}
STANDARD_LIBRARY_ONLY = ("nemo_runs", "nemo_slurm", "nemo_trainer")


def packages() -> list[str]:
    return sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists())


def modules(package: str) -> list[Path]:
    return sorted((SOURCES / package).rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a module imports, inside functions too, made absolute."""
    own = module_name(path).split(".")
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            level = node.level - (path.name == "__init__.py")
            base = own[: len(own) - level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def forbidden(path: Path) -> list[str]:
    """The imports of a module that break a rule, as ``file:line: name``."""
    package = path.relative_to(SOURCES).parts[0]
    found = []
    for line, name in imports(path):
        top = name.split(".")[0]
        ours = top in MAY_IMPORT and top != package
        parts = ONLY_PARTS.get((package, top), (top,))
        allowed = top in MAY_IMPORT[package] and any(f"{name}.".startswith(f"{part}.") for part in parts)
        foreign = top not in MAY_IMPORT and top not in sys.stdlib_module_names
        if (ours and not allowed) or (foreign and package in STANDARD_LIBRARY_ONLY):
            found.append(f"{path.relative_to(SOURCES)}:{line}: {name}")
    return found


def test_every_package_has_a_rule() -> None:
    assert set(packages()) <= set(MAY_IMPORT)


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_only_what_its_rule_allows(package: str) -> None:
    assert [line for path in modules(package) for line in forbidden(path)] == []


def test_an_executor_of_gym_is_imported_by_the_registry_alone() -> None:
    concrete = {"local", "local_supervisor", "fake", "slurm"}
    folder = SOURCES / "nemo_gym" / "orchestration" / "executors"
    offenders = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path in modules("nemo_gym")
        if path.parent != folder
        for line, name in imports(path)
        if name.startswith("nemo_gym.orchestration.executors.") and name.split(".")[3] in concrete
    ]
    assert offenders == []


def test_the_check_sees_an_import_that_is_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCES", tmp_path)
    module = tmp_path / "nemo_runs" / "inner" / "x.py"
    module.parent.mkdir(parents=True)
    module.write_text("def f():\n    from nemo_gym import errors\nimport os, yaml\nfrom .. import files\n")
    assert forbidden(module) == ["nemo_runs/inner/x.py:3: yaml", "nemo_runs/inner/x.py:2: nemo_gym.errors"]


@pytest.mark.parametrize("package", [name for name in STANDARD_LIBRARY_ONLY if (SOURCES / name).exists()])
def test_a_package_for_foreign_images_loads_without_any_installed_package(package: str) -> None:
    names = [module_name(path) for path in modules(package)]
    program = (
        "import importlib, json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in json.loads(sys.argv[2]): importlib.import_module(name)\n"
        "files = [getattr(m, '__file__', None) or '' for m in list(sys.modules.values())]\n"
        "print(json.dumps([f for f in files if 'site-packages' in f]))\n"
    )
    argv = [sys.executable, "-I", "-S", "-c", program, str(SOURCES), json.dumps(names)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    assert json.loads(done.stdout) == []
