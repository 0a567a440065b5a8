"""What cannot be started here is refused before anything changes, and a paused job stays paused."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helix_workplace import Workplace, step
from tests.nemo_helix_server.worlds import ANNA, request

from nemo_helix_plugin.jobs.types import HelixJobSpec
from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.facts import FactFinder
from nemo_helix_server.controller.feasibility import Feasibility
from nemo_helix_server.controller.launches import Launches
from nemo_helix_server.errors import InvalidError, StateConflictError
from nemo_helix_server.executors import dispatch
from nemo_helix_server.executors.base import ResourceNeeds
from nemo_helix_server.executors.capacity import LeasedCapacity
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.executors.subprocesses import ProcessExecutor
from nemo_helix_server.jobs.model import SecretRow
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.secret_store import value_path
from nemo_runs.clock import MovableClock
from nemo_runs.durable import disk
from nemo_runs.leases import machine_leases
from nemo_runs.sizes import size_in_words

pytestmark = pytest.mark.services


class Site:
    """A service of which the machine changes."""

    def __init__(self, folder):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock, devices=8)
        self.place = Workplace(folder / "data", clock=self.clock, executor=FakeStepExecutor(self.machine))
        self.store = self.place.store
        self.profiles = {("subprocess", "default"), ("gpu", "default")}
        self.machine.memory_bytes = 1 << 36
        self.engine = folder / "engine" / "python"
        self.engine.parent.mkdir()
        self.engine.symlink_to(sys.executable)

    @property
    def service(self):
        starter = self.place.controller.starter
        has = lambda provider, name: (provider, name) in self.profiles  # noqa: E731 - as it is handed over
        starter.launches = replace(starter.launches, has_profile=has)
        possible = Feasibility(starter.launches, self.place.executors)
        return JobsService(
            self.store, self.place.storage, self.place.limits, self.clock, lambda: None, possible
        )

    def training(self, **changes):
        made = step([str(self.engine), "-c", "pass"], name="training", pause=60)
        made["executor"] |= {"provider": "gpu", **changes.pop("executor", {})}
        made["executor"]["container"] = {"command": made["executor"].pop("command")}
        made["executor"]["resources"] = {"num_gpus": 8, "requests": {"memory": "32Gi"}}
        return {**made, **changes}

    def create(self, *steps):
        document, _ = self.service.create(ANNA, "default", request("job-1", steps or (self.training(),)))
        return document["id"]

    def passes(self, count=4):
        for _ in range(count):
            self.clock.advance(0.5)
            self.place.controller.run_once()

    def to_active(self, job):
        self.passes()
        self.machine.begin(self.place.step_of(job).task)
        self.passes()
        assert self.place.get(job).status is Status.ACTIVE
        return job

    def paused(self, *steps):
        job = self.to_active(self.create(*steps))
        folder = self.place.trainer(job)
        (folder / "progress.json").write_text(
            '{"final_step": 0, "task": "%s"}' % self.place.step_of(job).task  # noqa: UP031 - JSON has braces
        )
        self.service.pause(ANNA, "default", "job-1")
        self.passes()
        self.machine.end(self.place.step_of(job).task, 75)
        self.passes()
        assert self.place.get(job).status is Status.PAUSED
        return job

    def failed(self):
        job = self.to_active(self.create())
        self.machine.end(self.place.step_of(job).task, 1)
        self.passes()
        assert self.place.get(job).status is Status.ERROR
        return job


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.place.close()


CHANGES = {
    "four of eight GPUs": (lambda site: setattr(site.machine, "devices", 4), "8 GPU devices.*has 4"),
    "no GPU": (lambda site: setattr(site.machine, "devices", 0), "8 GPU devices"),
    "less memory": (
        lambda site: setattr(site.machine, "memory_bytes", 1 << 34),
        r"32Gi of memory.*has 16\.0Gi",
    ),
    "no profile": (lambda site: site.profiles.discard(("gpu", "default")), "profile gpu/default"),
    "no engine": (lambda site: site.engine.unlink(), "not a program here.*nemo engines install"),
}


def test_nodes_are_for_the_executor_to_judge_and_all_needs_reach_it(site):
    site.profiles.add(("gpu_distributed", "default"))
    step = site.training(executor={"provider": "gpu_distributed"})
    step["executor"]["container"]["image"] = "example/image:1"
    step["executor"]["resources"] = {
        "num_nodes": 2,
        "num_gpus": 8,
        "shm_size": "16Gi",
        "requests": {"cpu": "500m", "memory": "32Gi"},
    }
    with pytest.raises(InvalidError, match="the step training asks for 2 nodes, and there is one node here"):
        site.create(step)
    site.machine.nodes = 2
    job = site.to_active(site.create(step))
    launch = site.machine.runs[site.place.step_of(job).task].launch
    assert launch.needs == ResourceNeeds(nodes=2, gpus=8, cpus=0.5, memory_bytes=32 << 30, shm_bytes=16 << 30)
    assert launch.image == "example/image:1"
    assert launch.profile is site.place.profile


@pytest.mark.parametrize("change", CHANGES)
def test_a_paused_job_stays_paused_with_its_window_and_can_be_resumed_later(site, change):
    apply, says = CHANGES[change]
    job = site.paused()
    before = site.service.get("default", "job-1")
    devices, memory, profiles = site.machine.devices, site.machine.memory_bytes, set(site.profiles)
    apply(site)
    with pytest.raises(StateConflictError, match=f"job job-1 stays paused.*{says}.*nemo jobs resume job-1"):
        site.service.resume(ANNA, "default", "job-1")
    site.passes()
    after = site.service.get("default", "job-1")
    assert (after["status"], after["storage_expires_at"]) == ("paused", before["storage_expires_at"])
    site.machine.devices, site.machine.memory_bytes = devices, memory
    site.profiles = profiles
    if not site.engine.exists():
        site.engine.symlink_to(sys.executable)
    assert site.service.resume(ANNA, "default", "job-1")["status"] == "resuming"
    site.passes()
    assert site.place.get(job).status is Status.PENDING


@pytest.mark.parametrize("change", CHANGES)
def test_a_failed_job_keeps_its_attempt_and_its_window(site, change):
    apply, says = CHANGES[change]
    job = site.failed()
    before = site.service.get("default", "job-1")
    apply(site)
    with pytest.raises(StateConflictError, match=f"cannot be run again here.*{says}.*nemo jobs rerun job-1"):
        site.service.rerun(ANNA, "default", "job-1")
    assert site.service.get("default", "job-1") == before
    with site.store.read() as unit:
        assert unit.attempts.of_job(job).total == 1


def test_a_secret_that_is_gone_is_named(site):
    variable = {"name": "HF_TOKEN", "from_secret": {"name": "hf"}}
    path = value_path(site.place.folder, "default", "hf")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("s")
    kept = SecretRow(
        workspace="default", name="hf", description=None, created_by="a", created_at=1, updated_at=1
    )
    with site.store.write() as unit:
        unit.secrets.put(kept)
    site.paused(site.training(environment=[variable]))
    path.unlink()
    with pytest.raises(StateConflictError, match=r"stays paused.*the secret hf.*nemo secrets create"):
        site.service.resume(ANNA, "default", "job-1")


def test_a_later_step_counts_too(site):
    second = {**site.training(), "name": "second"}
    first = {**site.training(), "executor": {**site.training()["executor"], "resources": {"num_gpus": 1}}}
    site.paused(first, second)
    site.machine.devices = 4
    with pytest.raises(StateConflictError, match="the step second asks for 8 GPU devices"):
        site.service.resume(ANNA, "default", "job-1")


@pytest.mark.parametrize("change", ["four of eight GPUs", "no GPU", "less memory"])
def test_a_new_job_that_could_never_run_here_is_not_made(site, change):
    apply, says = CHANGES[change]
    apply(site)
    with pytest.raises(InvalidError, match=says):
        site.create()
    assert site.service.list_jobs("default")["data"] == []


def test_a_create_that_is_repeated_is_answered_though_the_machine_has_changed(site):
    job = site.create()
    site.machine.devices = 4
    assert site.service.create(ANNA, "default", request("job-1", (site.training(),)))[0]["id"] == job


@pytest.mark.parametrize("change", ["four of eight GPUs", "no profile"])
def test_a_resumed_step_that_cannot_go_on_after_all_waits_and_nothing_of_it_is_lost(site, change):
    job = site.paused()
    site.service.resume(ANNA, "default", "job-1")
    devices, profiles = site.machine.devices, set(site.profiles)
    apply, says = CHANGES[change]
    apply(site)
    site.passes(10)
    assert site.place.get(job).status is Status.QUEUED
    message = site.place.step_of(job).status_details["message"]
    assert "waits until it can go on here" in message
    assert says.split(".*")[0] in message
    site.service.pause(ANNA, "default", "job-1")
    assert site.place.get(job).status is Status.PAUSED
    site.machine.devices, site.profiles = devices, profiles
    site.service.resume(ANNA, "default", "job-1")
    site.passes()
    assert site.place.get(job).status is Status.PENDING


def test_the_real_pool_says_what_there_is(tmp_path):
    room = LeasedCapacity(machine_leases.Pool(tmp_path / "leases", ("0", "1"), 2), tmp_path / "leases")
    executor = ProcessExecutor(JobStorage(tmp_path / "data"), tmp_path / "executor", room)
    place = Workplace(tmp_path / "data", executor=executor)
    try:
        job = place.job(
            {
                **step(["true"], name="training"),
                "executor": {
                    "provider": "gpu",
                    "container": {"command": ["true"]},
                    "resources": {"num_gpus": 3},
                },
            }
        )
        with place.store.read() as unit:
            context = unit.steps.context(unit.steps.current(unit.jobs.by_id(job).attempt_id).id)
        possible = Feasibility(place.controller.starter.launches, place.executor)
        assert possible.obstacle(context) == (
            "the step training asks for 3 GPU devices, and this machine has 2 (0, 1)"
        )
        assert not list(Path(tmp_path / "leases").glob("*.json"))
    finally:
        place.close()


def test_a_step_on_a_cluster_is_judged_by_its_own_profile(tmp_path):
    profile = {"provider": "cpu", "profile": "lab", "backend": "slurm", "config": {"root": "/shared"}}
    settings = Settings(data_dir=tmp_path / "data", jobs={"executors": [profile]})
    executors = dispatch.of_service(settings)
    profiles = Profiles(settings.jobs)
    launches = Launches(
        tmp_path, profiles.settings, lambda: "", executor_of=profiles.executor, has_profile=profiles.has
    )
    spec = HelixJobSpec.model_validate({"steps": [on_profile("lab")]})
    try:
        assert Feasibility(launches, executors).check_spec(spec) is None
    finally:
        executors.close()


def on_profile(name):
    executor = {"provider": "cpu", "profile": name, "container": {"command": ["true"]}}
    return {"name": "main", "executor": executor}


def test_a_disk_that_does_not_say_what_is_free_holds_up_no_start(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: None)
    finder = FactFinder(JobStorage(tmp_path), None, 256 << 20, None)
    assert finder.disk_shortage() is None
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: 1 << 20)
    assert f"{size_in_words(1 << 20)} are free where {tmp_path} is" in finder.disk_shortage()
