"""Who may import whom: the rules of the design, checked against every import statement of the sources."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.source_tree import nodes, parsed

from nemo_gym.orchestration.submit import gym_bundle

SOURCES = Path(__file__).parents[1] / "src"

MAY_IMPORT = {
    "nemo_runs": set(),
    "nemo_cli": {"nemo_runs"},
    "nemo_pages": {"nemo_runs"},
    "nemo_slurm": {"nemo_runs"},
    "nemo_trainer": {"nemo_runs"},
    "nemo_gym": {"nemo_runs", "nemo_cli", "nemo_slurm", "nemo_pages"},
    "nemo_helix_plugin": {"nemo_runs", "nemo_cli"},
    "nemo_helix_server": {
        "nemo_runs",
        "nemo_slurm",
        "nemo_trainer",
        "nemo_helix_plugin",
        "nemo_pages",
        "nemo_gym",
    },
    "nemo_engines": {"nemo_runs", "nemo_trainer", "nemo_gym"},
    "nemo_models": {"nemo_runs", "nemo_cli", "nemo_helix_plugin", "nemo_helix_server", "nemo_engines"},
}
ONLY_PARTS = {
    # how a program treats its streams, which addresses are this machine, the proxies and folders of its
    # environment, what a plain scalar is, how JSON is read that people write, how counts, durations and sizes
    # are said, which name may have been meant, how findings read, how tables are drawn, and what other
    # packages bring
    ("nemo_helix_plugin", "nemo_runs"): (
        "nemo_runs.streams",
        "nemo_runs.proxies",
        "nemo_runs.homes",
        "nemo_runs.yaml_scalars",
        "nemo_runs.strict_json",
        "nemo_runs.counts",
        "nemo_runs.suggestions",
        "nemo_runs.findings",
        "nemo_runs.durations",
        "nemo_runs.sizes",
        "nemo_runs.file_locks",
        "nemo_runs.addresses",
        "nemo_runs.drawn_tables",
        "nemo_runs.extensions",
        "nemo_runs.errors",
    ),
    ("nemo_helix_server", "nemo_trainer"): ("nemo_trainer.contract",),
    # where the interpreters of engines are, and which files can be written for llama.cpp
    ("nemo_models", "nemo_helix_server"): ("nemo_helix_server.engines",),
    ("nemo_models", "nemo_engines"): ("nemo_engines.export.formats",),
    # evaluations beside jobs in one list
    # and which benchmarks there are that a training may be evaluated by
    ("nemo_helix_server", "nemo_gym"): (
        "nemo_gym.pages",
        "nemo_gym.errors",
        "nemo_gym.rollouts.run_config.catalog",
    ),
    ("nemo_engines", "nemo_gym"): (
        "nemo_gym.verifiers",
        # what a verifier is called with and raises, and how a benchmark makes a prompt of a row
        "nemo_gym.types",
        "nemo_gym.errors",
        "nemo_gym.rollouts.run_config.choices",
        "nemo_gym.rollouts.run_config.fields",
        "nemo_gym.rollouts.run_config.prompts",
        # which answers are graded at all
        "nemo_gym.rollouts.scores.whole_answers",
        # the interval of a score
        "nemo_gym.rollouts.scores.statistics",
    ),
}
LAYERS = {
    "nemo_gym": (
        "errors types",
        (
            "dotted_paths events job_paths spelling yaml_files schema overrides composition plugins "
            "provenance text_table reports package_environments"
        ),
        "command_benchmark",
        "sandbox",
        "tools",
        "agents verifiers harness bfcl serving services chain notices",
        "rollouts",
        "orchestration",
        "api",
        "pages",
        "cli",
    ),
    "nemo_gym.orchestration": (
        "jobs executor_kinds",
        "config",
        "plan",
        "executors",
        "records",
        "status",
        "results",
        "submit",
        "removal",
    ),
    "nemo_gym.rollouts": (
        "policy",
        "run_config",
        "data",
        "output",
        "judges",
        "sequential",
        "scores",
        "reading",
        "export",
        "collect",
    ),
    "nemo_helix_server": (
        "errors",
        "jobs",
        "store",
        "storage logs",
        "engines customizer.paths customizer.facts customizer.support customizer.backends",
        "setting_paths executor_kinds settings",
        "executors auth",
        "isolation",
        "files models",
        "trackers",
        "service",
        "controller customizer",
        "api",
        "pages",
        "app",
        "commands",
    ),
    "nemo_helix_plugin": (
        "errors model_fields addresses yaml_text body_problems",
        "jobs access files models",
        "job_words",
        "customization",
        "config client customization.sdk",
        "cli",
    ),
    "nemo_runs": (
        "errors addresses boot_clock counts drawn_tables durations file_locks findings homes patterns",
        "proxies sizes streams suggestions",
        "yaml_scalars secret_refs strict_json packed extensions",
        "json_lines",
        "durable",
        "processes",
        "clock leases environments",
    ),
    "nemo_pages": (
        "errors links text static_files security sparklines",
        "filters",
        "rendering events",
        "application",
        "access bundle",
        "runs",
    ),
    "nemo_engines": (
        "errors",
        "data",
        "export hub trackers answering",
        "evaluation",
        "hf automodel",
        "estimate",
    ),
    "nemo_models": (
        "errors",
        "engine weights training_facts",
        "local_models",
        "serving talking exporting cards",
        "conversations",
        "views",
        "commands",
    ),
}
"""What each package consists of, lowest first: a layer imports itself and the layers before it."""
UNORDERED = {
    "nemo_engines": "the modules of one training run, which both engines share",
}
MOST_MODULES = 20
ONE_FILE_A_COMMAND = ("nemo_gym.cli", "nemo_helix_plugin.cli.commands")
STANDARD_LIBRARY_ONLY = ("nemo_runs", "nemo_slurm", "nemo_trainer")


def packages() -> list[str]:
    return sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists())


def modules(package: str) -> list[Path]:
    return sorted((SOURCES / package).rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and full name of all that a module imports, inside functions too, made absolute."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    own = module_name(path).split(".")
    for plain in nodes(parsed(path), ast.Import):
        yield from ((plain.lineno, alias.name) for alias in plain.names)
    for node in nodes(parsed(path), ast.ImportFrom):
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


def layer_of(package: str, name: str) -> int | None:
    """The number of the layer that a module is in; the longest entry that names it counts."""
    found, length = None, 0
    for number, layer in enumerate(LAYERS[package]):
        for part in layer.split():
            entry = f"{package}.{part}"
            if f"{name}.".startswith(f"{entry}.") and len(entry) > length:
                found, length = number, len(entry)
    return found


def upward(package: str) -> list[str]:
    """The imports of a package's modules that lead to a higher layer, lazy and type-only ones too."""
    found = []
    for path in modules(package.replace(".", "/")):
        own = layer_of(package, module_name(path))
        for line, name in imports(path):
            other = layer_of(package, name) if name.startswith(f"{package}.") else None
            if own is not None and other is not None and other > own:
                found.append(f"{path.relative_to(SOURCES)}:{line}: {name}")
    return found


