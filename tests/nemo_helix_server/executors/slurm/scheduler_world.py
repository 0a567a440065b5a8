"""A service's executor beside a fake scheduler; the part on the cluster's host answers in this process."""

import json
import os
from pathlib import Path, PurePosixPath

from nemo_helix_server.executors.base import Launch
from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnection
from nemo_helix_server.executors.slurm.executor import SlurmStepExecutor
from nemo_helix_server.executors.slurm.on_cluster import requests
from nemo_helix_server.executors.slurm.ownership import NotOurJobError
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_slurm.errors import CommandFailedError
from nemo_slurm.hosts import Completed, LocalHost
from nemo_slurm.testing import FakeCluster, Faults


class Killed(BaseException):
    """The service is killed here."""


class Files(LocalHost):
    """Small files are written in this process."""

    def write(self, path, data, *, mode=0o644):
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def run(self, script, *, env=None, timeout=60):
        return Completed(0, str(os.getuid()), "")


class Connection(ClusterConnection):
    """Counts what is asked of the part on the cluster's host."""

    def __init__(self, address, cluster, asked, service=None):
        super().__init__(address, ClusterSources("x", ()), host=Files(), cluster=cluster, service=service)
        self.asked, self.now = asked, cluster.now

    def code(self):
        return PurePosixPath("/code")

    def ask(self, request, *, timeout=120):
        self.asked.append(request["op"])
        answer = requests.answer(self.signed(request))
        if request["op"] == "look":
            answer["now"] = self.now()
        if answer.get("other_service"):
            raise NotOurJobError(answer["error"])
        if "error" in answer:
            raise CommandFailedError([request["op"]], 1, answer["error"])
        return json.loads(json.dumps(answer))


class Connections:
    """One scheduler for all addresses."""

    def __init__(self, cluster, service=None):
        self.cluster, self.asked, self.known, self.service = cluster, [], {}, service

    def of(self, address):
        return self.known.setdefault(address, Connection(address, self.cluster, self.asked, self.service))

    def close(self):
        pass


class Place:
    """A service with two profiles of one cluster, whose roots differ."""

    def __init__(self, folder, *, data="data", service=None, fake=None):
        self.fake = fake or FakeCluster(faults=Faults(starts_jobs=False))
        self.connections = Connections(self.fake, service)
        self.jobs = JobStorage(folder / data)
        self.settings = {name: SlurmSettings(root=folder / name, python="python3") for name in ("a", "b")}
        self.ahead = 0.0
        """Seconds that the clock of the service is ahead of that of the cluster."""
        self.executor = self.restarted()

    def restarted(self, **changes):
        storage = ClusterRunStorage(self.jobs, self.connections, lambda run: ClusterAddress.of(self.of(run)))
        storage.bring_inputs = lambda _run: 0
        self.executor = SlurmStepExecutor(
            storage, self.connections, self.of, now=self.date, monotonic=self.fake.now, **changes
        )
        return self.executor

    def date(self):
        """The service's own clock, which may be set."""
        return self.fake.now() + self.ahead

    def of(self, run):
        return self.settings[run.profile or "a"]

    def launch(self, run, **changes):
        return Launch(argv=("true",), environment={}, profile=self.of(run), goes_on=True, **changes)

    def start(self, run, **changes):
        self.executor.start(run, self.launch(run, **changes))

    def state(self, run):
        return self.executor.observe([run])[run.token].state

    def known(self, run):
        return submissions.read(self.jobs.run_folder(run))

    def there(self, run):
        """The folder of a start on the cluster."""
        return Path(self.of(run).root, "jobs", run.job_id, "runs", run.token)


def run_of(number, profile="a", job="job-1"):
    return StepRun("default", job, "attempt-1", "main", f"task-{number:012x}{number:020x}", "slurm", profile)
