"""Whatever is sent, as the OpenAPI document allows it or not: never a 5xx, and nothing undocumented."""

import http.client
import random
import threading
import time

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body

from nemo_helix_server.jobs.states import StatusEvent

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ENDLESS = ("watch_job", "watch_workspace")
EXAMPLES = 12
"""Requests of each kind for each operation; about a minute in all."""
KNOWN = {"workspace": "default", "job": "tune", "name": "tune", "step": "training", "attempt": "current"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A service behind real HTTP. Without a controller: what is made up here must never run."""
    bench = Bench(tmp_path_factory.mktemp("fuzz") / "data")
    client = bench.client()
    client.post(JOBS, json=job_body())
    bench.happen(
        "tune",
        StatusEvent.ACCEPTED,
        StatusEvent.STARTED,
        StatusEvent.FINISHED,
        StatusEvent.ACCEPTED,
        StatusEvent.STARTED,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            bench.application, port=0, lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)
    bench.close()


def test_no_request_breaks_the_service(address):
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json").exclude(operation_id=list(ENDLESS))
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 45
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            send_many(operation, mode)


def send_many(operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case):
        if random.Random(repr(case.path_parameters)).random() < 0.7:
            given_parts = case.path_parameters or {}
            case.path_parameters = {name: KNOWN.get(name, value) for name, value in given_parts.items()}
        response = case.call()
        case.validate_response(
            response, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
        )

    try:
        send()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # there is nothing about this operation that could be wrong


@pytest.mark.parametrize(
    "target",
    [
        "/\x80",
        "/%",
        "/%zz",
        "//",
        "/a b".replace(" ", "%20"),
        "/" + "a" * 30_000,
        "/%00",
        "/?%00",
        "/%ED%A0%80",
        "/?filter=%FF",
        "/../..",
        "/%2e%2e%2f",
    ],
)
def test_no_raw_target_breaks_the_service(address, target):
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    connection.putrequest("GET", "/", skip_host=True)
    connection._buffer[0] = f"GET {target} HTTP/1.1".encode("latin-1")
    connection.putheader("Host", "localhost")
    connection.endheaders()
    assert 400 <= connection.getresponse().status < 500
    connection.close()
