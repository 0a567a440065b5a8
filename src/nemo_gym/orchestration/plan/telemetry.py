"""Configuration of the telemetry collector that may run beside the services (spec A.9), as a pure function.

The file is written when a submission is staged and holds no secret: the ingest token, and everything that is
known only when the job runs (ports, the job's id), are ``${env:…}`` references, which the collector resolves
from its own environment. The token gets there by inheritance alone, so it is in no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

GRPC_PORT = "NEMO_GYM_OTEL_GRPC_PORT"
HTTP_PORT = "NEMO_GYM_OTEL_HTTP_PORT"
HEALTH_PORT = "NEMO_GYM_OTEL_HEALTH_PORT"
OTEL_DIR = "NEMO_GYM_OTEL_DIR"
JOB_ID = "NEMO_GYM_JOB_ID"


def service_port_variable(index: int) -> str:
    """The variable in which the job gives the collector the port of its ``index``-th service."""
    return f"NEMO_GYM_SERVICE_{index}_PORT"


def collector_config(
    *,
    endpoint: str,
    token_env: str,
    service_name: str,
    component: str,
    services: Sequence[str],
    attributes: Mapping[str, str],
    gpu_metrics_port: int | None,
    node_metrics_port: int | None,
    scrape_interval_seconds: int,
) -> dict[str, Any]:
    """The collector's whole configuration.

    ``services`` are the servers' names in the job's order, empty for one that is not
    scraped, on another node or without an address of its own;
    ``attributes`` (``run_id``, ``benchmark``,
    ``cluster``, ``model``, ``user``) mark every signal. The job's own id is added when the job runs.
    """
    jobs = [_scrape(name, _env(service_port_variable(index))) for index, name in enumerate(services) if name]
    nodes = {"gpu": gpu_metrics_port, "node": node_metrics_port}
    jobs += [_scrape(name, str(port)) for name, port in nodes.items() if port is not None]
    for job in jobs:
        job["scrape_interval"] = f"{scrape_interval_seconds}s"
    marks = {"service.name": service_name, "component": component, **attributes}
    signals = {"metrics": ["otlp", *(["prometheus"] if jobs else [])], "traces": ["otlp"], "logs": ["otlp"]}
    return {
        "receivers": _receivers(jobs),
        "processors": _processors(marks),
        "exporters": _exporters(endpoint, token_env, tuple(signals)),
        "extensions": {"health_check": {"endpoint": f"127.0.0.1:{_env(HEALTH_PORT)}"}},
        "service": {
            "extensions": ["health_check"],
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {name: _pipeline(name, receivers) for name, receivers in signals.items()},
        },
    }


def collector_text(config: Mapping[str, Any]) -> bytes:
    """The configuration as a file: JSON, which every YAML reader reads."""
    return (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()


def _env(variable: str) -> str:
    return "${env:" + variable + "}"


def _literal(text: str) -> str:
    """A text that the collector must not expand: it reads ``$$`` as a dollar sign."""
    return text.replace("$", "$$")


def _scrape(name: str, port: str) -> dict[str, Any]:
    return {"job_name": _literal(name), "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}


def _receivers(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    protocols = {"grpc": GRPC_PORT, "http": HTTP_PORT}
    receivers: dict[str, Any] = {
        "otlp": {
            "protocols": {name: {"endpoint": f"127.0.0.1:{_env(port)}"} for name, port in protocols.items()}
        }
    }
    if jobs:
        receivers["prometheus"] = {"config": {"scrape_configs": jobs}}
    return receivers


def _processors(marks: Mapping[str, str]) -> dict[str, Any]:
    values = {**{key: _literal(value) for key, value in marks.items()}, "job_id": _env(JOB_ID)}
    actions = [{"key": key, "value": value, "action": "upsert"} for key, value in values.items()]
    # Names of vLLM's metrics hold colons, which most back ends refuse.
    rename = {"context": "metric", "statements": ['replace_pattern(name, ":", "_")']}
    return {
        "resource": {"attributes": actions},
        "transform/names": {"metric_statements": [rename]},
        "batch": {},
    }


def _exporters(endpoint: str, token_env: str, signals: Sequence[str]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {_env(token_env)}"}
    files = {f"file/{name}": {"path": f"{_env(OTEL_DIR)}/{name}.jsonl"} for name in signals}
    return {"otlphttp": {"endpoint": _literal(endpoint), "headers": headers}, **files}


def _pipeline(name: str, receivers: list[str]) -> dict[str, Any]:
    rename = ["transform/names"] if name == "metrics" else []
    return {
        "receivers": receivers,
        "processors": ["resource", *rename, "batch"],
        "exporters": ["otlphttp", f"file/{name}"],
    }
