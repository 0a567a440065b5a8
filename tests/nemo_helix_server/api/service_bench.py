"""A real service without its controller: what is asked is answered, and nothing is started."""

import anyio
import httpx

from nemo_helix_plugin.access.types import CreateTokenRequest
from nemo_helix_server import app, settings
from nemo_helix_server.isolation import Isolation
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

JOBS = "/apis/jobs/v2/workspaces/default/jobs"
OWNER = Caller(name="owner")


class Client:
    """Asks an application, one request after the other."""

    def __init__(self, application, token=None):
        self.application = application
        self.headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def request(self, method, path, **values):
        headers = {**self.headers, **values.pop("headers", {})}

        async def ask():
            transport = httpx.ASGITransport(self.application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
                return await http.request(method, path, headers=headers, **values)

        return anyio.run(ask)

    def get(self, path, **values):
        return self.request("GET", path, **values)

    def post(self, path, **values):
        return self.request("POST", path, **values)


class Bench:
    """A service, its store and its clock."""

    def __init__(self, data_dir, *, tokens_required=False, isolated=False, **changes):
        self.clock = MovableClock()
        overrides = {"data_dir": data_dir, "jobs": {"leases": {"folder": data_dir / "leases", "devices": []}}}
        given = settings.load(environ={}, overrides={**overrides, **changes})
        data_dir.mkdir(mode=0o700, exist_ok=True)
        self.data_dir = data_dir
        self.store = JobStore(given.store_url(), self.clock)
        self.store.migrate()
        self.service = app.compose(
            given,
            self.store,
            self.clock,
            base_url="http://localhost:8080",
            tokens_required=tokens_required,
            isolation=Isolation(given, data_dir.parent / "engines") if isolated else None,
        )
        self.parts = self.service.parts
        self.application = self.service.application

    def client(self, token=None):
        return Client(self.application, token)

    def token(self, role, workspace=None, **values):
        body = CreateTokenRequest(role=role, workspace=workspace, **values)
        return self.parts.tokens.create(OWNER, body)["token"]

    def happen(self, name, *events, workspace="default"):
        """Let events happen to the current step of a job, as the controller would."""
        for event in events:
            with self.store.write() as unit:
                job = unit.jobs.find(workspace, name)
                step = unit.steps.current(job.attempt_id)
                task = f"task-{'0' * 31}{step.control_seq}" if event is StatusEvent.ACCEPTED else None
                assert (
                    unit.statuses.move(step.id, StatusChange(event, who="test", why="a test", task=task))
                    is not None
                )

    def close(self):
        self.service.close()
        self.store.close()


def job_body(name="tune", **changes):
    steps = [
        {
            "name": step,
            "executor": {"provider": "subprocess", "command": ["true"]},
            "lifecycle": {"pause_deadline_seconds": deadline},
        }
        for step, deadline in (("download", 0), ("training", 60))
    ]
    body = {"name": name, "source": "test", "spec": {"backend": "x"}, "platform_spec": {"steps": steps}}
    return {**body, **changes}
