"""Services as processes, ended after each test with all that they started."""

import pytest
from tests.nemo_helix_server.commands.programs import Program, cancel_everything


@pytest.fixture
def program(tmp_path):
    """Starts services on one data directory; ends them, and the jobs that are left."""
    started = []

    def start(*options, **values):
        service = Program(tmp_path / "data", *options, **values)
        started.append(service)
        return service

    yield start
    for service in started:
        try:
            if service.process.poll() is None:
                cancel_everything(service)
        finally:
            if service.process.poll() is None:
                service.end()
            service.process.stdout.close()
