"""A backend of another package: by entry points alone it has its command, SDK group, routes and settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.jobs_service import JobsService

pytestmark = [pytest.mark.services, pytest.mark.slow]

TOY = Path(__file__).with_name("toy_backend")
ROOT = Path(__file__).parents[2]
NEMO = str(Path(sys.executable).with_name("nemo"))
DEADLINE = 120.0
ENTRY_POINTS = """\
[nemo_helix.backends]
{name} = {module}.description:DESCRIPTION

[nemo_helix_server.backends]
{name} = {module}.service:BACKEND
"""


def install(site: Path, name: str, module: str) -> None:
    """What an installer leaves of a package that brings a backend, besides its modules."""
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS.format(name=name, module=module))


def make_engine(folder: Path) -> Path:
    """An interpreter that has what the toy trains with, and nothing of the service."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    shutil.copytree(
        TOY, packages / "toy_backend", ignore=shutil.ignore_patterns("description.py", "service.py")
    )
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine on which the packages of two backends are installed, one of them broken."""
    folder = tmp_path_factory.mktemp("machine")
    site = folder / "site"
    install(site, "toy", "toy_backend")
    install(site, "broken", "broken_backend")
    shutil.copytree(TOY, site / "toy_backend")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site))
        patch.setenv("NHX_ENGINES_TOY_PYTHON", str(make_engine(folder / "engine")))
        patch.setenv("NHX_TOY_TRAINING_STALENESS_TIMEOUT_SECONDS", "55")
        patch.setenv("NEMO_LEASES_DIR", str(folder / "leases"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv("NHX_ENGINES_DEVICE", "cpu")
        yield folder


@pytest.fixture(scope="module")
def service(machine: Path) -> Iterator[JobsService]:
    started = JobsService(machine)
    started.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NHX_BASE_URL", started.url)
        yield started
    started.stop()


@pytest.fixture(scope="module")
def spec(machine: Path) -> dict[str, Any]:
    """An input of the toy, with a model and rows on the machine."""
    model, rows = machine / "model", machine / "rows.jsonl"
    model.mkdir()
    (model / "config.json").write_text("{}\n")
    rows.write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ("one two", "three", "four five six"))
    )
    return {"model": str(model), "data": {"rows": str(rows)}}


def nemo(*arguments: str, status: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
    argv = [NEMO, *arguments]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def python(program: str, *arguments: str) -> str:
    """What a program prints that runs where the packages are installed."""
    argv = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=DEADLINE, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_help_lists_the_backend_and_says_of_a_broken_one_why_it_cannot_be_had(machine: Path) -> None:
    shown = " ".join(nemo("customization", "--help").stdout.split())
    assert "toy Counting words." in shown
    assert "the backend 'broken' of the package broken-backend cannot be loaded (ModuleNotFoundError" in shown
    assert nemo("customization", "toy", "--help").stdout.splitlines()[2].strip() == "Counting words."
    refused = nemo("customization", "broken", "--help", status=1)
    assert refused.stderr.startswith(
        "nemo: the backend 'broken' of the package broken-backend cannot be loaded"
    )
    assert len(refused.stderr.splitlines()) == 1


def test_it_is_explained_with_and_without_a_service(service: JobsService) -> None:
    found = json.loads(nemo("customization", "toy", "explain", "--json").stdout)
    assert (found["backend"], found["engine"]["name"], found["engine"]["installed"]) == ("toy", "toy", True)
    assert found["refused"] == {"pace": "words do not fly"}
    assert set(found["input"]["properties"]) == {"name", "model", "data", "rounds", "pace", "output"}
    assert found["output"]["properties"]["backend"] == {"const": "toy", "type": "string"}
    alone = nemo("customization", "toy", "explain", "--json", "--base-url", "http://127.0.0.1:9")
    assert json.loads(alone.stdout)["input"] == found["input"]


def test_its_jobs_train_and_register_what_they_made(service: JobsService, spec: dict[str, Any]) -> None:
    given = json.dumps({"model": spec["model"], "rounds": 3, "output": {"name": "counted"}})
    upload = ("--upload-dataset", spec["data"]["rows"])
    done = nemo("customization", "toy", "--job-json", "-", *upload, "--wait", given=given)
    job = json.loads(done.stdout)
    assert job["name"].startswith("toy-")
    assert (job["spec"]["backend"], job["spec"]["engine"], job["spec"]["pace"]) == ("toy", "toy", "walk")
    training = job["platform_spec"]["steps"][1]
    assert training["name"] == "count-training"
    asked = {key: value for key, value in training["lifecycle"].items() if value is not None}
    assert asked == {"pause_deadline_seconds": 77, "staleness_timeout_seconds": 55}
    assert "completed" in done.stderr
    assert json.loads(nemo("models", "get", "counted", "--json").stdout)["created_by_job"] == job["name"]
    assert "round 3: 6 words at a walk" in nemo("jobs", "get-logs", job["name"]).stdout


def test_a_preview_is_made_by_its_own_module(service: JobsService, spec: dict[str, Any]) -> None:
    done = nemo("customization", "toy", "preview", "--job-json", "-", "-n", "2", given=json.dumps(spec))
    found = json.loads(done.stdout)
    assert (found["engine"], found["method"], found["training"]["tokens_learned"]) == ("toy", "count", 6)
    assert [row["parts"][0]["text"] for row in found["rows"]] == ["one two", "three"]


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (
            {"pace": "fly"},
            3,
            "pace 'fly' is not supported, because words do not fly; leave it out, or give 'walk'",
        ),
        ({"roundz": 2}, 2, "did you mean 'rounds'?"),
        ({"rounds": 0}, 2, "rounds (line 1): input should be greater than or equal to 1"),
        ({"data": {"rows": "nowhere"}}, 3, "data.rows: there is no fileset"),
    ],
)
def test_what_is_wrong_with_a_spec_is_said(
    service: JobsService, spec: dict[str, Any], change: dict[str, Any], status: int, sentence: str
) -> None:
    given = json.dumps({**spec, **change})
    refused = nemo("customization", "toy", "--job-json", "-", status=status, given=given)
    assert sentence.lower() in refused.stderr.lower()
    assert refused.stdout == ""


SDK = """
import asyncio, json, sys
from nemo_helix_plugin.client.client import AsyncNemoClient, NemoClient

