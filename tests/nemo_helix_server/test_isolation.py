"""Steps of a service that asks for tokens see their own files, and no keys; elsewhere it is said."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from tests.nemo_helix_server.commands.programs import Program, nemo, training, until
from tests.nemo_helix_server.storage.test_checkpoints import save

from nemo_helix_server import isolation, settings
from nemo_helix_server.auth import step_tokens
from nemo_helix_server.customizer import previewing
from nemo_helix_server.customizer.facts import EngineFacts
from nemo_helix_server.executors import landlock
from nemo_helix_server.isolation import Isolation, judge
from nemo_helix_server.settings import SettingsError
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import StepPaths

pytestmark = pytest.mark.services

here = pytest.mark.skipif(landlock.version() < landlock.OLDEST, reason="this kernel has no Landlock")
LAB = "/apis/jobs/v2/workspaces/lab/jobs"
SPY = """
import os, pathlib, subprocess, sys
data, service = pathlib.Path(sys.argv[1]), sys.argv[2]
found = [data / "signing.key", data / "jobs.db", data / "jobs.db-wal", data / "service.json", data,
         data / "secrets", data / "secrets" / "default" / "hub", data / "jobs" / "default",
         f"/proc/{service}/environ", f"/proc/{service}/mem", f"/proc/{service}/root{data}/signing.key",
         f"/proc/{service}/cwd", f"/proc/{service}/fd/0", f"/proc/{os.getppid()}/environ",
         pathlib.Path(sys.argv[3]) / ".profile", "/tmp", "/var/tmp", sys.argv[4]]
for path in map(str, found):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        print("SEEN", path)
    except OSError as error:
        print("hidden", path, error.errno)
for path in ("/tmp/planted", "/var/tmp/planted",
             sys.prefix + "/planted", str(data / "planted"), sys.argv[3] + "/planted", "/etc/planted"):
    try:
        open(path, "w").close()
        print("SEEN and changed", path)
    except OSError as error:
        print("kept", path, error.errno)
try:
    os.kill(int(service), 0)
    print("SEEN a signal")
except OSError:
    print("no signal")
for command in (["mount", "--bind", "/", "/mnt"], ["unshare", "-Urm", "cat", str(data / "signing.key")]):
    print("SEEN" if subprocess.run(command, capture_output=True).returncode == 0 else "refused", command[0])
open("own", "w").write("x")
open(os.path.join(os.environ["TMPDIR"], "own"), "w").write("x")
open(os.path.join(os.environ["HOME"], "own"), "w").write("x")
print("own files work")
"""


PREVIEWER = """
import json, os, pathlib, sys, tempfile
def seen(path):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
    except OSError:
        return False
    return True
data = pathlib.Path(sys.argv[1])
found = {name: seen(data / name) for name in ("signing.key", "filesets/lab", "filesets/other")}
found |= {name: seen(name) for name in ("/tmp", "spec.json")}
with tempfile.NamedTemporaryFile() as file:
    found["TMPDIR"] = seen(file.name)
