"""A disk that is full: what is asked gets a sentence, and the service says how it is until there is room."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_helix_server.api.health import HealthProbe
from nemo_helix_server.store.store import JobStore

pytestmark = pytest.mark.services

CAN_MOUNT = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0
FULL = """
import json, pathlib, sys
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body
data = pathlib.Path(sys.argv[1]) / "data"
bench = Bench(data)
client = bench.client()
filesets = "/apis/files/v2/workspaces/default/filesets"
secrets = "/apis/secrets/v2/workspaces/default/secrets"
assert client.post(filesets, json={"name": "data"}).status_code == 201
assert client.get("/health").json()["status"] == "ok"
bench.parts.health.clock = iter(range(10**9, 10**10, 10)).__next__
filler = (data / "filler").open("wb", buffering=0)
try:
    while filler.write(b"x" * 4096):
        pass
except OSError:
    pass
asked = {
    "create_fileset": client.post(filesets, json={"name": "more"}),
    "upload_file": client.request("PUT", f"{filesets}/data/files/a.txt", content=b"x" * 9000),
    "create_secret": client.post(secrets, json={"name": "hub", "value": "v" * 9000}),
    "create_job": client.post(JOBS, json=job_body()),
    "health": client.get("/health"),
    "status": client.get("/status"),
    "list": client.get(filesets),
}
said = {name: [answer.status_code, answer.json()] for name, answer in asked.items()}
filler.truncate(0)
said["again"] = [client.post(filesets, json={"name": "more"}).status_code, client.get("/health").json()]
said["left"] = sorted(path.name for path in data.rglob("*") if path.name.startswith(".probe"))
print(json.dumps(said))
"""


@pytest.mark.skipif(not CAN_MOUNT, reason="no disk can be mounted here")
def test_on_a_full_disk_every_write_is_refused_in_words_and_health_says_so(tmp_path):
    mounted = f'mount -t tmpfs -o size=4m none {tmp_path} && exec {sys.executable} -c "$1" {tmp_path}'
    ran = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mounted, "sh", FULL],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    for name in ("create_fileset", "upload_file", "create_secret", "create_job"):
        status, body = said[name]
        assert status in {503, 507}, (name, body)
        assert "full" in body["detail"] or "room" in body["detail"] or "space" in body["detail"], body
    status, body = said["health"]
    assert (status, body["status"]) == (503, "failing")
    assert any("written" in problem for problem in body["problems"])
    assert (said["status"][0], said["status"][1]["status"]) == (200, "failing")
    assert [row["name"] for row in said["list"][1]["data"]] == ["data"]
    assert said["again"] == [201, {**said["again"][1], "status": "ok", "problems": []}]
    assert said["left"] == []


def test_one_look_serves_all_who_ask_for_a_while(bench):
    now = [0.0]
    health = HealthProbe(bench.store, bench.data_dir, clock=lambda: now[0])
    assert health.problems() == ()
    bench.data_dir.rename(bench.data_dir.with_name("gone"))
    try:
        assert health.problems() == ()
        now[0] = 2.0
        assert len(health.problems()) == 1
    finally:
        bench.data_dir.with_name("gone").rename(bench.data_dir)


def test_a_database_that_cannot_be_written_is_failing(bench, monkeypatch):
    def away(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nemo_helix_server.store.access.WorkspaceWriter.prove", away)
    answer = bench.client().get("/health")
    assert answer.status_code == 503
    assert "the database cannot be written" in answer.json()["problems"][0]


@pytest.mark.parametrize("before", [None, 0o644])
def test_the_database_is_for_its_owner(tmp_path, before):
    file = tmp_path / "jobs.db"
    if before is not None:
        file.touch()
        file.chmod(before)
    old = os.umask(0)
    try:
        from nemo_runs.clock import MovableClock

        store = JobStore(f"sqlite:///{file}", MovableClock())
        store.migrate()
        with store.write() as writer:
            writer.workspaces.prove()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(old)
    assert set(modes) == {"jobs.db", "jobs.db-wal", "jobs.db-shm"}
    assert set(modes.values()) == {0o600}
