"""Several executors in one service, one of them from another package by its entry point."""

import shutil
from pathlib import Path

import pytest
from tests.helix_workplace import Workplace, run_named, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server import executor_kinds, settings
from nemo_helix_server.executor_kinds import UnknownExecutorError
from nemo_helix_server.executors.base import (
    CapacityRequest,
    NeverPossibleError,
    ResourceNeeds,
    RunObservation,
    RunState,
)
from nemo_helix_server.executors.dispatch import Executors, of_service
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import SettingsError
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.log_parts import LocalLog
from nemo_helix_server.storage.run_storage import LocalRunStorage
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services
TOY_PROFILE = {"provider": "cpu", "profile": "toy", "backend": "toy", "config": {"queue": "long"}}


def install(folder, monkeypatch, name="toy", module="toy_executor"):
    """What installing the package leaves: its module, and its metadata with the entry point."""
    shutil.copy(Path(__file__).with_name("toy.py"), folder / "toy_executor.py")
    metadata = folder / f"{name}_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{executor_kinds.GROUP}]\n{name} = {module}:KIND\n")
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def toy_package(tmp_path, monkeypatch):
    folder = tmp_path / "packages"
    folder.mkdir()
    install(folder, monkeypatch)
    return folder


def given(tmp_path, *profiles):
    values = {"data_dir": tmp_path / "data", "jobs": {"executors": list(profiles)}}
    return settings.load(None, {"HOME": str(tmp_path)}, values)


class Site:
    """A service with the fake in the place of the default executor, and others as they are installed."""

    def __init__(self, folder, *profiles):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock)
        self.settings = given(folder, *profiles)
        self.executors = self.new_executors()
        self.place = Workplace(
            folder / "data",
            clock=self.clock,
            executor=self.executors,
            profiles=Profiles(self.settings.jobs),
        )

    def new_executors(self):
        fake = FakeStepExecutor(self.machine)

        def opened(name):
            return fake if name == executor_kinds.DEFAULT else executor_kinds.load(name).open(self.settings)

        return Executors(opened, executor_kinds.DEFAULT, self.settings.data_dir)

    def passes(self, count=1):
        for _ in range(count):
            self.place.controller.run_once()

    def job(self, profile="default", **executor):
        made = shell("true")
        made["executor"] |= {"provider": "cpu", "profile": profile, **executor}
        return self.place.job(made)


@pytest.fixture
def site(tmp_path, toy_package):
    site = Site(tmp_path, TOY_PROFILE)
    yield site
    site.place.close()


def test_jobs_run_side_by_side_each_on_the_executor_of_its_profile(site):
    here, there = site.job(), site.job("toy", container={"image": "example/image:1"})
    site.passes(3)
    assert site.place.step_of(there).status_details["queued_reason"] == "waits in long"
    site.passes(3)
    assert site.place.get(there).status is Status.COMPLETED
    assert site.place.get(here).status is Status.PENDING
    site.machine.end(site.place.step_of(here).task, 0)
    site.passes(2)
    assert site.place.get(here).status is Status.COMPLETED
    toy = site.executors.named("toy")
    (launch,) = toy.launches.values()
    # nothing of this machine reaches a place of which nothing is known
    assert ("PATH" in launch.environment, launch.image) == (False, "example/image:1")
    assert launch.profile.queue == "long"
    assert toy.data_dir == site.settings.data_dir
    site.executors.close()
    assert toy.closed


def test_what_a_failed_run_said_last_comes_from_its_executor(site, tmp_path, monkeypatch):
    job = site.job("toy")
    site.passes(2)
    toy = site.executors.named("toy")
    ended = RunObservation(RunState.EXITED, exit_status=1, reason="exited with status 1")
    monkeypatch.setattr(toy, "observe", lambda runs: {run.token: ended for run in runs})
    said = '{"m": "ModuleNotFoundError: No module named \'nowhere\'"}\n'
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "output.jsonl").write_text(said)

    class Elsewhere(LocalRunStorage):
        def log(self, run):
            return LocalLog(elsewhere)

    monkeypatch.setattr(toy, "files", lambda _run: Elsewhere(JobStorage(tmp_path / "there")), raising=False)
    site.passes(2)
    failed = site.place.get(job)
    assert failed.status is Status.ERROR
    assert "nowhere" in failed.error_details["message"]
    assert not site.place.run_folder(job).joinpath("output.jsonl").exists()


def test_a_start_stays_with_its_executor_when_its_profile_names_another(site):
    job = site.job("toy")
    site.passes(2)
    assert site.place.step_of(job).status_details["executor"] == "toy"
    site.place.controller.stop()
    site.place.profiles = Profiles(given(site.place.folder.parent).jobs)
    site.place.controller = site.place.new_controller()
    site.passes(5)
    assert site.place.get(job).status is Status.COMPLETED
    assert not site.machine.runs


def test_an_executor_that_is_gone_leaves_its_runs_unknown_and_the_others_alone(site):
    job = site.job("toy")
    site.passes(2)
    here = site.job()
    site.place.controller.stop()

    def opened(name):
        if name == executor_kinds.DEFAULT:
            return FakeStepExecutor(site.machine)
        raise UnknownExecutorError(f"there is no executor '{name}' here")

    site.place.executor = Executors(opened, executor_kinds.DEFAULT, site.settings.data_dir)
    site.place.controller = site.place.new_controller()
    site.passes(3)
    assert site.place.get(job).status is Status.PENDING
    assert site.machine.runs
    site.machine.end(site.place.step_of(here).task, 0)
    site.passes(2)
    assert site.place.get(here).status is Status.COMPLETED
    # it can be cancelled all the same, in the end
    site.place.cancel(job)
    site.clock.advance(1000)
    site.passes(3)
    assert site.place.get(job).status is Status.CANCELLED


