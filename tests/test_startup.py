"""Start-up is a feature: help and version import nothing heavy, and no command before it is called."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = [
    *("aiohttp", "asyncio", "datasets", "omegaconf", "orjson", "pydantic", "rich", "xllamacpp", "yaml"),
    *("importlib.metadata", "nemo_gym.orchestration", "nemo_gym.rollouts", "nemo_gym.types"),
]

PROBE = """
import contextlib, gc, io, json, sys
def searches():
    return sum(generation["collections"] for generation in gc.get_stats())
before = searches()
from {module} import _status
with contextlib.redirect_stdout(io.StringIO()):
    status = _status({args!r})
print(json.dumps([status, sorted(sys.modules), searches() - before]))
"""


def imported(module: str, args: list[str], **options: Any) -> tuple[list[str], int]:
    """What a command that succeeds imports, and how often the interpreter looked for cycles meanwhile."""
    probe = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module, args=args)],
        capture_output=True,
        check=True,
        **options,
    )
    status, modules, searches = json.loads(probe.stdout)
    assert status == 0
    return modules, searches


@pytest.mark.parametrize(
    ("module", "args"),
    [
        ("nemo_gym.cli.main", ["--help"]),
        ("nemo_gym.cli.main", ["--version"]),
        ("nemo_gym.cli.main", ["eval", "--help"]),
        ("nemo_gym.cli.main", ["job", "--help"]),
        ("nemo_helix_plugin.cli.main", ["--help"]),
        ("nemo_helix_plugin.cli.main", ["--version"]),
        ("nemo_helix_plugin.cli.main", ["jobs", "--help"]),
    ],
)
def test_help_imports_nothing_that_takes_long(module, args):
    modules, searches = imported(module, args)
    assert [name for name in HEAVY if name in modules] == []
    assert searches <= BEFORE_THE_PROGRAM


@pytest.mark.parametrize(
    ("module", "args"),
    [
        *(
            ("nemo_gym.cli.main", ["eval", name])
            for name in ("run", "submit", "prepare", "reverify", "compare")
        ),
        *(("nemo_helix_plugin.cli.main", ["jobs", name]) for name in ("list", "create", "pause", "watch")),
        ("nemo_helix_plugin.cli.main", ["config", "set"]),
    ],
)
def test_help_of_a_command_needs_no_data_models(module, args):
    modules, _ = imported(module, [*args, "--help"])
    assert [name for name in ("aiohttp", "httpx", "omegaconf", "pydantic", "rich") if name in modules] == []


def test_the_package_by_itself_loads_nothing_that_takes_long():
    script = "import sys, nemo_gym; dir(nemo_gym); print('|'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = done.stdout.strip().split("|")
    assert [name for name in HEAVY if name in modules] == []
    assert [name for name in modules if name.startswith("nemo_gym.")] == []


def test_whoever_reads_results_needs_no_http_client():
    modules = "nemo_gym.rollouts.scores.summary, nemo_gym.rollouts.output.manifest"
    script = f"import sys, {modules}; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


BEFORE_THE_PROGRAM = 1
"""Searches for cycles that end before the program has said how rarely they are worth their time."""
UNUSED = [
    *("aiohttp", "asyncio", "ctypes", "omegaconf", "ssl", "tarfile"),
    *(
        f"nemo_gym.orchestration.{name}"
        for name in (
            "jobs",
            "records.index",
            "records.submission_file",
            "submit.duplicates",
            "submit.gym_bundle",
            "submit.preflight",
            "submit.staging",
        )
    ),
    "nemo_gym.provenance",
    *(
        f"nemo_gym.orchestration.executors.{name}"
        for name in ("base", "local_jobs", "local_supervisor", "slurm")
    ),
    *("nemo_gym.chain.endings", "nemo_gym.events", "nemo_gym.rollouts.data.dataset"),
    *(
        "nemo_runs.durable.files",
        "nemo_runs.leases.machine_leases",
        "nemo_runs.processes.trees",
        "nemo_runs.durable.rows",
        "nemo_runs.processes.supervise",
    ),
    *("nemo_slurm.cluster", "nemo_slurm.hosts", "nemo_slurm.states"),
]


def test_a_dry_run_on_this_machine_imports_nothing_that_only_a_submission_needs(tmp_path):
    example = ROOT / "examples" / "quickstart.yaml"
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(tmp_path))
    modules, searches = imported(
        "nemo_gym.cli.main",
        ["eval", "submit", "-c", str(example), "--dry-run"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **homes},
    )
    assert [name for name in UNUSED if name in modules or find_spec(name) is None] == []
    assert searches <= BEFORE_THE_PROGRAM
    assert list(tmp_path.iterdir()) == []
