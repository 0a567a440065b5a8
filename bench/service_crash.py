"""Kill the Jobs service at random moments under live jobs and count what that cost.

    python bench/service_crash.py --kills 500 [--seed N]

A service runs as a program; a client makes jobs of every kind (each request under a key of its own, repeated
until it is answered), pauses, resumes and cancels some. The service is killed with SIGKILL after a random
time, also while it starts, and started again. In the end every job must have ended as it had to: none lost
or made twice, no start run twice, no point of a series missing or there twice, no process left. One JSON
document on stdout; exit status 1 if anything was lost, doubled, wrong or orphaned.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from helix.program import JOBS, Client, Program, until

LIVE = 20
LONGEST = 1.5
"""Seconds from the service's being ready, or from its start, to the kill, at most."""
WHILE_STARTING = 0.15
"""Share of kills that do not wait until it is ready."""
POINTS = 40
COUNT = 'echo x >>"$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts-$NEMO_JOB_TASK"; '
TRAINER = [sys.executable, "-m", "nemo_trainer.example", "--steps", str(POINTS), "--step-seconds", "0.02"]
KINDS: dict[str, list[tuple[list[str], int]]] = {
    "quick": [(["/bin/sh", "-c", f"{COUNT} exit 0"], 0)],
    "slow": [(["/bin/sh", "-c", f"{COUNT} sleep 1"], 0)],
    "fails": [(["/bin/sh", "-c", f"{COUNT} exit 3"], 0)],
    "two": [(["/bin/sh", "-c", f"{COUNT} exit 0"], 0), (["/bin/sh", "-c", f"{COUNT} sleep 0.3"], 0)],
    "trains": [(TRAINER, 60)],
}


@dataclass
class Found:
    """What all the kills cost, and how much was going on."""

    seed: int
    kills: int = 0
    while_starting: int = 0
    jobs: int = 0
    repeated_requests: int = 0
    lost: int = 0
    doubled: int = 0
    wrong_end: int = 0
    orphans: int = 0
    seconds: float = 0.0
    ends: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Job:
    """One job that was asked for."""

    kind: str
    key: str
    name: str | None = None
    """Known once the request was answered."""
    cancelled: bool = False


class Campaign:
    """Jobs, and what was asked of them."""

    def __init__(self, chance: random.Random, found: Found) -> None:
        self.chance = chance
        self.found = found
        self.jobs: list[Job] = []

    def work(self, port: int) -> None:
        """Make and ask as users do, until the service is gone."""
        client = Client(port)
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                self._make_up(client)
                self._ask(client)
                time.sleep(0.02)
        client.close()

    def _make_up(self, client: Client) -> None:
        self._repeat(client)
        query = 'filter={"status":{"$nin":["completed","error","cancelled"]}}'
        live = client.get(f"{JOBS}?page_size=1&{query}")["pagination"]["total_results"]
        for _ in range(LIVE - live):
            kind = self.chance.choice(sorted(KINDS))
            job = Job(kind, f"key-{len(self.jobs)}")
            self.jobs.append(job)
            job.name = self._create(client, job)

    def _create(self, client: Client, job: Job) -> str:
        steps = [
            {
                "name": f"step-{number}",
                "executor": {"provider": "subprocess", "command": command},
                "lifecycle": {"pause_deadline_seconds": pause},
            }
            for number, (command, pause) in enumerate(KINDS[job.kind])
        ]
        body = {"source": "crash", "spec": {"key": job.key}, "platform_spec": {"steps": steps}}
        return str(client.ask("POST", JOBS, body, {"idempotency-key": job.key})["name"])

    def _ask(self, client: Client) -> None:
        job = self.chance.choice(self.jobs)
        what = self.chance.choice(["pause", "resume", "resume", "nothing", "cancel"])
        if what == "nothing" or job.name is None or (what == "pause" and job.kind != "trains"):
            return
        if what == "cancel":
            if self.chance.random() < 0.7:
                return
            job.cancelled = True  # an answer may get lost, so it may be cancelled from here on
        client.ask("POST", f"{JOBS}/{job.name}/{what}", refusable=True)

    def settle(self, client: Client) -> None:
        """Wait until every job has ended; paused ones are resumed."""
        self._repeat(client)

        def all_ended() -> bool:
            for status in ("paused", "pausing"):
                for found in client.get(f"{JOBS}?page_size=1000&filter[status]={status}")["data"]:
                    client.ask("POST", f"{JOBS}/{found['name']}/resume", refusable=True)
            query = 'filter={"status":{"$nin":["completed","error","cancelled"]}}'
            return bool(client.get(f"{JOBS}?page_size=1&{query}")["pagination"]["total_results"] == 0)

        until(all_ended, "every job has ended", 0.2)

    def _repeat(self, client: Client) -> None:
        """Ask again for the jobs whose requests were not answered."""
        for job in self.jobs:
            if job.name is None:
                self.found.repeated_requests += 1
                job.name = self._create(client, job)


