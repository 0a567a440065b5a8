"""Fine-tuning over HTTP: what is accepted, what is refused before there is a job, and who may do it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, Bench

from nemo_helix_server import app
from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import EngineFinder, NeverPossibleError
from nemo_helix_server.executors.options import UnknownPlace
from nemo_helix_server.jobs.states import StatusEvent

pytestmark = pytest.mark.services

ROOT = "/apis/customization/v2/workspaces/default"
RL = f"{ROOT}/rl/jobs"
FILESETS = "/apis/files/v2/workspaces/default/filesets"
MODELS = "/apis/models/v2/workspaces/default/models"
ENGINES = {name: {"python": sys.executable} for name in ("trl", "unsloth", "automodel")}
RUNNING = (StatusEvent.ACCEPTED, StatusEvent.STARTED)

Made = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Made]:
    made: list[Bench] = []

    def start(**changes: Any) -> Bench:
        made.append(Bench(tmp_path / f"data-{len(made)}", **{"engines": ENGINES, **changes}))
        return made[-1]

    yield start
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make: Made) -> Bench:
    return make()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def spec(tmp_path: Path, model: Path) -> dict[str, Any]:
    data = tmp_path / "pairs.jsonl"
    data.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    return {"model": str(model), "dataset": str(data), "training": {"type": "dpo"}}


def fileset(client: Any, name: str, **files: bytes) -> None:
    assert client.post(FILESETS, json={"name": name}).status_code == 201
    for path, content in files.items():
        url = f"{FILESETS}/{name}/files/{path.replace('_', '.')}"
        assert client.request("PUT", url, content=content).status_code == 201


def test_a_job_is_made_with_everything_resolved(bench: Bench, spec: dict[str, Any]) -> None:
    answer = bench.client().post(RL, json={"spec": spec, "description": "first"})
    assert answer.status_code == 201
    job = answer.json()
    assert job["name"].startswith("rl-")
    assert len(job["name"]) == 15
    assert (job["source"], job["spec"]["backend"], job["spec"]["engine"]) == ("customization", "rl", "trl")
    assert job["spec"]["output"]["name"].startswith("model-pairs-")
    assert job["spec"]["training"]["precision"] in {"fp32", "bf16"}
    deadlines = [step["lifecycle"]["pause_deadline_seconds"] for step in job["platform_spec"]["steps"]]
    assert deadlines == [0, 3600, 0, 0]


def test_only_training_can_be_paused(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    name = client.post(RL, json={"spec": spec}).json()["name"]
    answer = client.post(f"{JOBS}/{name}/pause")
    assert answer.status_code == 409
    assert "model-and-dataset-download" in answer.json()["detail"]
    bench.happen(name, *RUNNING, StatusEvent.FINISHED, *RUNNING)
    assert client.post(f"{JOBS}/{name}/pause").json()["status"] == "pausing"


def test_the_deadline_is_the_setting_when_the_job_is_made(make: Made, spec: dict[str, Any]) -> None:
    bench = make(rl={"training_pause_deadline_seconds": 77})
    job = bench.client().post(RL, json={"spec": spec}).json()
    assert job["platform_spec"]["steps"][1]["lifecycle"]["pause_deadline_seconds"] == 77


def test_a_missing_engine_is_said_before_there_is_a_job(
    make: Made, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    client = make(engines={}).client()
    answer = client.post(RL, json={"spec": spec})
    sentence = "engine trl is not installed on the service's machine: run `nemo engines install trl`"
    assert (answer.status_code, answer.json()["detail"]) == (409, sentence)
    assert client.get(JOBS).json()["data"] == []
    explained = client.get(f"{ROOT}/rl/explain").json()
    assert explained["engine"]["problem"] == sentence
    assert explained["engine"]["installed"] is False
    health = client.get("/apis/customization/v2/healthz").json()
    assert health["status"] == "no engine is installed"


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"model": None}, 422, "model: "),
        (
            {"modle": "x"},
            422,
            "modle: there is no such field (did you mean 'model'?); `nemo customization rl explain` shows",
        ),
        ({"max_steps": 2}, 422, "max_steps: there is no such field (did you mean 'training.max_steps'?)"),
        ({"training": {"type": "ppo"}}, 422, "training: "),
        ({"training": {"type": "dpo", "batch_size": 3, "micro_batch_size": 2}}, 422, "cannot be divided"),
        ({"model": "nothing"}, 422, "model: there is no model or fileset 'nothing' in workspace 'default'"),
        ({"dataset": "lab/none"}, 422, "dataset: there is no fileset 'none' in workspace 'lab'"),
        ({"dataset": "/no/such/file"}, 422, "dataset: there is neither a file nor a folder at /no/such/file"),
        ({"dataset": "s3://x/y"}, 422, "dataset: 's3://x/y' does not name anything"),
        ({"model": "hf://a/b/c"}, 422, "model: 'hf://a/b/c' is not a name at the hub"),
        ({"model": "No Name"}, 422, "model: 'No Name' names no model or fileset"),
        (
            {"eval": {"benchmark": "arithmetik"}},
            422,
            "eval.benchmark: there is no benchmark arithmetik (did you mean 'arithmetic'?)",
        ),
        ({"eval": {"benchmark": "hf://a/b"}}, 422, "eval.benchmark: 'hf://a/b' has no config.yaml of a gym"),
        ({"eval": {"every": 5}}, 422, "eval asks nothing: give eval.benchmark, eval.prompts or both"),
        ({"deployment_config": "x"}, 422, "deployment_config 'x' is not supported, because this service"),
        ({"output": {"name": "X"}}, 422, "output.name: "),
        ({"training": {"type": "dpo", "execution_profile": "slow"}}, 422, "'dpo-training' wants the profile"),
        (
            {"integrations": {"wandb": {"api_key_secret": "key"}}},
            409,
            "integrations.wandb.api_key_secret: there is no secret key in workspace default",
        ),
    ],
)
def test_what_cannot_work_is_one_sentence_and_no_job(
    bench: Bench, spec: dict[str, Any], change: dict[str, Any], status: int, sentence: str
) -> None:
    client = bench.client()
    answer = client.post(RL, json={"spec": {**spec, **change}})
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert client.get(JOBS).json()["data"] == []


def test_the_services_own_folder_is_no_data(bench: Bench, spec: dict[str, Any]) -> None:
    answer = bench.client().post(RL, json={"spec": {**spec, "dataset": str(bench.data_dir / "jobs.db")}})
    assert answer.status_code == 403
    assert "the service's own data are not" in answer.json()["detail"]


def test_filesets_and_models_are_named(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    fileset(client, "weights", config_json=b"{}")
    fileset(client, "pairs", train_jsonl=b"{}\n", validation_jsonl=b"{}\n")
    assert client.post(MODELS, json={"name": "base", "fileset": "weights"}).status_code == 201
    answer = client.post(RL, json={"spec": {**spec, "model": "base", "dataset": "default/pairs"}})
    assert answer.status_code == 201
    download, training = answer.json()["platform_spec"]["steps"][:2]
    assert [item["kind"] for item in download["config"]["items"]] == ["fileset", "fileset"]
    assert training["config"]["save"]["best_metric"] == "val_loss"
    adapter = {"name": "small", "fileset": "weights", "kind": "adapter", "base_model": "default/base"}
    assert client.post(MODELS, json=adapter).status_code == 201
    unsloth = {"model": {"name": "small"}, "dataset": {"path": "default/pairs"}}
    refused = client.post(f"{ROOT}/unsloth/jobs", json={"spec": unsloth})
    assert (refused.status_code, "is an adapter of default/base" in refused.json()["detail"]) == (422, True)
    taken = client.post(RL, json={"spec": {**spec, "output": {"name": "base"}}})
    assert (taken.status_code, "there is a model 'base' already" in taken.json()["detail"]) == (409, True)


def test_dpo_goes_on_with_an_adapter_of_a_model(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    fileset(client, "weights", config_json=b"{}")
    fileset(client, "taught", adapter_config_json=b"{}")
    adapter = {"name": "taught", "fileset": "taught", "kind": "adapter", "base_model": "default/weights"}
    assert client.post(MODELS, json=adapter).status_code == 201
    answer = client.post(RL, json={"spec": {**spec, "model": "taught"}})
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert (job["spec"]["model"], job["spec"]["training"]["finetuning_type"]) == ("taught", "lora")
    assert job["spec"]["training"]["lora"] is None
    download, training, _, register = job["platform_spec"]["steps"]
    folders = {item["folder"]: item["shown"] for item in download["config"]["items"]}
    assert (folders["model"], folders["adapter"]) == ("default/weights", "default/taught")
    assert training["config"]["adapter"] == "adapter"
    assert "lora" not in training["config"]
    assert register["config"]["model"]["base_model"] == "default/weights"
    other = {"type": "dpo", "finetuning_type": "all_weights", "lora": {"rank": 4}}
    refused = client.post(RL, json={"spec": {**spec, "model": "taught", "training": other}})
    said = refused.json()["detail"]
    assert refused.status_code == 422
    assert (
        "training.finetuning_type 'all_weights' is not supported, because default/taught is an adapter"
        in said
    )
    assert "training.lora is not supported" in said


NAMES_CONFIG = b"format: native-v1\nconfig_paths: [config.yaml]\n"
GROWING = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (number, number, b", ".join([b"*a%d" % (number - 1)] * 9))
    for number in range(1, 12)
)
BENCHMARK = b"""
benchmark:
  name: arithmetic
  prompt: {user: "{question}"}
  verifier: {type: match, mode: numeric}
