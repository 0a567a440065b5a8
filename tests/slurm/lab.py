"""The real Slurm of the tests: brought up once, shared by all workers; a test that breaks it is alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from nemo_slurm.cluster import Cluster, JobLook, SlurmJob
from nemo_slurm.hosts import Host, LocalHost

T = TypeVar("T")
SCRIPTS = Path(__file__).parents[2] / "scripts" / "slurm"


@dataclass(frozen=True)
class Lab:
    """Where the real Slurm is."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """What clients need."""
        config = str(self.folder / "ssh" / "config")
        return {"SLURM_CONF": str(self.folder / "etc" / "slurm.conf"), "NEMO_GYM_SSH_CONFIG": config}

    @contextlib.contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """Keep tests that break the cluster apart from all others, in whichever worker they are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "tests.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield


@pytest.fixture(scope="session")
def slurm_lab() -> Lab:
    """The real Slurm, up. Only where nobody insists (CI) may a machine do without."""
    can_install = os.geteuid() == 0 and shutil.which("apt-get")
    if not can_install and not shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin"):
        _give_up("no Slurm is installed here and this user cannot install it")
    where = subprocess.run(
        [SCRIPTS / "up.sh", "--env"], capture_output=True, text=True, check=True, timeout=10
    )
    lab = Lab(Path(where.stdout.strip()).parent)
    # another worker's test may have a daemon down on purpose at this moment
    with lab.held(alone=False):
        done = subprocess.run([SCRIPTS / "up.sh"], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        _give_up(f"make slurm-up failed: {done.stderr}")
    return lab


def _give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def until(look: Callable[[], T], *, timeout: float = 60, every: float = 0.1) -> T:
    """The first answer that is true."""
    end = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < end, f"waited {timeout} s in vain; the last answer was {found!r}"
        time.sleep(every)
    return found


WAITS = """\
#!/bin/bash
{head}
echo started >>"$1.log"
until [ -s "$1" ]; do sleep 0.05; done
exit "$(cat "$1")"
"""
"""A job that ends when it is told to, with the status it is told."""


@dataclass
class RealSlurm:
    """The cluster in one test: its jobs carry the test's own token and are cancelled at its end."""

    lab: Lab
    folder: Path
    host: Host = field(default_factory=LocalHost)
    prefix: str = field(default_factory=lambda: f"test-{secrets.token_hex(4)}/")

    @property
    def cluster(self) -> Cluster:
        """The cluster as the tested code sees it."""
        return Cluster(self.host)

    def control(self, *words: str) -> str:
        """``scontrol`` as the administrator; what the controller asks to be tried again in a bit is."""
        end = time.monotonic() + 30
        while True:
            done = subprocess.run(
                ["scontrol", *words], capture_output=True, text=True, check=False, timeout=30
            )
            if "try again" not in done.stderr + done.stdout or time.monotonic() > end:
                break
            time.sleep(0.5)
        assert done.returncode == 0, f"scontrol {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def script(self, text: str, name: str = "job.sh") -> str:
        """Write a batch script."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def wait(self, job: SlurmJob, *names: str, timeout: float = 60) -> JobLook:
        """Look until a job is in one of these states."""

        def look() -> JobLook | None:
            seen = self.cluster.observe([job])[job]
            return seen if seen.state and seen.state.name in names else None

        found = until(look, timeout=timeout)
        assert found is not None
        return found

    def settled(self, job: SlurmJob, timeout: float = 60) -> JobLook:
        """Look until a job has ended for good."""

        def look() -> JobLook | None:
            seen = self.cluster.observe([job])[job]
            return seen if seen.settled else None

        found = until(look, timeout=timeout)
        assert found is not None
        return found

    def client(self, monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
        """Let this test's clients read a changed configuration: the way to a controller that is away."""
        lines = Path(os.environ["SLURM_CONF"]).read_text().splitlines()
        kept = [line for line in lines if line.split("=")[0] not in changes]
        config = self.folder / "slurm.conf"
        config.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in changes.items()), ""]))
        for name in ("gres.conf", "cgroup.conf", "plugstack.conf"):
            source = self.lab.folder / "etc" / name
            if source.exists():
                shutil.copy(source, self.folder)
        monkeypatch.setenv("SLURM_CONF", str(config))

    def end(self) -> None:
        """Cancel what is left of the test, nodes included."""
        for node in self.control("show", "hostnames", "n[1-4]").split():
            if "State=DOWN" in self.control("-o", "show", "node", node):
                self.control("update", f"nodename={node}", "state=resume")
        jobs = [SlurmJob(row.id, token=self.prefix) for row in self.cluster.queue_of(self.prefix)]
        if jobs:
            self.cluster.cancel(jobs)


def daemon(slurm: RealSlurm, name: str) -> Path:
    """The process of a daemon of the lab, as a folder that goes with it."""
    return Path("/proc") / (slurm.lab.folder / "run" / f"{name}.pid").read_text().strip() / "exe"


@contextlib.contextmanager
def away(slurm: RealSlurm, name: str, number: signal.Signals) -> Iterator[None]:
    """Do without a daemon, which nobody brings up meanwhile: up.sh waits for its lock."""
    with (slurm.lab.folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            process = daemon(slurm, name)
            os.kill(int(process.parent.name), number)
            until(lambda: not process.exists())
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
            subprocess.run([SCRIPTS / "up.sh"], check=True, capture_output=True, timeout=120)


@contextlib.contextmanager
def real_slurm(lab: Lab, folder: Path, patch: pytest.MonkeyPatch, *, alone: bool) -> Iterator[RealSlurm]:
    """The cluster for one test."""
    with lab.held(alone=alone):
        for name, value in lab.environ.items():
            patch.setenv(name, value)
        slurm = RealSlurm(lab, folder)
        yield slurm
        for name, value in lab.environ.items():
            patch.setenv(name, value)
        slurm.host = LocalHost()
        slurm.end()


@pytest.fixture
def slurm(slurm_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealSlurm]:
    """The cluster, used by other tests at the same moment."""
    with real_slurm(slurm_lab, tmp_path, monkeypatch, alone=False) as found:
        yield found


@pytest.fixture
def slurm_alone(slurm_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealSlurm]:
    """The cluster for this test alone, which may stop its daemons and take its nodes."""
    with real_slurm(slurm_lab, tmp_path, monkeypatch, alone=True) as found:
        yield found
