"""Start-up is a feature: help and version import nothing heavy, and no command before it is called."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = [
    *("aiohttp", "asyncio", "datasets", "omegaconf", "orjson", "pydantic", "rich", "xllamacpp", "yaml"),
    *("importlib.metadata", "nemo_gym.orchestration", "nemo_gym.rollouts", "nemo_gym.types"),
]

PROBE = """
import contextlib, io, json, sys
from {module} import _status
with contextlib.redirect_stdout(io.StringIO()):
    status = _status({args!r})
print(json.dumps([status, sorted(sys.modules)]))
"""


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
    probe = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module, args=args)], capture_output=True, check=True
    )
    status, modules = json.loads(probe.stdout)
    assert status == 0
    assert [name for name in HEAVY if name in modules] == []


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
    probe = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module, args=[*args, "--help"])],
        capture_output=True,
        check=True,
    )
    status, modules = json.loads(probe.stdout)
    assert status == 0
    assert [name for name in ("aiohttp", "httpx", "omegaconf", "pydantic", "rich") if name in modules] == []


UNUSED = [
    *("aiohttp", "asyncio", "omegaconf", "tarfile"),
    *("nemo_gym.orchestration.examine", "nemo_gym.orchestration.own_gym", "nemo_gym.orchestration.sealing"),
    *(
        "nemo_gym.orchestration.staging",
        "nemo_gym.orchestration.twins",
        "nemo_runs.leases",
        "nemo_slurm.hosts",
    ),
]


def test_a_dry_run_on_this_machine_imports_nothing_that_only_a_submission_needs(tmp_path):
    example = ROOT / "examples" / "quickstart.yaml"
    args = ["eval", "submit", "-c", str(example), "--dry-run"]
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(tmp_path))
    probe = subprocess.run(
        [sys.executable, "-c", PROBE.format(module="nemo_gym.cli.main", args=args)],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **homes},
    )
    status, modules = json.loads(probe.stdout)
    assert status == 0
    assert [name for name in UNUSED if name in modules] == []
    assert list(tmp_path.iterdir()) == []