print(json.dumps(found))
"""


@pytest.fixture
def service(tmp_path):
    """A service that asks for tokens, its admin, and an admin of the workspace `lab` alone."""
    data = tmp_path / "data"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".profile").write_text("secret")
    first = nemo("services", "token", "create", "first", "--role", "admin", "--data-dir", data)
    environ = {"NHX_AUTH_REQUIRED": "true", "HOME": str(home), "PRIVATE_KEY": "of the service"}
    started = Program(data, environ=environ)
    with started.client(first.stdout.strip()) as admin:
        admin.post("/apis/workspaces/v2/workspaces", json={"name": "lab"})
        admin.post("/apis/secrets/v2/workspaces/default/secrets", json={"name": "hub", "value": "hunter2"})
        body = {"name": "lab", "role": "admin", "workspace": "lab"}
        made = admin.post("/apis/auth/v2/tokens", json=body).json()
        with started.client(made["token"]) as lab:
            yield started, lab, home, made
    started.end()
    started.process.stdout.close()


def command(name, *argv, **step):
    executor = {"provider": "subprocess", "command": list(map(str, argv))}
    steps = [{"name": "run", "executor": executor, **step}]
    return {"name": name, "source": "test", "spec": {}, "platform_spec": {"steps": steps}}


def ended(client, name):
    def status():
        found = client.get(f"{LAB}/{name}").json()
        return found if found["status"] in {"completed", "error", "cancelled", "paused"} else None

    return until(status, f"{name} has ended")


def said(client, name):
    return [line["message"] for line in client.get(f"{LAB}/{name}/logs").json()["data"]]


@here
def test_an_admin_of_one_workspace_finds_no_key(service):
    started, lab, home, _ = service
    with tempfile.NamedTemporaryFile(dir="/tmp") as other:
        body = command(
            "spy", sys.executable, "-c", SPY, started.data_dir, started.process.pid, home, other.name
        )
        assert lab.post(LAB, json=body).status_code == 201
        ended(lab, "spy")
    found = ended(lab, "spy")
    lines = said(lab, "spy")
    assert found["status"] == "completed", lines
    assert [line for line in lines if "SEEN" in line] == []
    assert lines[-1] == "own files work"
    assert len([line for line in lines if line.startswith(("hidden", "kept"))]) == 24


@here
def test_the_temporary_files_of_a_step_are_its_own(service):
    _, lab, _, _ = service
    script = "import os, pathlib, tempfile, time\nprint(tempfile.mkstemp()[1], flush=True)\ntime.sleep(60)\n"
    assert lab.post(LAB, json=command("first", sys.executable, "-c", script)).status_code == 201
    until(lambda: said(lab, "first"), "it has a temporary file")
    [file] = said(lab, "first")
    try:
        script = "import os, sys; print(os.environ['TMPDIR']); open(sys.argv[1])"
        assert lab.post(LAB, json=command("second", sys.executable, "-c", script, file)).status_code == 201
        assert ended(lab, "second")["status"] == "error"
        lines = said(lab, "second")
        assert lines[0] != os.path.dirname(file)
        assert "PermissionError" in lines[-1]
    finally:
        lab.post(f"{LAB}/first/cancel")


@here
def test_the_engine_of_a_preview_is_kept_to_what_is_its_own(tmp_path):
    data, folder = tmp_path / "data", tmp_path / "preview"
    for path in (data / "filesets" / "lab", data / "filesets" / "other", folder):
        path.mkdir(parents=True)
    step_tokens.load_key(data)
    (folder / "spec.json").write_text("{}")
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -I {tmp_path}/spy.py {data}\n")
    program.chmod(0o755)
    (tmp_path / "spy.py").write_text(PREVIEWER)
    reads = settings.load(
        environ={},
        overrides={"data_dir": data, "jobs": {"isolation": {"read": [program, tmp_path / "spy.py"]}}},
    )
    found = Isolation(reads, tmp_path / "cache")
    places = found.of_preview(folder, "lab", "anna")
    seen = previewing.ask(
        EngineFacts("trl", str(program), {}),
        folder,
        "nemo_engines.preview",
        ["--rows", "1"],
        places=places,
        seconds=60,
    )
    assert seen == {
        "signing.key": False,
        "filesets/lab": True,
        "filesets/other": False,
        "/tmp": False,
        "spec.json": True,
        "TMPDIR": True,
    }
    unconfined = previewing.ask(
        EngineFacts("trl", str(program), {}), folder, "nemo_engines.preview", ["--rows", "1"], seconds=60
    )
    assert unconfined["signing.key"]


LINKS = {
    "the record of its progress": "ln -s {hidden}/progress.json progress.json",
    "its metrics": "ln -s {hidden}/metrics.jsonl metrics.jsonl",
    "a checkpoint": "mkdir checkpoints; ln -s {hidden}/checkpoints/7 checkpoints/7",
    "all its checkpoints": "ln -s {hidden}/checkpoints checkpoints",
    "its folder": 'cd ..; rm -r "$NEMO_JOB_TRAINER_PATH"; ln -s {hidden} "$NEMO_JOB_TRAINER_PATH"',
}


@here
@pytest.mark.parametrize("what", LINKS)
def test_the_service_follows_no_link_that_a_step_put_there(service, what):
    _, lab, home, _ = service
    save(home, 7)
    (home / "progress.json").write_text('{"phase": "hidden", "word": "hidden"}')
    (home / "metrics.jsonl").write_text('{"step":1,"time":1,"attempt":"a","values":{"train_loss":77}}\n')
    script = f'cd "$NEMO_JOB_TRAINER_PATH"; {LINKS[what]}; exit 1'.format(hidden=home)
    body = command("link", "/bin/sh", "-c", script, lifecycle={"pause_deadline_seconds": 60})
    assert lab.post(LAB, json=body).status_code == 201
    assert ended(lab, "link")["status"] == "error"
    parts = (
        lab.get(f"{LAB}/link{part}").json() for part in ("/status", "/attempts", "/steps", "/checkpoints")
    )
    answers = [{**lab.get(f"{LAB}/link").json(), "platform_spec": None}, *parts]
    assert answers[-1]["data"] == []
    assert "from its checkpoint" not in str(answers)
    told = str([answer.get("status_details") for answer in answers])
    assert "hidden" not in told
    series = answers[0]["status_details"].get("metrics") or {}
    assert series.get("train_loss", []) == []


@here
def test_a_training_pauses_and_goes_on_behind_the_boundary(service):
    _, lab, _, _ = service
    assert lab.post(LAB, json=training("tune", "--steps", 400)).status_code == 201
    until(lambda: (lab.get(f"{LAB}/tune").json()["status_details"] or {}).get("step", 0) > 2, "it trains")
    assert lab.post(f"{LAB}/tune/pause").status_code == 200
    assert ended(lab, "tune")["status"] == "paused"
    assert lab.post(f"{LAB}/tune/resume").status_code == 200
    until(lambda: lab.get(f"{LAB}/tune").json()["status"] in {"active", "completed"}, "it goes on")
    lab.post(f"{LAB}/tune/cancel")


def test_variables_of_the_service_are_given_by_a_list_only(service):
    _, lab, _, _ = service
    variables = [{"name": "STOLEN", "value": "host:PRIVATE_KEY"}]
    lab.post(LAB, json=command("steal", "/bin/sh", "-c", "echo $STOLEN", environment=variables))
    found = ended(lab, "steal")
    assert found["status"] == "error"
    assert "jobs.host_variables" in str(found)
    assert "of the service" not in str(said(lab, "steal"))


def test_what_a_token_of_one_workspace_is_worth_is_said(service):
    started, _, _, made = service
    line = next(line for line in started.stderr().splitlines() if "steps " in line)
    assert ("not a boundary" in line) is (made["note"] is not None)


def test_where_it_cannot_be_it_is_said(tmp_path):
    given = settings.load(
        environ={}, overrides={"data_dir": tmp_path, "jobs": {"isolation": {"mode": "none"}}}
    )
    found = judge(Isolation(given, tmp_path), tokens_required=True)
    assert (found.isolated, found.holds) == (False, False)
    assert "can read its keys (jobs.isolation.mode is none)" in found.sentence
    data = tmp_path / "data"
    words = ("services", "token", "create", "of-lab", "--role", "admin", "--workspace", "default")
    ran = nemo(*words, "--data-dir", data, environ={"NHX_JOBS_ISOLATION_MODE": "none"})
    assert (ran.returncode, len(ran.stdout.split())) == (0, 1)
    assert "is not a boundary between workspaces" in ran.stderr


def test_a_kernel_without_it_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    given = settings.load(environ={}, overrides={"data_dir": tmp_path})
    step_tokens.load_key(tmp_path)
    found = judge(Isolation(given, tmp_path), tokens_required=True)
    assert (found.isolated, "Landlock" in found.sentence) == (False, True)
    strict = settings.load(
        environ={}, overrides={"data_dir": tmp_path, "jobs": {"isolation": {"mode": "required"}}}
    )
    with pytest.raises(isolation.IsolationError, match="is required"):
        judge(Isolation(strict, tmp_path), tokens_required=False)


@here
def test_a_way_around_is_named(tmp_path, monkeypatch):
    step_tokens.load_key(tmp_path)
    given = Isolation(settings.load(environ={}, overrides={"data_dir": tmp_path}), tmp_path)
    monkeypatch.setattr(isolation, "_reachable", lambda: iter(["/run/docker.sock"]))
    found = judge(given, tokens_required=True)
    assert (found.isolated, found.holds, "/run/docker.sock" in found.sentence) == (True, False, True)
    monkeypatch.setattr(isolation, "_reachable", lambda: iter([]))
    assert judge(given, tokens_required=True).holds
    assert not judge(given, tokens_required=False).isolated


@here
def test_profiles_whose_steps_share_a_user_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "_reachable", lambda: iter([]))
    step_tokens.load_key(tmp_path)

    def judged(**config):
        profile = {"provider": "gpu", "profile": "big", "backend": "slurm"}
        executors = [{**profile, "config": {"root": "/scratch/x", **config}}]
        overrides = {"data_dir": tmp_path, "jobs": {"executors": executors}}
        return judge(
            Isolation(settings.load(environ={}, overrides=overrides), tmp_path), tokens_required=True
        )

    assert judged().holds  # jobs of it are refused
    found = judged(shares_user=True)
    assert (found.isolated, found.holds) == (True, False)
    assert "steps of the execution profiles gpu/big run as one user" in found.sentence
    assert "is not a boundary between workspaces" in found.sentence


def access_of(given, tmp_path, made_by="anna", confined=True):
    run = StepRun("lab", "j", "attempt-1", "main", "task-1")
    paths = StepPaths.below(tmp_path / "data" / "jobs" / "lab" / "j", run)
    found = Isolation(given, tmp_path / "cache", confined=lambda _: confined)
    return found.folders_for(paths, "lab", made_by, None).file_access


def covers(paths, wanted):
    return any(Path(path) == wanted or Path(path) in wanted.parents for path in paths)


@pytest.mark.parametrize("more", [Path("/"), Path("DATA"), Path("DATA/secrets"), Path("DATA").parent])
def test_no_setting_opens_the_data_directory(tmp_path, more):
    data = tmp_path / "data"
    for name in ("jobs", "secrets", "filesets"):
        (data / name).mkdir(parents=True)
    (data / "signing.key").touch()
    opened = Path(str(more).replace("DATA", str(data)))
    overrides = {"data_dir": data, "jobs": {"isolation": {"read": [opened], "write": [opened]}}}
    given = settings.load(
        environ={}, overrides={**overrides, "customization": {"local_paths": [str(opened)]}}
    )
    file_access = access_of(given, tmp_path)
    for hidden in (
        "signing.key",
        "jobs.db",
        "secrets",
        "secrets/lab/x",
        "jobs/default/x",
        "filesets/default",
    ):
        assert not covers((*file_access.read, *file_access.write), data / hidden), hidden
    assert covers(file_access.write, data / "jobs" / "lab" / "j" / "storage")
    assert covers(file_access.write, data / "filesets" / "lab" / "x")
    assert not covers(file_access.write, data / "jobs" / "lab" / "j" / "runs")


def test_who_may_see_all_workspaces_makes_jobs_that_read_them(tmp_path):
    given = settings.load(environ={}, overrides={"data_dir": tmp_path / "data"})
    other = tmp_path / "data" / "filesets" / "default" / "base"
    assert not covers(access_of(given, tmp_path).read, other)
    open_access = access_of(given, tmp_path, confined=False)
    assert covers(open_access.read, other)
    assert not covers(open_access.write, other)


def test_a_mode_that_is_none_of_them_is_refused():
    with pytest.raises(SettingsError, match=r"jobs\.isolation\.mode"):
        settings.load(environ={"NHX_JOBS_ISOLATION_MODE": "maybe"})


def test_the_key_is_for_its_owner(tmp_path):
    step_tokens.load_key(tmp_path)
    assert os.stat(tmp_path / step_tokens.KEY_FILE).st_mode & 0o077 == 0
