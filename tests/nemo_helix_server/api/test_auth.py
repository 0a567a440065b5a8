"""Who may do what: every route with every role, workspaces, expired tokens, and tokens of steps."""

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, OWNER, job_body

from nemo_helix_server.auth.authentication import STEP_TOKEN_SECONDS
from nemo_helix_server.auth.step_tokens import Claims, sign
from nemo_helix_server.jobs.states import StatusEvent
from nemo_runs.clock import SECOND

pytestmark = pytest.mark.services

RUNNING = (StatusEvent.ACCEPTED, StatusEvent.STARTED)
OPEN = {"health"}
OPERATE = {
    "update_job", "delete_job", "pause_job", "resume_job", "cancel_job", "rerun_job", "update_job_control",
    "pause_all", "create_result", "pin_checkpoint", "unpin_checkpoint",
    "create_secret", "update_secret", "delete_secret",
    "preview_training", "try_customization_job", "create_customization_job", "cancel_customization_job",
    "delete_customization_job",
    "create_job_template", "update_job_template", "delete_job_template",
    "create_fileset", "delete_fileset", "upload_file", "delete_file", "create_model", "delete_model",
    "check_execution_profile",
}  # fmt: skip
ADMIN = {
    "create_job", "update_job_status_details", "update_attempt_status_details", "update_step_status",
    "update_attempt_step_status", "put_task", "put_attempt_task", "create_workspace", "delete_workspace",
    "list_tokens", "create_token", "revoke_token",
}  # fmt: skip
EVERYWHERE = {"create_workspace", "delete_workspace", "list_tokens", "create_token", "revoke_token"}
"""What no token of a single workspace may do."""
BODIES = {
    "create_job": job_body("new"),
    "update_job": {"description": "x"},
    "update_job_control": {},
    "update_job_status_details": {},
    "update_attempt_status_details": {},
    "update_step_status": {"status": "active"},
    "update_attempt_step_status": {"status": "active"},
    "put_task": {},
    "put_attempt_task": {},
    "create_result": {"artifact_url": "x"},
    "create_secret": {"name": "key", "value": "v"},
    "update_secret": {"value": "v"},
    "create_workspace": {"name": "lab"},
    "create_token": {"role": "read"},
    "create_customization_job": {"spec": {}},
    "create_job_template": {"name": "saved", "backend": "rl", "config": {}},
    "update_job_template": {},
    "create_fileset": {"name": "data"},
    "create_model": {"name": "tuned", "fileset": "none"},
}


def operations(bench):
    document = bench.client(bench.token("admin")).get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield operation["operationId"], method.upper(), path, operation


def filled(path):
    values = {"workspace": "default", "job": "none", "name": "none", "attempt": "current", "step": "training"}
    values |= {"task": "task-1", "checkpoint": "c", "token": "none", "backend": "rl", "path": "a.txt"}
    values |= {"provider": "gpu", "profile": "none"}
    return path.format(**values)


def asked(client, operation, method, path):
    return client.request(method, filled(path), json=BODIES.get(operation))


def refused(answer):
    return answer.status_code in {401, 403}


def test_every_route_asks_for_exactly_its_role(guarded):
    tokens = {role: guarded.client(guarded.token(role)) for role in ("read", "operate", "admin")}
    nobody = guarded.client()
    for operation, method, path, _ in operations(guarded):
        if operation in {"watch_workspace"}:
            continue  # has no end; its dependencies are those of the others
        needed = "admin" if operation in ADMIN else "operate" if operation in OPERATE else "read"
        assert (asked(nobody, operation, method, path).status_code == 401) is (operation not in OPEN), (
            operation
        )
        allowed = {
            role: not refused(asked(client, operation, method, path)) for role, client in tokens.items()
        }
        order = list(allowed)
        expected = {role: order.index(role) >= order.index(needed) for role in order}
        assert allowed == (dict.fromkeys(order, True) if operation in OPEN else expected), operation


