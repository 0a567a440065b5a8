"""A step's interpreter, variables and words of its configuration are found where it runs, when it starts."""

import json

import pytest
from tests.helix_workplace import Workplace, step

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.customizer.facts import EngineFacts
from nemo_helix_server.executors.base import NeverPossibleError
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.executors.options import UnknownPlace
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services


class Cluster(UnknownPlace):
    """A place with engines of its own."""

    def __init__(self):
        self.engines = {
            "trl": EngineFacts("trl", "/cluster/trl/bin/python", {"CACHE": "/cluster"}, "digest-1")
        }

    def environment(self):
        return {"PATH": "/cluster/bin"}

    def engine(self, name, here):
        if name not in self.engines:
            raise NeverPossibleError(f"the cluster has no engine {name}; install it there")
        return self.engines[name]

    def python(self):
        return "/cluster/bin/python"


class Site:
    def __init__(self, folder):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock)
        self.there = Cluster()
        executor = FakeStepExecutor(self.machine)
        executor.place = lambda _profile: self.there
        self.place = Workplace(folder / "data", clock=self.clock, executor=executor)

    def started(self, *command, **changes):
        job = self.place.job(step(command, **changes))
        for _ in range(3):
            self.place.controller.run_once()
        return job

    def launch(self, job):
        return self.machine.runs[self.place.step_of(job).task].launch


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.place.close()


def test_an_engine_is_the_one_of_the_place_with_its_variables(site):
    job = site.started(
        "nemo-engine:trl", "-m", "nemo_engines.run", config={"hub_python": "nemo-engine:trl", "seed": 1}
    )
    launch = site.launch(job)
    assert launch.argv == ("/cluster/trl/bin/python", "-m", "nemo_engines.run")
    wanted = {"PATH": "/cluster/bin", "CACHE": "/cluster", "NEMO_ENGINE_ENVIRONMENT": "digest-1"}
    assert {name: launch.environment.get(name) for name in wanted} == wanted
    config = json.loads((site.place.run_folder(job) / "config" / "job_step_config.json").read_text())
    assert config == {"hub_python": "/cluster/trl/bin/python", "seed": 1}
    # what is stored stays as it was asked for, and so a rerun elsewhere finds what is there
    assert site.place.step_of(job).spec["executor"]["command"][0] == "nemo-engine:trl"


def test_a_variable_of_the_step_goes_before_that_of_the_engine(site):
    job = site.started("nemo-engine:trl", environment=[("CACHE", "/mine")])
    assert site.launch(job).environment["CACHE"] == "/mine"


def test_a_step_that_does_not_train_has_the_python_of_the_place(site):
    assert site.launch(site.started("nemo-python", "-m", "x")).argv == ("/cluster/bin/python", "-m", "x")


def test_a_command_that_was_stored_with_its_path_is_run_as_it_is(site):
    launch = site.launch(
        site.started("/engines/trl/bin/python", "-P", environment=[("PYTHONPATH", "/sources")])
    )
    assert (launch.argv[0], launch.environment["PYTHONPATH"]) == ("/engines/trl/bin/python", "/sources")
    assert "NEMO_ENGINE_ENVIRONMENT" not in launch.environment


def test_an_engine_that_is_not_there_fails_the_start_and_takes_no_place(site):
    job = site.started("nemo-engine:automodel")
    failed = site.place.get(job)
    assert (failed.status, failed.reason) == (Status.ERROR, "start_failed")
    assert "the cluster has no engine automodel; install it there" in failed.error_details["message"]
    assert not site.machine.holding


def test_a_step_that_is_to_go_on_waits_for_its_engine_and_holds_nothing_meanwhile(site):
    job = site.started("nemo-engine:trl", pause=60)
    token = site.place.step_of(job).task
    site.machine.begin(token)
    site.place.controller.run_once()
    site.machine.lose(token, interrupted="the node was lost")
    engine = site.there.engines.pop("trl")
    for _ in range(3):
        site.place.controller.run_once()
    waiting = site.place.step_of(job)
    assert "the cluster has no engine trl" in json.dumps(waiting.status_details)
    assert not site.machine.holding
    site.there.engines["trl"] = engine
    for _ in range(3):
        site.place.controller.run_once()
    assert site.place.step_of(job).task != token


def test_advice_names_the_engine_and_not_the_word_that_stands_for_it(site):
    job = site.started("nemo-engine:trl")
    site.machine.begin(site.place.step_of(job).task)
    said = {"t": 1.0, "s": "err", "m": "ModuleNotFoundError: No module named 'nowhere'"}
    (site.place.run_folder(job) / "output.jsonl").write_text(json.dumps(said) + "\n")
    site.machine.end(site.place.step_of(job).task, 1)
    for _ in range(2):
        site.place.controller.run_once()
    assert "install it for the engine trl" in site.place.get(job).error_details["advice"]