url, spec = sys.argv[1], json.loads(sys.argv[2])
with NemoClient(base_url=url, workspace="default") as client:
    toy = client.customization.toy
    made = toy.jobs.create(spec=spec, name="first").job
    assert client.customization.backend("toy").jobs.get(name="first").data().spec["backend"] == "toy"
    body = {"name": "saved", "backend": "toy", "config": spec}
    assert client.customization.templates.create(body=body).data().backend == "toy"
    assert toy.preview(spec=spec, rows=1).data().training.tokens == 6
    assert "toy" in client.customization.health().data().contributors
    assert "toy" in dir(client.customization)
    try:
        client.customization.tou
    except AttributeError as error:
        print(error)

async def run():
    async with AsyncNemoClient(base_url=url, workspace="default") as client:
        toy = client.customization.toy
        await toy.jobs.create(spec=spec, name="second")
        await toy.jobs.cancel(name="second")
        assert (await toy.explain()).data().refused == {"pace": "words do not fly"}
        names = [job.name for job in (await toy.jobs.list()).page().items]
        print(sorted(name for name in names if not name.startswith("toy-")))

asyncio.run(run())
"""


def test_both_kinds_of_clients_have_its_methods(service: JobsService, spec: dict[str, Any]) -> None:
    unknown, names = python(SDK, service.url, json.dumps(spec)).splitlines()
    assert unknown.startswith("there is no backend 'tou' here; known are automodel, unsloth, rl, broken, toy")
    assert names == "['first', 'second']"


def test_the_service_goes_on_without_a_broken_package(service: JobsService) -> None:
    root = f"{service.url}/apis/customization/v2"
    found = httpx.get(f"{root}/healthz", timeout=DEADLINE).json()
    assert found["contributors"] == ["automodel", "unsloth", "rl", "toy"]
    refused = httpx.get(f"{root}/workspaces/default/broken/explain", timeout=DEADLINE)
    assert refused.status_code == 500
    assert "the backend 'broken' of the package broken-backend cannot be loaded" in refused.text


def test_the_reference_and_the_settings_are_made_of_it(machine: Path) -> None:
    program = """
import json, runpy, sys
page = runpy.run_path("scripts/write_customization_reference.py")["page"](["toy"])
settings = runpy.run_path("scripts/write_settings_reference.py")["page"]()
print(json.dumps([page, settings]))
"""
    page, settings = json.loads(python(program))
    assert "## toy: words are counted" in page
    assert "| `rounds` | `2` | → rounds |" in page
    assert "| `pace` | `fly` | → pace; only `walk` or `run`: words do not fly |" in page
    assert (
        "| `toy.training_pause_deadline_seconds` | `NHX_TOY_TRAINING_PAUSE_DEADLINE_SECONDS` | `77` |"
        in settings
    )
    assert "| `engines.toy.python` | `NHX_ENGINES_TOY_PYTHON` |" in settings


def test_an_engine_that_nobody_can_install_is_named_by_its_setting(machine: Path) -> None:
    program = """
import sys
from pathlib import Path
from nemo_helix_server.customizer.engines import Engines
from nemo_helix_server.customizer.facts import TrainingMachine
from nemo_helix_server.settings import Settings
print(Engines(Settings().engines, TrainingMachine("cpu"), Path("/nowhere")).state("toy")["problem"])
"""
    sentence = (
        "engine toy has no interpreter on the service's machine: name one by the setting engines.toy.python"
    )
    assert python(program) == f"{sentence}\n"