def test_a_token_of_one_workspace_reaches_no_other(guarded):
    client = guarded.client(guarded.token("admin", workspace="lab"))
    for operation, method, path, _ in operations(guarded):
        inside = "{workspace}" not in path and operation not in EVERYWHERE
        if operation == "watch_workspace":
            continue
        answer = asked(client, operation, method, path)
        assert refused(answer) is not inside, operation
    for path in ("/apis/jobs/v2/workspaces/-/jobs", "/apis/jobs/v2/workspaces/-/jobs/-/steps"):
        answer = client.get(path)
        assert answer.status_code == 403
        assert "'lab'" in answer.json()["detail"]
    assert client.get("/apis/workspaces/v2/workspaces").json()["data"] == []


def test_every_documented_error_has_a_body(bench):
    for operation, _, _, document in operations(bench):
        statuses = document["responses"]
        for status in ("400", "401", "403", "422") if operation not in OPEN else ():
            if status in statuses:
                assert statuses[status]["content"]["application/json"]["schema"], (operation, status)
        if operation not in OPEN:
            assert {"401", "403"} <= set(statuses), operation


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "needs an access token"),
        ("Bearer nhx_unknown", "not known"),
        ("Basic dXNlcjpwdw==", "Bearer"),
        ("Bearer", "Bearer"),
        ("nonsense", "Bearer"),
        ("Bearer nhxs_x.y", "step"),
    ],
)
def test_who_is_nobody_is_told_why(guarded, header, words):
    headers = {} if header is None else {"authorization": header}
    answer = guarded.client().get(JOBS, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert words in answer.json()["detail"]
    assert "nhx_unknown" not in answer.text


def test_a_token_ends_by_itself_and_by_being_revoked(guarded):
    client = guarded.client(guarded.token("read", name="brief", expires_in_seconds=60))
    assert client.get(JOBS).status_code == 200
    guarded.clock.advance(61)
    answer = client.get(JOBS)
    assert (answer.status_code, "'brief' expired" in answer.json()["detail"]) == (401, True)
    admin = guarded.client(guarded.token("admin"))
    made = admin.post("/apis/auth/v2/tokens", json={"name": "other", "role": "read"}).json()
    other = guarded.client(made["token"])
    assert other.get(JOBS).status_code == 200
    listed = admin.get("/apis/auth/v2/tokens").json()["data"]
    assert made["token"] not in str(listed)
    assert next(entry for entry in listed if entry["name"] == "other")["last_used_at"] is not None
    assert admin.request("DELETE", f"/apis/auth/v2/tokens/{made['id']}").status_code == 204
    answer = other.get(JOBS)
    assert (answer.status_code, "'other' was revoked" in answer.json()["detail"]) == (401, True)
    assert admin.request("DELETE", "/apis/auth/v2/tokens/none").status_code == 404


def test_without_a_need_for_tokens_one_that_is_presented_still_counts(bench):
    assert bench.client().get(JOBS).status_code == 200
    assert bench.client("nhx_unknown").get(JOBS).status_code == 401
    assert bench.client(bench.token("read")).post(JOBS, json=job_body()).status_code == 403


def test_a_description_may_be_changed_by_who_may_not_make_jobs(guarded):
    admin, operator = (guarded.client(guarded.token(role)) for role in ("admin", "operate"))
    assert admin.post(JOBS, json=job_body()).status_code == 201
    assert operator.request("PATCH", f"{JOBS}/tune", json={"description": "d"}).status_code == 200
    body = {"spec": {}, "platform_spec": job_body()["platform_spec"]}
    assert operator.request("PATCH", f"{JOBS}/tune", json=body).status_code == 403


class Steps:
    """Two jobs that run, and the token of the first one's step."""

    def __init__(self, bench):
        self.bench = bench
        self.admin = bench.client(bench.token("admin"))
        self.ids = {}
        for name in ("tune", "other"):
            self.ids[name] = self.admin.post(JOBS, json=job_body(name)).json()["id"]
            bench.happen(name, *RUNNING, StatusEvent.FINISHED, *RUNNING)
        self.task = self.admin.get(f"{JOBS}/tune/steps/training/tasks").json()["data"][0]["name"]
        token = bench.parts.authenticator.step_token(
            workspace="default", job="tune", job_id=self.ids["tune"], step="training", task=self.task
        )
        self.client = bench.client(token)


@pytest.fixture
def steps(guarded):
    return Steps(guarded)


def test_a_step_reads_itself_and_writes_its_task(steps):
    assert steps.client.get(f"{JOBS}/tune/steps/training").json()["status"] == "active"
    assert steps.client.get(f"{JOBS}/{steps.ids['tune']}/steps/training").status_code == 200
    path = f"{JOBS}/tune/steps/training/tasks/{steps.task}"
    answer = steps.client.request("PUT", path, json={"status": "active", "status_details": {"step": 3}})
    assert answer.json()["status_details"]["step"] == 3
    assert steps.client.get(path).status_code == 200
    assert steps.client.request("PATCH", f"{JOBS}/tune/status-details", json={"a": 1}).status_code == 200


def test_a_step_reaches_nothing_else(steps):
    beyond = [
        ("GET", JOBS, None),
        ("GET", f"{JOBS}/tune", None),
        ("GET", f"{JOBS}/tune/logs", None),
        ("GET", f"{JOBS}/tune/steps/download", None),
        ("GET", f"{JOBS}/other/steps/training", None),
        ("PUT", f"{JOBS}/tune/steps/training/tasks/task-other", {}),
        ("PUT", f"{JOBS}/other/steps/training/tasks/{steps.task}", {}),
        ("PATCH", f"{JOBS}/other/status-details", {}),
        ("PATCH", f"{JOBS}/tune/steps/training/status", {"status": "completed"}),
        ("GET", "/apis/jobs/v2/workspaces/other/jobs/tune/steps/training", None),
        ("POST", f"{JOBS}/tune/cancel", None),
        ("POST", JOBS, job_body("new")),
        ("GET", "/apis/secrets/v2/workspaces/default/secrets", None),
        ("GET", "/apis/workspaces/v2/workspaces", None),
        ("GET", "/apis/auth/v2/tokens", None),
        ("POST", "/apis/auth/v2/tokens", {"role": "admin"}),
        ("GET", f"{JOBS}/tune/results/x/download", None),
        ("POST", "/apis/jobs/v2/workspaces/default/pause-all", None),
        ("POST", "/apis/jobs/v2/execution-profiles/cpu/default/check", None),
    ]
    for method, path, body in beyond:
        answer = steps.client.request(method, path, json=body)
        assert answer.status_code == 403, (method, path)
        assert "step" in answer.json()["detail"]


def test_a_step_may_ask_for_the_model_that_its_job_is_to_make_and_for_no_other(steps):
    body = job_body("maker", source="customization", spec={"backend": "rl", "output": {"name": "tuned"}})
    made = steps.admin.post(JOBS, json=body).json()
    bench = steps.bench
    bench.happen("maker", *RUNNING)
    token = bench.parts.authenticator.step_token(
        workspace="default", job="maker", job_id=made["id"], step="download", task="task-1"
    )
    client = bench.client(token)
    models = "/apis/models/v2/workspaces/{}/models/{}"
    assert client.get(models.format("default", "tuned")).status_code == 404
    for workspace, name in (("default", "others"), ("other", "tuned")):
        assert client.get(models.format(workspace, name)).status_code == 403
    # a job that makes no model has none to ask for
    assert steps.client.get(models.format("default", "tuned")).status_code == 403


def test_a_step_s_token_ends_with_its_job(steps):
    steps.bench.happen("tune", StatusEvent.FAILED)
    answer = steps.client.get(f"{JOBS}/tune/steps/training")
    assert (answer.status_code, "has ended" in answer.json()["detail"]) == (401, True)


def test_a_later_job_of_the_same_name_is_another(steps):
    expires_at = steps.bench.clock.now() + STEP_TOKEN_SECONDS * SECOND
    claims = Claims("default", "tune", steps.ids["other"], "training", steps.task, expires_at)
    client = steps.bench.client(sign(steps.bench.parts.authenticator.key, claims))
    assert client.get(f"{JOBS}/tune/steps/training").status_code == 401


def test_without_a_need_for_tokens_steps_get_none(bench):
    given = {"workspace": "default", "job": "a", "job_id": "b", "step": "c", "task": "d"}
    assert bench.parts.authenticator.step_token(**given) is None


def test_the_owner_of_the_data_directory_is_an_admin(guarded):
    claims = Claims.maintenance(guarded.clock.now() + SECOND)
    client = guarded.client(sign(guarded.parts.authenticator.key, claims))
    assert client.get("/apis/auth/v2/tokens").status_code == 200
    guarded.clock.advance(2)
    assert client.get("/apis/auth/v2/tokens").status_code == 401


def test_secrets_are_written_and_never_read(bench):
    client = bench.client()
    secrets = "/apis/secrets/v2/workspaces/default/secrets"
    answer = client.post(secrets, json={"name": "hub", "value": "hunter2", "description": "d"})
    assert answer.status_code == 201
    assert client.post(secrets, json={"name": "hub", "value": "x"}).status_code == 409
    assert client.request("PUT", f"{secrets}/hub", json={"value": "hunter3"}).status_code == 200
    for found in (answer, client.get(secrets), client.get(f"{secrets}/hub")):
        assert "hunter" not in found.text
    path = bench.data_dir / "secrets" / "default" / "hub"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("hunter3", 0o600)
    assert b"hunter" not in (bench.data_dir / "jobs.db").read_bytes()
    assert client.request("DELETE", f"{secrets}/hub").status_code == 204
    assert not path.exists()
    assert client.get(f"{secrets}/hub").status_code == 404
    for name in ("../x", "a/b", "..", "A"):
        assert client.post(secrets, json={"name": name, "value": "x"}).status_code == 422
    assert (
        client.post(
            "/apis/secrets/v2/workspaces/none/secrets", json={"name": "hub", "value": "x"}
        ).status_code
        == 404
    )


def test_workspaces_come_and_go(bench):
    client = bench.client()
    path = "/apis/workspaces/v2/workspaces"
    assert [entry["name"] for entry in client.get(path).json()["data"]] == ["default"]
    assert client.post(path, json={"name": "lab"}).status_code == 201
    assert client.post(path, json={"name": "lab"}).status_code == 409
    assert client.post("/apis/jobs/v2/workspaces/lab/jobs", json=job_body()).status_code == 201
    assert client.get(f"{path}/lab").json()["jobs"] == 1
    assert client.request("DELETE", f"{path}/lab").status_code == 409
    assert client.request("DELETE", f"{path}/default").status_code == 409
    assert client.post(path, json={"name": "empty"}).status_code == 201
    assert client.request("DELETE", f"{path}/empty").status_code == 204
    assert client.get(f"{path}/empty").status_code == 404
    assert client.post("/apis/jobs/v2/workspaces/none/jobs", json=job_body()).status_code == 404


def test_the_owner_is_named_in_what_happened(guarded):
    admin = guarded.client(guarded.token("admin", name="ci"))
    admin.post(JOBS, json=job_body())
    admin.post(f"{JOBS}/tune/cancel")
    story = admin.get(f"{JOBS}/tune/transitions").json()["data"]
    assert {row["who"] for row in story if row["to"] == "cancelled"} == {"ci"}
    assert OWNER.name not in {row["who"] for row in story}


def test_who_may_not_learns_nothing_of_what_would_be_valid(guarded):
    """A body and a path that no route would take are a 403, not a 422, for who may not use it."""
    reader = guarded.client(guarded.token("read", workspace="lab"))
    for operation, method, path, _ in operations(guarded):
        if operation in OPEN or "{workspace}" not in path or operation == "watch_workspace":
            continue
        long = filled(path).replace("none", "n" * 300)
        answer = reader.request(method, long + "?page=x&page_size=-1", json={"no": ["such", "field"]})
        assert answer.status_code == 403, operation


def test_new_commands_of_a_job_need_an_admin_before_they_are_looked_at(guarded):
    operator = guarded.client(guarded.token("operate"))
    answer = operator.request("PATCH", f"{JOBS}/tune", json={"platform_spec": "not even one"})
    assert answer.status_code == 403


def test_a_step_that_may_not_register_a_model_is_told_so_whatever_it_sends(steps):
    models = "/apis/models/v2/workspaces/default/models"
    for body in ({"name": "x"}, {}, {"name": 3}, []):
        assert steps.client.post(models, json=body).status_code == 403