"""


def test_an_environment_gives_the_rewards(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    fileset(
        client,
        "arithmetic",
        manifest_yaml=b"format: native-v1\nconfig_paths: [config.yaml]\n",
        config_yaml=BENCHMARK,
    )
    grpo = {**spec, "environment": "arithmetic", "training": {"type": "grpo"}}
    job = client.post(RL, json={"spec": grpo}).json()
    steps = job["platform_spec"]["steps"]
    assert [step["name"] for step in steps[:2]] == ["model-dataset-environment-download", "grpo-training"]
    assert steps[1]["config"]["rewards"]["benchmark"]["verifier"] == {"type": "match", "mode": "numeric"}


@pytest.mark.parametrize(
    ("manifest", "config", "sentence"),
    [
        (
            b"format: wheels-v1\n",
            BENCHMARK,
            "has the format wheels-v1, and environments of Python wheels are not",
        ),
        (b"format: adapter-wheels-v1\n", BENCHMARK, "has the format adapter-wheels-v1"),
        (b"format: other\n", BENCHMARK, "has the format 'other'; it must be native-v1"),
        (b"format: native-v1\n", BENCHMARK, "must name files of the folder in config_paths"),
        (b"format: native-v1\nconfig_paths: [none.yaml]\n", BENCHMARK, "has no file none.yaml"),
        (b"format: native-v1\nconfig_paths: [../x]\n", BENCHMARK, "is not a path inside a fileset"),
        (b"format: native-v1\nconfig_paths: [config.yaml]\n", b"a: 1\n", "describes no gym benchmark"),
        (b"format: native-v1\nconfig_paths: [config.yaml]\n", b"a: [\n", "config.yaml, line 2 is not YAML"),
        (b"[1]\n", BENCHMARK, "must hold keys with values"),
        (NAMES_CONFIG, b"[" * 100_000, "config.yaml is too deep to be read"),
        (NAMES_CONFIG, b"benchmark: &b\n  verifier: {me: *b}\n", "has more than 20000 values"),
        (NAMES_CONFIG, GROWING, "has more than 20000 values once its aliases are written out"),
        (NAMES_CONFIG, BENCHMARK.replace(b"numeric", b".nan"), "holds what JSON cannot"),
        (NAMES_CONFIG, BENCHMARK.replace(b"numeric", b'"\\ud800"'), "holds what JSON cannot"),
    ],
)
def test_an_environment_that_is_none_is_said(
    bench: Bench, spec: dict[str, Any], manifest: bytes, config: bytes, sentence: str
) -> None:
    client = bench.client()
    fileset(client, "world", manifest_yaml=manifest, config_yaml=config)
    answer = client.post(RL, json={"spec": {**spec, "environment": "world", "training": {"type": "grpo"}}})
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_an_environment_of_pipes_and_devices_is_not_waited_for(
    bench: Bench, spec: dict[str, Any], tmp_path: Path
) -> None:
    world = tmp_path / "world"
    world.mkdir()
    os.mkfifo(world / "manifest.yaml")
    grpo = {**spec, "environment": str(world), "training": {"type": "grpo"}}
    answer = bench.client().post(RL, json={"spec": grpo})
    assert (answer.status_code, "has no manifest.yaml" in answer.json()["detail"]) == (422, True)
    for tree in ("/dev/zero", str(world / "manifest.yaml")):
        answer = bench.client().post(RL, json={"spec": {**spec, "dataset": tree}})
        assert (answer.status_code, "neither a file nor a folder" in answer.json()["detail"]) == (422, True)


def test_of_two_jobs_that_would_make_one_model_the_second_is_refused(
    bench: Bench, spec: dict[str, Any]
) -> None:
    client, wanted = bench.client(), {**spec, "output": {"name": "sums"}}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post(RL, json={"spec": wanted}), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    [first] = [answer.json()["name"] for answer in answers if answer.status_code == 201]
    [*refused] = [answer.json()["detail"] for answer in answers if answer.status_code == 409]
    assert all(f"the job '{first}' will make a model 'sums' in workspace default" in said for said in refused)
    assert client.post(f"{JOBS}/{first}/cancel").status_code == 200
    assert client.post(RL, json={"spec": wanted}).status_code == 201


def test_a_repeated_request_gives_the_same_job(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    first, second = (
        client.post(RL, json={"spec": spec}, headers={"Idempotency-Key": "one"}) for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["name"] == second.json()["name"]


def test_a_backend_shows_its_own_jobs_alone(bench: Bench, spec: dict[str, Any]) -> None:
    client = bench.client()
    name = client.post(RL, json={"spec": spec, "name": "mine"}).json()["name"]
    sft = {"model": spec["model"], "dataset": {"training": spec["dataset"]}}
    other = client.post(f"{ROOT}/automodel/jobs", json={"spec": sft}).json()["name"]
    assert [job["name"] for job in client.get(RL).json()["data"]] == [name]
    assert [job["name"] for job in client.get(f"{RL}?filter[status]=error").json()["data"]] == []
    everything = client.get(f"{JOBS}?filter[source]=customization").json()["data"]
    assert {job["name"] for job in everything} == {name, other}
    for path in ("", "/status", "/logs", "/results"):
        assert client.get(f"{RL}/{name}{path}").status_code == 200, path
        assert client.get(f"{RL}/{other}{path}").status_code == 404, path
    assert client.post(f"{RL}/{other}/cancel").status_code == 404
    assert client.post(f"{RL}/{name}/cancel").json()["status"] == "cancelled"
    assert client.request("DELETE", f"{RL}/{name}").status_code == 204
    assert client.post(f"{ROOT}/other/jobs", json={"spec": spec}).status_code == 422


def test_explaining_gives_schemas_and_what_is_refused(bench: Bench) -> None:
    found = bench.client().get(f"{ROOT}/automodel/explain").json()
    assert found["engine"]["installed"] is True
    assert "dataset" in found["input"]["properties"]
    assert {"backend", "engine", "device", "output"} <= set(found["output"]["required"])
    assert "subprocess" in found["options"]["properties"]
    assert found["refused"]["training.mtp"].startswith("multi-token prediction")
    assert "gpu" in found["profiles"]


def test_saved_specs(bench: Bench) -> None:
    client = bench.client()
    url = f"{ROOT}/job-templates"
    body = {"name": "small", "backend": "rl", "config": {"anything": 1}}
    assert client.post(url, json=body).status_code == 201
    assert client.post(url, json=body).status_code == 409
    changed = client.request("PATCH", f"{url}/small", json={"description": "d"})
    assert (changed.json()["description"], changed.json()["config"]) == ("d", {"anything": 1})
    page = client.get(url).json()
    assert ([one["name"] for one in page["data"]], page["pagination"]["page_size"]) == (["small"], 20)
    assert client.get(f"{url}?page_size=101").status_code == 422
    assert client.request("DELETE", f"{url}/small").status_code == 204
    assert client.get(f"{url}/small").status_code == 404
    assert client.request("DELETE", f"{url}/small").status_code == 404


class TestWithTokens:
    """With auth on: operate is enough for fine-tuning, and nothing of it is a way to run commands."""

    @pytest.fixture
    def guarded(self, make: Made, tmp_path: Path) -> Bench:
        return make(tokens_required=True, customization={"local_paths": [str(tmp_path)]})

    def test_operate_submits_what_raw_creation_refuses(self, guarded: Bench, spec: dict[str, Any]) -> None:
        operator = guarded.client(guarded.token("operate"))
        job = operator.post(RL, json={"spec": spec})
        assert job.status_code == 201
        raw = {key: job.json()[key] for key in ("source", "spec", "platform_spec")}
        assert operator.post(JOBS, json=raw).status_code == 403
        assert guarded.client(guarded.token("read")).post(RL, json={"spec": spec}).status_code == 403

    @pytest.mark.parametrize(
        ("backend", "change", "sentence"),
        [
            (
                "rl",
                {"training": {"type": "dpo", "env_vars": {"LD_PRELOAD": "/x"}}},
                "LD_PRELOAD could load code",
            ),
            (
                "rl",
                {"training": {"type": "dpo", "env_vars": {"PYTHONPATH": "/x"}}},
                "PYTHONPATH could load code",
            ),
            (
                "unsloth",
                {"model": {"trust_remote_code": True}},
                "model.trust_remote_code true is not supported",
            ),
        ],
    )
    def test_nothing_of_a_spec_becomes_a_command(
        self, guarded: Bench, spec: dict[str, Any], backend: str, change: dict[str, Any], sentence: str
    ) -> None:
        operator = guarded.client(guarded.token("operate"))
        if backend == "unsloth":
            spec = {"model": {"name": spec["model"], **change["model"]}, "dataset": {"path": spec["dataset"]}}
        else:
            spec = {**spec, **change}
        answer = operator.post(f"{ROOT}/{backend}/jobs", json={"spec": spec})
        assert answer.status_code == 422
        assert sentence in answer.json()["detail"]
        extra = operator.post(RL, json={"spec": spec, "platform_spec": {"steps": []}})
        assert extra.status_code == 422

    def test_paths_are_open_only_where_an_operator_says_so(
        self, guarded: Bench, spec: dict[str, Any]
    ) -> None:
        operator = guarded.client(guarded.token("operate"))
        answer = operator.post(RL, json={"spec": {**spec, "dataset": "/etc/hostname"}})
        assert answer.status_code == 403
        assert "are not open to customization jobs here" in answer.json()["detail"]

    def test_a_token_of_one_workspace_names_nothing_of_another(
        self, guarded: Bench, spec: dict[str, Any]
    ) -> None:
        admin = guarded.client(guarded.token("admin"))
        admin.post("/apis/workspaces/v2/workspaces", json={"name": "lab"})
        operator = guarded.client(guarded.token("operate", workspace="default"))
        answer = operator.post(RL, json={"spec": {**spec, "model": "lab/secret-model"}})
        assert (answer.status_code, "of another workspace" in answer.json()["detail"]) == (403, True)

    def test_the_last_step_registers_its_jobs_model_and_nothing_else(
        self, guarded: Bench, spec: dict[str, Any]
    ) -> None:
        admin = guarded.client(guarded.token("admin"))
        job = admin.post(RL, json={"spec": spec}).json()
        fileset(admin, job["spec"]["output"]["fileset"], a_txt=b"1")

        def client(step: str) -> Any:
            token = guarded.parts.authenticator.step_token(
                workspace="default", job=job["name"], job_id=job["id"], step=step, task="task-1"
            )
            return guarded.client(token)

        config = job["platform_spec"]["steps"][3]["config"]["model"]
        body = {key: value for key, value in config.items() if value is not None}
        assert client("dpo-training").post(MODELS, json=body).status_code == 403
        assert client("model-entity-creation").post(MODELS, json={**body, "name": "other"}).status_code == 403
        assert client("model-entity-creation").post(MODELS, json=body).status_code == 201
        assert client("model-entity-creation").post(MODELS, json=body).status_code == 200
        assert client("model-entity-creation").post(FILESETS, json={"name": "x1"}).status_code == 403
        results = admin.get(f"/apis/jobs/v2/workspaces/default/jobs/{job['name']}/results").json()["data"]
        assert [(one["name"], one["artifact_url"]) for one in results] == [
            ("model", f"fileset://default/{body['fileset']}")
        ]


def test_a_workspace_with_models_stays(bench: Bench) -> None:
    client = bench.client()
    workspaces = "/apis/workspaces/v2/workspaces"
    client.post(workspaces, json={"name": "lab"})
    client.post(FILESETS.replace("default", "lab"), json={"name": "weights"})
    models = MODELS.replace("default", "lab")
    assert client.post(models, json={"name": "base", "fileset": "weights"}).status_code == 201
    refused = client.request("DELETE", f"{workspaces}/lab")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "workspace lab has 1 model; delete first what it has",
    )
    assert client.request("DELETE", f"{models}/base").status_code == 204
    assert client.request("DELETE", f"{workspaces}/lab").status_code == 204


def test_files_come_and_go(bench: Bench) -> None:
    client = bench.client()
    fileset(client, "sums", train_jsonl=b"one\n")
    url = f"{FILESETS}/sums/files"
    content = json.dumps(list(range(200_000))).encode()
    answer = client.request("PUT", f"{url}/deep/big.json", content=content)
    assert answer.json()["size"] == len(content)
    assert client.get(f"{url}/deep/big.json").content == content
    wrong = client.request(
        "PUT", f"{url}/deep/big.json", content=b"x", headers={"X-Content-SHA256": "0" * 64}
    )
    assert (wrong.status_code, "did not arrive as it was sent" in wrong.json()["detail"]) == (422, True)
    taken = client.request("PUT", f"{url}/deep/big.json", content=b"x", headers={"If-None-Match": "*"})
    assert taken.status_code == 409
    assert client.request("PUT", f"{url}/deep", content=b"x").status_code == 409
    assert client.get(f"{url}/deep/big.json").content == content
    assert client.request("PUT", f"{url}/..%2f..%2fx", content=b"x").status_code in {404, 422}
    assert [one["path"] for one in client.get(url).json()["data"]] == ["deep/big.json", "train.jsonl"]
    assert client.get(f"{FILESETS}/sums").json()["files"] == 2
    assert client.request("DELETE", f"{url}/deep/big.json").status_code == 204
    assert client.get(f"{url}/deep/big.json").status_code == 404
    assert client.post(FILESETS, json={"name": "sums"}).status_code == 409
    assert client.request("DELETE", f"{FILESETS}/sums").status_code == 204
    assert client.get(f"{FILESETS}/sums").status_code == 404
    assert client.post("/apis/files/v2/workspaces/none/filesets", json={"name": "x1"}).status_code == 404


NAMES = [
    ({"wandb": {"project": "team/summaries?"}}, "integrations.wandb.project"),
    ({"wandb": {"name": "n" * 129}}, "integrations.wandb.name"),
    ({"mlflow": {"tags": {"data@v1": "x"}}}, "integrations.mlflow.tags"),
    ({"mlflow": {"tracking_uri": "file:///etc"}}, "integrations.mlflow.tracking_uri"),
]


@pytest.mark.parametrize(("integrations", "where"), NAMES)
def test_what_no_tracker_takes_is_refused_before_there_is_a_job(
    bench: Bench, spec: dict[str, Any], integrations: dict[str, Any], where: str
) -> None:
    client = bench.client()
    answer = client.post(RL, json={"spec": {**spec, "integrations": integrations}})
    assert answer.status_code == 422
    assert where in str(answer.json().get("message") or answer.json()["detail"])
    assert client.get(JOBS).json()["data"] == []


def test_where_tokens_are_needed_a_tracker_is_not_this_machine(
    make: Made, spec: dict[str, Any], tmp_path: Path
) -> None:
    allowed = {"customization": {"local_paths": [str(tmp_path)]}}
    closed = make(tokens_required=True, **allowed)
    for tracker, field in (("mlflow", "tracking_uri"), ("wandb", "base_url")):
        body = {"spec": {**spec, "integrations": {tracker: {field: "http://0x7f.1:5000"}}}}
        answer = closed.client(closed.token("operate")).post(RL, json=body)
        assert answer.status_code == 422
        assert f"integrations.{tracker}.{field} leads to 127.0.0.1" in answer.json()["detail"]
    named = make(tokens_required=True, trackers={"allowed_hosts": ["0x7f.1"]}, **allowed)
    assert named.client(named.token("operate")).post(RL, json=body).status_code == 201
    assert make().client().post(RL, json=body).status_code == 201


class TestAProfileThatLeadsElsewhere:
    """What trains there, and with which engine, is asked of the place and not of the service's machine."""

    class Place(UnknownPlace):
        found: EngineFacts | None = EngineFacts("trl", "/there/python", {})

        def machine(self) -> TrainingMachine | None:
            return TrainingMachine("cuda", 2)

        def engine(self, name: str, here: EngineFinder) -> EngineFacts:
            if self.found is None:
                raise NeverPossibleError(f"there is no engine {name} on the cluster; install it there")
            return self.found

    @pytest.fixture
    def there(self, monkeypatch: pytest.MonkeyPatch) -> UnknownPlace:
        place = self.Place()
        known = {"cluster": place}
        monkeypatch.setattr(app, "_place_of", lambda _profiles, _executors, profile: known.get(profile))
        return place

    @pytest.fixture
    def client(self, make: Made, there: UnknownPlace, tmp_path: Path) -> Any:
        leases = {"folder": tmp_path / "leases", "devices": ["0", "1"]}
        profiles = [{"provider": "gpu", "profile": "cluster"}]
        return make(engines={}, jobs={"leases": leases, "executors": profiles}).client()

    def test_a_job_is_compiled_for_it(self, client: Any, spec: dict[str, Any]) -> None:
        spec["training"] |= {"execution_profile": "cluster", "parallelism": {"num_gpus_per_node": 2}}
        answer = client.post(RL, json={"spec": spec})
        assert answer.status_code == 201, answer.text
        training = answer.json()["platform_spec"]["steps"][1]["executor"]
        assert (training["provider"], training["profile"]) == ("gpu", "cluster")
        assert (training["resources"]["num_gpus"], training["container"]["command"][0]) == (
            2,
            "nemo-engine:trl",
        )
        assert answer.json()["spec"]["device"] == "cuda"

    def test_an_engine_that_it_has_not_is_said_before_there_is_a_job(
        self, client: Any, there: Place, spec: dict[str, Any]
    ) -> None:
        there.found = None
        answer = client.post(RL, json={"spec": spec, "profile": "cluster"})
        assert answer.status_code == 409
        assert answer.json()["detail"] == "there is no engine trl on the cluster; install it there"


