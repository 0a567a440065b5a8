import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.nemo_trainer.trainings import eventually

from nemo_trainer.contract import Control, JobContext, write_control
from nemo_trainer.session import Session

pytestmark = pytest.mark.services


class Service(ThreadingHTTPServer):
    """Answers one step's address with a status; notes what was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = "active"
        self.mode = "ok"
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        code, body, extra = 200, json.dumps({"name": "train", "status": self.server.status}), {}
        if self.server.mode == "error":
            code, body = 503, "{}"
        elif self.server.mode == "nonsense":
            body = "<html>"
        elif self.server.mode == "redirect":
            code, extra = 302, {"Location": f"{self.server.url}/elsewhere"}
        self.send_response(code)
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def service():
    server = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def open_session(tmp_path, service, **fields):
    context = JobContext(
        trainer_path=tmp_path / "t",
        storage=tmp_path / "t",
        job="job-1",
        step_name="train",
        task="task-1",
        workspace="lab",
        jobs_url=service.url,
        access_token="token-1",
        **fields,
    )
    return Session.open(context)


def test_without_a_control_file_the_service_is_asked_as_upstream_images_do(tmp_path, service):
    with open_session(tmp_path, service) as session:
        session.restore()
        eventually(lambda: service.asked)
        assert session.wanted() == "run"
        service.status = "pausing"
        eventually(lambda: session.wanted() == "pause")
        service.status = "active"
        eventually(lambda: session.wanted() == "run")
        service.status = "cancelling"
        eventually(lambda: session.wanted() == "stop")
    assert set(service.asked) == {("/apis/jobs/v2/workspaces/lab/jobs/job-1/steps/train", "Bearer token-1")}


@pytest.mark.parametrize("mode", ["error", "nonsense", "redirect"])
def test_a_service_that_does_not_answer_changes_nothing(tmp_path, service, mode, capfd):
    with open_session(tmp_path, service) as session:
        session.restore()
        service.status = "pausing"
        eventually(lambda: session.wanted() == "pause")
        service.mode = mode
        service.asked.clear()
        eventually(lambda: len(service.asked) >= 3)
        assert session.wanted() == "pause"
        assert all("elsewhere" not in path for path, _ in service.asked)
        service.mode, service.status = "ok", "active"
        eventually(lambda: session.wanted() == "run")
    err = capfd.readouterr().err
    assert err.count("does not say what is wanted") == 1
    assert "token-1" not in err


def test_with_a_control_file_nobody_is_asked(tmp_path, service):
    control = tmp_path / "control.json"
    service.status = "pausing"
    with open_session(tmp_path, service, control_file=control) as session:
        session.restore()
        assert session.wanted() == "run"
        write_control(control, Control(1, "pause", "ada", 1.0))
        assert session.wanted() == "pause"
    assert service.asked == []
