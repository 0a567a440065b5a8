"""How the pages about Slurm are followed, on a real one behind an sshd of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml
from tests.docs import worlds
from tests.docs.pages import ROOT, Page, merged

VLLM = "type: vllm\n    model: /scratch/ada/models/llama-3.1-8b-instruct"
"""There is no GPU here, so another server answers."""


def submit_to_slurm(page: Page) -> None:
    server = f"""{worlds.MOCK} '{{"models": ["m"]}}'"""
    page.replaced |= {
        VLLM: f"type: command\n    model_name: m\n    command: >-\n      {server}",
        "hostname: cluster": "hostname: lab",
        "account: physics": "account: lab",
        "{partition: batch, gpus_per_node: 1}": "{partition: main}",
        "module load cuda": "module_load() { :; }",
        "source /scratch/ada/vllm/bin/activate": "export ACTIVATED=1",
        "/scratch/ada/runs": f"{page.folder}/runs",
    }
    page.save("submit.yaml")
    whole = yaml.safe_load((page.folder / "submit.yaml").read_text())
    page.run()
    assert "problem" not in page.said

    def ended(line: str) -> None:
        if " fetch " in line:
            page.type("gym job watch latest --exit-status")

    page.run(each=ended)
    assert "20/20" in page.said
    for _ in range(2):
        page.write("changed.yaml", yaml.safe_dump(merged(whole, page.yaml())))
        page.type("gym eval submit -c changed.yaml --resolve-only")


def first_slurm_chain(page: Page) -> None:
    """The small model's place takes a server whose answers take their time."""
    worlds.few_questions(page)
    (page.folder / "scripts").symlink_to(ROOT / "scripts")
    (page.folder / "Makefile").symlink_to(ROOT / "Makefile")
    text = (ROOT / "examples" / "resumable-slurm.yaml").read_text(encoding="utf-8")
    server = f"""{worlds.MOCK} '{{"models": ["smollm2"], "latency": 2.5}}'"""
    slow = text.replace("gym serve --model smollm2 --port {port}", json.dumps(server))
    page.write("examples/resumable-slurm.yaml", slow)
    page.run()
    page.run()
    assert "problem" not in page.said
    page.run()
    page.run()
    page.run()
    seams = page.said.count("==>")
    assert seams > 1, "it took one job alone"
    page.run()
    assert "CERTIFIED" in page.said
    page.run()
    assert "cancelled" in page.said


def fetch(page: Page) -> None:
    config = worlds.submission("gpqa")
    config["compute"] = {
        "lab": {"type": "slurm", "account": "lab", "hostname": "lab", "walltime": "00:10:00"}
    }
    config["compute"]["lab"]["node_pools"] = {"all": {"partition": "main"}}
    config["job"]["output_path"] = f"{page.folder}/results"
    record = worlds.submit(page, config)
    page.type("gym job watch latest --exit-status")
    page.run()
    assert "CERTIFIED" in page.said
    assert "4/4" in page.said
    page.replaced |= {
        "gym-job-20270115T080000Z-0f0f0f": record["gym_job_id"],
        "login.example": "lab",
        "/scratch/ada/results": f"{page.folder}/results",
        # jobs of others are found as well, and some of their folders are gone
        "--from-scheduler --hostname lab": "--from-scheduler --hostname lab || [ $? = 1 ]",
    }
    index = Path(page.environ["HOME"], ".cache/nemo-gym/jobs", f"{record['gym_job_id']}.json")
    page.run(each=lambda _line: index.unlink())
    assert index.exists()


def train_on_slurm(page: Page) -> None:
    worlds.engine(page, "trl")
    page.run()
    page.run()
    python = page.said.split()[-1]
    page.replaced |= {
        "host: cluster": "host: lab",
        "/scratch/ada/baton-checkout/.venv/bin/python": sys.executable,
        "/scratch/ada/engines/trl/bin/python": python,
        "root: /scratch/ada/baton": f"root: {page.folder}/shared",
        "account: physics": "account: lab",
        "partition: batch": "partition: main",
        "python: python3.11": f"python: {sys.executable}",
        "steps: 3000": "steps: 600",
    }
    page.save("settings.yaml")
    page.environ["NHX_PORT"] = worlds.free_port()
    page.serve("nemo services: http://127.0.0.1:")
    worlds.jobs_service(page, "--settings", "settings.yaml")
    # the lab's host is this machine, and sees the service's files
    page.run(status=1)
    problems = [line for line in page.said.splitlines() if line.startswith("problem")]
    assert [line.split(": ")[0].split(maxsplit=1)[1] for line in problems] == ["service's files"], page.said
    page.save("job.yaml")
    page.run()
    worlds.reached(page, "on-the-cluster", "active", step=31)
    page.run()
    assert "paused" in page.said
    assert "completed" in page.said
    page.run()
    assert "on-the-cluster  completed" in page.said


READERS = {
    "docs/how-to/fetch.md": fetch,
    "docs/how-to/submit-to-slurm.md": submit_to_slurm,
    "docs/how-to/train-on-slurm.md": train_on_slurm,
    "docs/tutorial/first-slurm-chain.md": first_slurm_chain,
}
"""Page -> how it is followed."""
