"""What a profile of a cluster says of the place where its steps run."""

from pathlib import PurePosixPath

import pytest

from nemo_helix_server.customizer.facts import EngineFacts
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.executors.base import NeverPossibleError
from nemo_helix_server.executors.slurm.place import ClusterPlace
from nemo_helix_server.executors.slurm.settings import SlurmSettings

CODE = PurePosixPath("/shared/code/ab")
HERE = EngineFacts("trl", "/home/u/.cache/trl/bin/python", {"PYTHONPATH": "/home/u", "HF_HOME": "/x"}, "d1")


def place(**settings):
    return ClusterPlace(SlurmSettings(root="/shared", **settings), CODE)


def missing(name):
    raise StateConflictError(f"engine {name} is not installed")


def test_without_a_host_the_interpreter_is_the_services_and_nothing_else_of_its_machine():
    found = place().engine("trl", lambda _name: HERE)
    assert (found.python, found.digest) == (HERE.python, "d1")
    assert found.environment["PYTHONPATH"] == "/shared/code/ab"
    assert "HF_HOME" not in found.environment
    with pytest.raises(StateConflictError, match="not installed"):
        place().engine("trl", missing)


@pytest.mark.parametrize("host", [None, "login"])
def test_an_interpreter_of_the_profile_needs_none_of_the_service(host):
    found = place(host=host, engines={"trl": "/opt/trl/bin/python"}).engine("trl", missing)
    assert (found.python, found.digest) == ("/opt/trl/bin/python", None)


def test_with_a_host_the_profile_has_to_name_it():
    with pytest.raises(
        NeverPossibleError, match=r"trl has no interpreter on login: name one by .* engines.trl"
    ):
        place(host="login").engine("trl", lambda _name: HERE)


def test_in_a_container_the_profile_has_to_name_it():
    with pytest.raises(NeverPossibleError, match=r"no interpreter in the containers .* engines.trl"):
        place(container={"image": "/images/trl.sqsh"}).engine("trl", lambda _name: HERE)


def test_steps_that_do_not_train_do_not_run_there():
    with pytest.raises(NeverPossibleError, match="cpu/default the backend subprocess"):
        place().python()
