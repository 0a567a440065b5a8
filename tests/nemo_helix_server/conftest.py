"""A controller beside the fake executor, with a clock that tests move."""

import pytest
from tests.helix_workplace import Workplace

from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_runs.clock import MovableClock


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def place(tmp_path, clock):
    place = Workplace(tmp_path / "data", clock=clock, executor=FakeStepExecutor(FakeMachine(clock)))
    yield place
    place.close()
