"""A service without its controller, and browsers that are signed in."""

import re
from collections.abc import Iterator

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body

from nemo_helix_server.pages.sessions import PageGrant

HOST = "localhost:8080"


class Browser:
    """What a browser sends: a cookie, and with a form its origin."""

    def __init__(self, bench, role="operate", workspace=None, root=""):
        self.bench, self.root = bench, root
        self.client = bench.client()
        sessions = bench.service.page_sessions
        grant = PageGrant(name=role, role=role, workspace=workspace)
        self.cookie = sessions.begin(grant) if role else None
        self.headers = {"cookie": f"{sessions.cookie}={self.cookie}"} if role else {}

    def get(self, path, **headers):
        return self.client.get(self.root + path, headers={**self.headers, **headers})

    def csrf(self):
        return self.bench.service.page_sessions.csrf(self.cookie)

    def post(self, path, headers=None, **form):
        sent = {"origin": f"http://{HOST}", **self.headers, **(headers or {})}
        sent = {name: value for name, value in sent.items() if value is not None}
        return self.client.post(self.root + path, headers=sent, data=form)

    def act(self, job, action, workspace="default", **form):
        """Click on a button of a job's page."""
        path = f"/jobs/{workspace}/{job}"
        seen = re.search(r'name="seen" value="([^"]*)"', self.get(path).text)
        given = {"csrf": self.csrf(), "seen": seen[1] if seen else "", **form}
        return self.post(f"{path}/{action}", **given)


@pytest.fixture
def bench(tmp_path) -> Iterator[Bench]:
    made = Bench(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def job(bench):
    """A job that can be paused."""
    assert bench.client().post(JOBS, json=job_body("tune")).status_code == 201
    return "tune"
