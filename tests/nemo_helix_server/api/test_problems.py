"""What goes wrong behind a route is an answer, whatever it is, and the next request is answered."""

import asyncio

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS

from nemo_helix_server.executors import answers
from nemo_helix_server.executors.base import ExecutorError, NeverPossibleError
from nemo_helix_server.executors.calls import ExecutorCalls
from nemo_helix_server.logs.pages import LogPages
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue

pytestmark = pytest.mark.services
LOGS = f"{JOBS}/none/logs"
PIN = f"{JOBS}/none/checkpoints/c/pin"


def asked(name, error):
    """What an executor of a name raises when it is asked through the service."""

    def raising(*_given, **_named):
        def call():
            raise error

        return ExecutorCalls(title_of="the executor '{}'".format).ask(name, "files", call, answers.nothing)

    return raising


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ExecutorError("login.example does not answer"),
            "the executor 'slurm' cannot do that at the moment: login.example does not answer",
        ),
        (
            NeverPossibleError("its profile is not one of a cluster any more"),
            "the executor 'slurm' cannot do that at the moment: its profile is not one of a cluster any more",
        ),
        (ValueError("odd"), "the executor 'slurm' fails in files: ValueError: odd"),
        (SystemExit("bye"), "the executor 'slurm' fails in files: SystemExit: bye"),
    ],
)
def test_what_an_executor_cannot_do_now_is_asked_again_later_and_names_it(bench, monkeypatch, error, said):
    monkeypatch.setattr(LogPages, "page", asked("slurm", error))
    answer = bench.client().get(LOGS)
    assert (answer.status_code, answer.json()["detail"]) == (503, said)
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("error", [SystemExit("bye"), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize(
    ("where", "method", "path", "body"),
    [
        ((LogPages, "page"), "GET", LOGS, None),
        ((CheckpointCatalogue, "pin"), "POST", PIN, {}),
    ],
)
def test_what_would_end_the_program_ends_one_request(
    bench, monkeypatch, error, where, method, path, body, caplog
):
    def escapes(*_given, **_named):
        raise error

    with monkeypatch.context() as changed:
        changed.setattr(*where, escapes)
        answer = bench.client().request(method, path, json=body)
    assert (answer.status_code, "something unexpected" in answer.text) == (500, True)
    assert any(f"{path}: {type(error).__name__}" in message for message in caplog.messages)
    assert bench.client().get("/health").status_code == 200