def test_everything_that_is_wrong_with_a_spec_is_said_at_once(make: Made, spec: dict[str, Any]) -> None:
    client = make().client()
    training = {**spec["training"], "batch_size": 3, "micro_batch_size": 2, "learning_rat": 1}
    answer = client.post(RL, json={"spec": {"dataset": 7, "training": training}})
    assert answer.status_code == 422
    unknown = "  training.learning_rat: there is no such field (did you mean 'learning_rate'?); "
    assert answer.json()["detail"].splitlines() == [
        "4 problems:",
        "  model: it is missing, and required",
        "  dataset: text is needed; put a number or true and false in quotes",
        f"{unknown}`nemo customization rl explain` shows them",
        "  training: training.batch_size 3 cannot be divided by micro_batch_size x data parallel size = 2",
    ]


def test_what_a_spec_names_and_what_is_not_supported_is_said_at_once(
    make: Made, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    client = make(engines={}).client()
    training = {"type": "dpo", "optimizer_type": "x", "keep_top_k": 3, "val_check_interval": 7}
    wrong = {"model": "nothing", "dataset": "/no/such", "training": training, "deployment_config": "x"}
    answer = client.post(RL, json={"spec": wrong})
    assert answer.status_code == 409  # of the engine, which is looked for first
    said = answer.json()["detail"].splitlines()
    assert [line.split()[0] for line in said] == [
        "6",
        "engine",
        "model:",
        "dataset:",
        "training.optimizer_type",
        "training.val_check_interval",
        "deployment_config",
    ]
    assert client.get(JOBS).json()["data"] == []


def test_what_only_a_whole_job_shows_is_said_at_once(bench: Bench, spec: dict[str, Any]) -> None:
    trackers = {"wandb": {"api_key_secret": "key"}, "mlflow": {"tracking_uri": "ftp://x"}}
    training = {"type": "dpo", "execution_profile": "slow"}
    answer = bench.client().post(RL, json={"spec": {**spec, "training": training, "integrations": trackers}})
    said = answer.json()["detail"].splitlines()
    assert said[0] == "3 problems:"
    for line, word in zip(
        said[1:], ("'dpo-training'", "there is no secret key", "tracking_uri"), strict=True
    ):
        assert word in line
