import json
import re

from nemo_gym.orchestration.plan import telemetry

CONFIG = telemetry.collector_config(
    endpoint="https://telemetry.example/$tenant",
    token_env="MY_TOKEN",
    service_name="evals",
    component="gym-vllm",
    services=["policy", "", "judge"],
    attributes={"run_id": "gym-job-1", "model": "a$b"},
    gpu_metrics_port=9400,
    node_metrics_port=None,
    scrape_interval_seconds=15,
)


def test_the_token_is_a_reference_and_stands_in_one_place():
    text = telemetry.collector_text(CONFIG).decode()
    assert text.count("MY_TOKEN") == 1
    assert CONFIG["exporters"]["otlphttp"]["headers"] == {"Authorization": "Bearer ${env:MY_TOKEN}"}


def test_every_service_and_exporter_is_scraped_where_the_job_says():
    jobs = CONFIG["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs} == {
        "policy": ["127.0.0.1:${env:NEMO_GYM_SERVICE_0_PORT}"],
        "judge": ["127.0.0.1:${env:NEMO_GYM_SERVICE_2_PORT}"],
        "gpu": ["127.0.0.1:9400"],
    }
    assert {job["scrape_interval"] for job in jobs} == {"15s"}


def test_a_dollar_sign_of_the_users_is_not_expanded():
    assert CONFIG["exporters"]["otlphttp"]["endpoint"] == "https://telemetry.example/$$tenant"
    marks = {item["key"]: item["value"] for item in CONFIG["processors"]["resource"]["attributes"]}
    assert marks == {
        "service.name": "evals",
        "component": "gym-vllm",
        "run_id": "gym-job-1",
        "model": "a$$b",
        "job_id": "${env:NEMO_GYM_JOB_ID}",
    }


def test_pipelines_name_only_what_is_defined():
    for pipeline in CONFIG["service"]["pipelines"].values():
        assert set(pipeline["receivers"]) <= set(CONFIG["receivers"])
        assert set(pipeline["processors"]) <= set(CONFIG["processors"])
        assert set(pipeline["exporters"]) <= set(CONFIG["exporters"])


def test_without_anything_to_scrape_there_is_no_scraper():
    config = telemetry.collector_config(
        endpoint="x",
        token_env="T",
        service_name="s",
        component="c",
        services=[],
        attributes={},
        gpu_metrics_port=None,
        node_metrics_port=None,
        scrape_interval_seconds=15,
    )
    assert list(config["receivers"]) == ["otlp"]
    assert config["service"]["pipelines"]["metrics"]["receivers"] == ["otlp"]


def test_the_job_script_sets_every_variable_that_the_file_refers_to():
    from pathlib import Path

    import nemo_gym

    shell = Path(nemo_gym.__file__).parent / "shell"
    text = "".join(path.read_text() for path in shell.glob("*.sh"))
    names = set(re.findall(r"\$\{env:(\w+)\}", json.dumps(CONFIG))) - {"MY_TOKEN", "NEMO_GYM_JOB_ID"}
    for name in names:
        assert re.sub(r"_\d+_", "_${index}_", name) in text