def folders() -> dict[str, list[Path]]:
    """The modules of each folder of the sources."""
    found: dict[str, list[Path]] = {}
    for package in packages():
        for path in modules(package):
            found.setdefault(module_name(path.parent / "__init__.py"), []).append(path)
    return found


def circles() -> list[list[str]]:
    """Packages that import each other, by whatever way round.

    A folder without folders counts as a whole; in one that holds packages each module stands for itself.
    """
    inner = {folder.rpartition(".")[0] for folder in folders()}
    nodes: dict[str, list[Path]] = {}
    for folder, paths in folders().items():
        for path in paths:
            nodes.setdefault(module_name(path) if folder in inner else folder, []).append(path)
    edges = {
        node: {_node(name, nodes) for path in paths for _, name in imports(path)} - {node, ""}
        for node, paths in nodes.items()
    }
    reach = {node: _reachable(edges, node) for node in nodes}
    found = {
        tuple(sorted(other for other in reach[node] if node in reach[other]))
        for node in nodes
        if node in reach[node]
    }
    return sorted(list(circle) for circle in found)


def _node(name: str, nodes: dict[str, list[Path]]) -> str:
    while name and name not in nodes:
        name = name.rpartition(".")[0]
    return name


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = list(edges[start])
    while left:
        folder = left.pop()
        if folder not in seen:
            seen.add(folder)
            left.extend(edges[folder])
    return seen


@pytest.mark.parametrize("package", LAYERS)
def test_a_layer_imports_only_layers_below_it(package: str) -> None:
    assert upward(package) == []


@pytest.mark.parametrize("package", [name for name in LAYERS if name not in UNORDERED])
def test_every_part_of_a_package_is_in_a_layer(package: str) -> None:
    names = {module_name(path) for path in modules(package.replace(".", "/"))} - {package}
    assert sorted(name for name in names if layer_of(package, name) is None) == []


def test_no_packages_import_each_other() -> None:
    assert circles() == []


def test_a_folder_holds_few_modules() -> None:
    many = {
        folder: len(paths)
        for folder, paths in folders().items()
        if len([path for path in paths if path.name != "__init__.py"]) > MOST_MODULES
        and not folder.startswith(ONE_FILE_A_COMMAND)
    }
    assert many == {}


def test_every_package_has_a_rule() -> None:
    assert set(packages()) <= set(MAY_IMPORT)


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_only_what_its_rule_allows(package: str) -> None:
    assert [line for path in modules(package) for line in forbidden(path)] == []


def test_gym_brings_all_that_it_imports_to_a_machine_without_one() -> None:
    only_shown_here = {"nemo_pages"}  # `gym view` runs on the machine of the person who looks
    assert set(gym_bundle._OWN_PACKAGES) == {"nemo_gym", *MAY_IMPORT["nemo_gym"]} - only_shown_here


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