def test_a_new_job_for_it_fails_with_the_names_that_there_are(tmp_path):
    site = Site(tmp_path)
    site.place.profiles = type(
        "Gone",
        (),
        {
            "settings": lambda _self, _provider, _name: settings.SubprocessSettings(),
            "executor": lambda _self, _provider, _name: "slurm-of-old",
            "has": lambda _self, _provider, _name: True,
        },
    )()
    site.place.controller = site.place.new_controller()
    job = site.job()
    site.passes(3)
    failed = site.place.get(job)
    assert (failed.status, failed.reason) == (Status.ERROR, "start_failed")
    says = "there is no executor 'slurm-of-old' here; there are subprocess"
    assert says in failed.error_details["message"]
    site.place.close()


def test_an_executor_that_fails_to_look_hides_only_its_own_runs(tmp_path):
    class Broken(FakeStepExecutor):
        def observe(self, runs):
            raise ZeroDivisionError("of its own")

    class Forgetful(FakeStepExecutor):
        def observe(self, runs):
            return {}

    kinds = {"a": FakeStepExecutor(), "broken": Broken(), "forgetful": Forgetful()}
    executors = Executors(kinds.__getitem__, "a", tmp_path)
    runs = [run_named(f"task-{name or 'default'}", name) for name in ("", "a", "broken", "forgetful")]
    seen = executors.observe(runs)
    assert [seen[run.token].state for run in runs] == [
        RunState.ABSENT,
        RunState.ABSENT,
        RunState.UNKNOWN,
        RunState.UNKNOWN,
    ]
    assert "of its own" in seen["task-broken"].reason


def test_what_is_asked_about_a_run_reaches_its_executor_alone(tmp_path):
    one, other = FakeMachine(), FakeMachine()
    kinds = {"one": FakeStepExecutor(one), "other": FakeStepExecutor(other)}
    executors = Executors(kinds.__getitem__, "one", tmp_path)
    run = run_named("task-1", "other")
    request = CapacityRequest(run, "default/job", "default", ResourceNeeds(), 1, (0.0, 0))
    executors.admit(request)
    assert (list(one.holding), list(other.holding)) == ([], ["task-1"])
    executors.release(run)
    assert not other.holding
    executors.stop(run, grace_seconds=0)
    assert executors.observe([run])[run.token] == RunObservation(
        RunState.LOST, never_started=True, reason="was given up before it started"
    )
    assert not one.runs
    other.nodes = 1
    with pytest.raises(NeverPossibleError, match="asks for 2 nodes"):
        executors.require_possible(
            CapacityRequest(run, "the step s", "default", ResourceNeeds(nodes=2), 1, (0.0, 0))
        )


class TestNames:
    def test_a_package_adds_one_and_cannot_replace_what_comes_with_the_service(
        self, toy_package, monkeypatch
    ):
        install(toy_package, monkeypatch, name=executor_kinds.DEFAULT)
        assert executor_kinds.names() == (executor_kinds.DEFAULT, "slurm", "toy")
        sentence = rf"the executor '{executor_kinds.DEFAULT}' is built in, and so named is one of another"
        with pytest.raises(UnknownExecutorError, match=sentence):
            executor_kinds.load(executor_kinds.DEFAULT)
        assert len(executor_kinds.clashes()) == 1

    def test_one_that_cannot_be_loaded_is_named_with_where_it_comes_from(self, toy_package, monkeypatch):
        install(toy_package, monkeypatch, name="bent", module="no_such_module")
        with pytest.raises(
            UnknownExecutorError, match=r"'bent' of the package bent-package cannot be loaded \(Mod"
        ):
            executor_kinds.load("bent")

    @pytest.mark.parametrize(
        ("profile", "says"),
        [
            (
                {**TOY_PROFILE, "backend": "tot"},
                "there is no executor 'tot'; there are subprocess, slurm, toy",
            ),
            (
                {**TOY_PROFILE, "config": {"queues": "x"}},
                r"no setting 'jobs\.executors\.0\.config\.queues' .*\(did you mean 'queue'\?\)$",
            ),
            ({**TOY_PROFILE, "config": {"ttl_seconds_active": -1}}, "ttl_seconds_active"),
            (
                {"provider": "cpu", "config": {"queue": "x"}},
                r"no setting 'jobs\.executors\.0\.config\.queue' .*; there are ttl_seconds_before_active, ",
            ),
        ],
    )
    def test_a_profile_that_is_wrong_is_refused_in_a_sentence(self, tmp_path, toy_package, profile, says):
        with pytest.raises(SettingsError, match=says) as caught:
            given(tmp_path, profile)
        assert "\n" not in str(caught.value)

    def test_a_config_may_be_left_out(self, tmp_path, toy_package):
        loaded = given(tmp_path, {"provider": "cpu", "backend": "toy"}, {"provider": "gpu"})
        assert [type(one.config).__name__ for one in loaded.jobs.executors] == [
            "ToySettings",
            "SubprocessSettings",
        ]

    def test_the_profiles_say_which_executor_they_name(self, tmp_path, toy_package):
        shown = {
            (one["provider"], one["profile"]): (one["backend"], one["config"].get("queue"))
            for one in Profiles(given(tmp_path, TOY_PROFILE).jobs).all()
        }
        assert shown["cpu", "toy"] == ("toy", "long")
        assert shown["cpu", "default"] == (executor_kinds.DEFAULT, None)

    def test_a_service_opens_those_of_its_profiles(self, tmp_path, toy_package):
        loaded = given(tmp_path, TOY_PROFILE)
        loaded.data_dir.mkdir()
        executors = of_service(loaded)
        assert type(executors.named("toy")).__name__ == "Toy"
        assert executors.descriptors()
        executors.close()
