"""A chain that an earlier version began goes on: its files are read as they are, and its rows are kept.

``tests/fixtures/old_chain`` is what `gym eval submit` of an earlier version left on the `local` executor. A
resumable benchmark of twelve rollouts had recorded five when its model server stopped to answer and ended;
the second job's server ended at once, and the third job ended the chain, since its one retry was used up. The
server runs through this time, for the file whose presence ends it is not there. ``said`` holds what the
commands of that version printed about it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import relocated
from tests.local_jobs import until

from nemo_gym.composition import load_yaml

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

GYM = Path(sys.executable).with_name("gym")
GYM_JOB_ID = "gym-job-20261130T090528Z-a63c10"
OLD_JOBS = ["local-1", "local-2", "local-3"]
EXPECTED, RECORDED = 12, 5
STORED = relocated.FIXTURES / "old_chain"
OTHER_WORDS = {"reason", "detail", "advice", "notes", "problems", "next_command"}
"""Sentences, which a later version may word otherwise."""
OTHER_PLACES = {"at", "config_digest"}
"""When a command was asked, and a digest of texts that name the folder."""


def differences(then: object, now: object, where: str) -> Iterator[str]:
    """Where a document says something else than an earlier one; it may say more."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in then.keys() - OTHER_WORDS - OTHER_PLACES:
            if name not in now:
                yield f"{where}.{name} is gone"
            else:
                yield from differences(then[name], now[name], f"{where}.{name}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, pair in enumerate(zip(then, now, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif then != now:
        yield f"{where} was {then!r} and is {now!r}"


class OldChain:
    """The user whose chain it is."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.run = self.root / "runs" / GYM_JOB_ID
        self.job = self.run / "sums"
        self.known = folder / "cache" / "nemo-gym" / "jobs"
        self.environ = {**os.environ, "NEMO_LEASES_DIR": str(folder / "leases")}
        for name in ("cache", "state"):
            relocated.place(STORED / name, folder / name, self.root)
            self.environ[f"XDG_{name.upper()}_HOME"] = str(folder / name)
        relocated.place(STORED / "root", self.root, self.root)
        self._seal()

    def _seal(self) -> None:
        """Fill in the digests of the files that name their folder, as the earlier version would have here."""
        record, submission = self.run / "gym-job.json", self.run / ".gym_submission.json"
        config = load_yaml(self.run / "resolved-config.yaml")
        canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
        script = self.job / "job.sh"
        unsealed = r"(?ms)^# Not sealed:.*?^# Sealed again\.\n"
        known = self.known / f"{GYM_JOB_ID}.json"
        self._fill("resolved-config.yaml", canonical, known, record, submission)
        self._fill("run.yaml", (self.job / "run.yaml").read_text(), script, submission)
        self._fill("sealed part of job.sh", re.sub(unsealed, "", script.read_text()), script)
        self._fill("job.sh", script.read_text(), submission)
        script.chmod(0o600)
        for path in self.job.glob("sealed/*/*"):
            path.chmod(0o444)

    def _fill(self, name: str, content: str, *paths: Path) -> None:
        digest = hashlib.sha256(content.encode()).hexdigest()
        for path in paths:
            text = path.read_text()
            assert f"{{SHA256 {name}}}" in text
            path.write_text(text.replace(f"{{SHA256 {name}}}", digest))

    def forget(self) -> None:
        """Remove what the earlier version noted about the states of jobs and benchmarks; the index stays."""
        noted = [*self.known.glob(".seen-*.json"), self.known / ".status.json"]
        assert len(noted) == 2
        for path in noted:
            path.unlink()

    def gym(self, *arguments: str, status: int = 0) -> str:
        """What a command prints."""
        done = subprocess.run(
            [GYM, *arguments],
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def asked(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """The JSON document that a command prints."""
        document = json.loads(self.gym("job", *arguments, "--json", status=status))
        assert isinstance(document, dict)
        return document

    def status(self) -> dict[str, Any]:
        """The state of the benchmark; the chain is found by the index that the earlier version wrote."""
        [submission] = self.asked("status", "latest")["submissions"]
        [benchmark] = submission["benchmarks"]
        assert isinstance(benchmark, dict)
        return benchmark

    def bill(self) -> list[dict[str, Any]]:
        """What each job of the chain cost."""
        [benchmark] = self.asked("bill", "latest")["benchmarks"]
        links = benchmark["links"]
        assert isinstance(links, list)
        return links


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[OldChain]:
    chain = OldChain(tmp_path)
    yield chain
    chain.gym("job", "cancel", "latest", "--all", "--yes")


@pytest.mark.parametrize("noted", [True, False], ids=["with notes about it", "from its files alone"])
def test_an_old_chain_is_read_as_the_version_that_wrote_it_read_it(chain: OldChain, noted: bool) -> None:
    if not noted:
        chain.forget()
    for command in ("status", "info", "results", "bill", "verify"):
        then = json.loads(relocated.text_of(STORED / "said" / f"{command}.json", chain.root))
        now = chain.asked(command, "latest", status=1 if command == "verify" else 0)
        assert list(differences(then, now, command)) == []
    verified = chain.asked("verify", "latest", status=1)
    assert verified["problems"] == [], "the run is incomplete, and nothing of it was changed"
    assert "not as it was queued" not in chain.gym("job", "status", "latest")


def test_an_old_chain_goes_on_and_records_every_rollout_once(chain: OldChain) -> None:
    rows = chain.job / "artifacts" / "rollouts.jsonl"
    before = rows.read_bytes()
    script = (chain.job / "job.sh").read_bytes()
    assert before.count(b"\n") == RECORDED
    billed = chain.bill()[:2]
    assert [link["allocated_ms"] for link in billed] == [8117, 1015]
    (chain.root / "open").touch()  # for this file the server waits before it answers a sixth request
    again = chain.asked("resubmit", "latest", "--max-retries", "3", "--reason", "the server is mended")
    assert (again["resubmission"], again["job_id"]) == (1, "local-4")

    def ended() -> dict[str, Any] | None:
        status = chain.status()
        return status if status["state"] not in ("queued", "running", "waiting") else None

    status = until(ended, within=120)
    assert (status["state"], status["job_id"]) == ("succeeded", "local-4"), status
    assert (chain.job / "job.sh").read_bytes() == script, "a job of the chain runs what was submitted"
    after = rows.read_bytes()
    assert after.startswith(before), "rows that were paid for stay as they are"
    indexes = [json.loads(line)["_ng_task_index"] for line in after.splitlines()]
    assert sorted(indexes) == list(range(EXPECTED))
    assert (
        json.loads((chain.job / "links" / "local-4.0" / "collected").read_text())["new"]
        == EXPECTED - RECORDED
    )

    [info] = chain.asked("info", "latest")["benchmarks"]
    assert [link["job_id"] for link in info["links"]][: len(OLD_JOBS) + 1] == [*OLD_JOBS, "local-4"]
    assert info["resubmissions"][0]["reason"].endswith("the server is mended")
    [result] = chain.asked("results", "latest")["results"]
    assert (result["status"], result["measured"], result["score"]) == ("complete", EXPECTED, 1 / EXPECTED)
    verified = chain.asked("verify", "latest")
    assert verified["valid"] is True, verified
    links = chain.bill()
    assert links[:2] == billed
    assert [link["link"] for link in links][:4] == [f"{job_id}.0" for job_id in (*OLD_JOBS, "local-4")]
    assert (links[3]["owners_ms"]["useful"] > 0, links[3]["owners_ms"]["repeated"]) == (True, 0)