def check(campaign: Campaign, client: Client, data_dir: Path) -> None:
    """Compare what there is with what there must be."""
    found = campaign.found
    documents = {str(one["spec"]["key"]): one for one in _all_jobs(client, found)}
    found.jobs = len(campaign.jobs)
    found.ends = dict(Counter(one["status"] for one in documents.values()))
    tokens: list[str] = []
    for job in campaign.jobs:
        document = documents.get(job.key)
        if document is None:
            found.lost += 1
            found.notes.append(f"{job.key} is lost")
            continue
        natural = "error" if job.kind == "fails" else "completed"
        if document["status"] != natural and not (job.cancelled and document["status"] == "cancelled"):
            found.wrong_end += 1
            found.notes.append(
                f"{job.name} ({job.kind}) is {document['status']}: {document['error_details']}"
            )
        folder = data_dir / "jobs" / "default" / document["id"]
        tokens += [path.name for path in (folder / "runs").glob("task-*")]
        _check_starts(job, document, folder, found)
        if job.kind == "trains" and document["status"] == "completed":
            series = client.get(f"{JOBS}/{job.name}")["status_details"]["metrics"]["train_loss"]
            if [point["step"] for point in series] != list(range(1, POINTS + 1)):
                found.doubled += 1
                found.notes.append(f"{job.name}: its series is {[point['step'] for point in series]}")
    found.orphans = len(_marked(set(tokens)))


def _all_jobs(client: Client, found: Found) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    page, pages = 1, 1
    while page <= pages:
        answer = client.get(f"{JOBS}?page_size=1000&sort=created_at&page={page}")
        page, pages = page + 1, answer["pagination"]["total_pages"]
        for one in answer["data"]:
            seen[one["spec"]["key"]] += 1
            yield one
    twice = [key for key, number in seen.items() if number > 1]
    found.doubled += len(twice)
    found.notes += [f"{key} was made {seen[key]} times" for key in twice]


def _check_starts(job: Job, document: dict[str, Any], folder: Path, found: Found) -> None:
    """Every start wrote its own file; twice in one means that it ran twice."""
    starts = [path.read_text() for path in (folder / "storage").glob("starts-*")]
    wanted = None
    if job.kind != "trains" and document["status"] in {"completed", "error"}:
        wanted = len(KINDS[job.kind])
    if any(text != "x\n" for text in starts) or (wanted is not None and len(starts) != wanted):
        found.doubled += 1
        found.notes.append(f"{job.name} ({job.kind}) has the starts {starts}")


def _marked(tokens: set[str]) -> list[str]:
    """Tokens of which a process runs."""
    alive = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for variable in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name == b"NEMO_JOB_TASK" and value.decode() in tokens:
                    alive.append(value.decode())
    return alive


def run(folder: Path, kills: int, found: Found) -> None:
    """All kills, then the end."""
    chance = random.Random(found.seed)
    campaign = Campaign(chance, found)
    for _ in range(kills):
        starting = chance.random() < WHILE_STARTING
        service = Program(folder / "data", slots=8, wait=not starting)
        if starting:
            found.while_starting += 1
            time.sleep(chance.uniform(0, LONGEST))
        else:
            # in the middle of whatever is asked of it
            threading.Timer(chance.uniform(0, LONGEST), service.process.kill).start()
            campaign.work(service.port)
        service.kill()
        found.kills += 1
    service = Program(folder / "data", slots=8)
    client = service.client()
    try:
        campaign.settle(client)
        check(campaign, client, folder / "data")
    finally:
        client.close()
        service.end()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    found = Found(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given.kills, found)
    found.seconds = round(time.monotonic() - began, 1)
    print(json.dumps(asdict(found), indent=1))
    return 1 if found.lost or found.doubled or found.wrong_end or found.orphans else 0


if __name__ == "__main__":
    sys.exit(main())
