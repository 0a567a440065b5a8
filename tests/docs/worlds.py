"""What the readers of pages have: a model server, a finished run, a Jobs service with jobs."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from tests import engines
from tests.docs.pages import PROGRAMS, ROOT, Page
from tests.mock_server import MockServer

SHOWN_PORT = "8000"
MOCK = f"{sys.executable} {ROOT / 'tests' / 'mock_server.py'} --port {{port}} --options"


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


# Evaluations


def model_server(page: Page, **options: Any) -> None:
    """A server on the port of the page that answers sums, under every name that pages use."""
    options = {"models": ["my-model", "m"], **options}
    server = page.rest.enter_context(MockServer(**options))
    page.replaced |= {
        "127.0.0.1:8000": f"127.0.0.1:{server.port}",
        "https://models.example/v1": server.base_url,
    }


def judge_server(page: Page, host: str, says: str, model: str) -> None:
    """A judge at an address of the page, which says the same of every answer."""
    server = page.rest.enter_context(MockServer(models=[model], answer=says))
    page.environ["JUDGE_KEY"] = "k"
    page.replaced[f"{host}:8000"] = f"127.0.0.1:{server.port}"


def own_port(page: Page) -> None:
    """Another port than the page's, which may be taken."""
    page.replaced[SHOWN_PORT] = free_port()


def few_questions(page: Page) -> None:
    """The checkout in which the page is followed, with fewer questions in its examples."""
    for name in ("quickstart", "gguf"):
        text = (ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
        page.write(f"examples/{name}.yaml", text.replace("num_tasks: 40", "num_tasks: 4").replace("100", "4"))
    (page.folder / "src").symlink_to(ROOT / "src")
    shutil.copytree(ROOT / "benchmarks", page.folder / "benchmarks", ignore=shutil.ignore_patterns("data"))


def submission(*benchmarks: str, latency: float = 0.0, tasks: int = 4, **options: Any) -> dict[str, Any]:
    """A submit file of sums for a model that may take its time."""
    server = json.dumps({"models": ["m"], "latency": latency, **options})
    run = {
        "config_paths": ["benchmarks/arithmetic/config.yaml"],
        "prepare_script_args": {"num_tasks": tasks},
        "num_samples_in_parallel": 2,
    }
    return {
        "services": {"policy": {"type": "command", "command": f"{MOCK} '{server}'", "model_name": "m"}},
        "compute": {"here": {"type": "local", "walltime": "00:30:00"}},
        "driver": {
            "policy_model": "policy",
            "benchmarks": {
                name: {"resumable": {"max_walltime": "10:00:00"}, "run": run} for name in benchmarks
            },
        },
        "job": {"output_path": "runs"},
    }


def submit(page: Page, config: dict[str, Any], *words: str) -> dict[str, Any]:
    """Submit, and return the record."""
    page.write("world.yaml", yaml.safe_dump(config, sort_keys=False))
    said = page.type(f"gym eval submit -c world.yaml --json {' '.join(words)} 2> submit.log")
    return dict(json.loads(said))


def finished(page: Page, *words: str, **options: Any) -> dict[str, Any]:
    """A run that has ended well; it is ``latest``."""
    record = submit(page, submission("gpqa", **options), "--label purpose=paper", "--again", *words)
    page.type(f"gym job watch {record['gym_job_id']}")
    return record


def at_work(page: Page, benchmark: str = "gpqa", *words: str) -> dict[str, Any]:
    """A run that has begun, and takes longer than the page; it is ended with the page."""
    record = submit(page, submission(benchmark, latency=1.0, tasks=400), "--again", *words)
    page.rest.callback(page.type, f"gym job cancel {record['gym_job_id']} --all --yes || true")
    rows = Path(record["run_dir"]) / benchmark / "artifacts" / "rollouts.jsonl"
    wait(lambda: rows.exists() and rows.stat().st_size > 0)
    return record


def wait(look: Callable[[], Any], within: float = 120.0) -> Any:
    """The first answer that is true."""
    end = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < end, f"waited {within} s in vain"
        time.sleep(0.1)
    return found


# Jobs


def jobs_service(page: Page, *options: str, context: bool = True) -> str:
    """A service of the page's own; ``context`` lets `nemo` find it as on its usual port."""
    argv = [str(PROGRAMS / "nemo"), "services", "run", "--port", "0", "--json", *options]
    url = str(json.loads(page.start(argv, '"url"'))["url"])
    if context:
        page.environ["NHX_BASE_URL"] = url
    return url


def training(name: str = "my-training", **config: Any) -> dict[str, Any]:
    """A job with the small training that ships, which takes as long as the page."""
    step = {
        "name": "training",
        "executor": {"provider": "subprocess", "command": [sys.executable, "-m", "nemo_trainer.example"]},
        "config": {"steps": 6000, "step_seconds": 0.02, "save_every": 30, "keep": 5, **config},
        "lifecycle": {"pause_deadline_seconds": 60},
    }
    return {
        "name": name,
        "source": "customization",
        "spec": {"backend": "example"},
        "platform_spec": {"steps": [step]},
    }


def job(page: Page, body: dict[str, Any], *statuses: str, step: int = 0, workspace: str = "default") -> None:
    """Make a job, and wait until it is in one of these statuses and has come to a step."""
    page.write("world-job.json", json.dumps(body))
    page.type(f"nemo jobs create --input-file world-job.json --workspace {workspace}")
    reached(page, body["name"], *statuses, step=step, workspace=workspace)


def reached(page: Page, name: str, *statuses: str, step: int = 0, workspace: str = "default") -> None:
    """Wait until a job is in one of these statuses and has come to a step."""

    def look() -> bool:
        seen = json.loads(page.type(f"nemo jobs get {name} --workspace {workspace} --json"))
        return seen["status"] in statuses and ((seen["status_details"] or {}).get("step") or 0) >= step

    wait(look)


def paused(page: Page, name: str = "my-training") -> None:
    """A job that was paused after some checkpoints."""
    job(page, training(name), "active", step=95)
    page.type(f"nemo jobs pause {name}")
    reached(page, name, "paused")


def checkpoint(page: Page, name: str = "my-training") -> str:
    """The id of its oldest checkpoint."""
    found = json.loads(page.type(f"nemo jobs checkpoints list {name} --json"))
    return str(found[-1]["id"])


def engine(page: Page, name: str) -> str:
    """The interpreter of an engine, which is kept from one test run to the next."""
    python = str(engines.engine_python(name))
    page.environ["XDG_CACHE_HOME"] = engines.shared_cache(Path(page.environ["HOME"], ".cache"))
    return python
