"""Compiling: input spec and facts in, resolved spec and four steps out. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from nemo_helix_server import executor_kinds
from nemo_helix_server.customizer import names, support
from nemo_helix_server.customizer import paths as places
from nemo_helix_server.customizer.backends import row_policies, shared
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.facts import (
    PYTHON_PROGRAM,
    CompileFacts,
    InputSource,
    TrainingMachine,
    engine_program,
)
from nemo_helix_server.errors import InvalidError

_STEPS = "nemo_helix_server.customizer.steps"
_LIGHT = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "16Gi"}}
_STORAGE = {"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "storage"}
_SHARED_MEMORY = {"lora": "8Gi", "full": "64Gi"}

UPLOAD, REGISTER = "model-upload", "model-entity-creation"


class Compiled(NamedTuple):
    """What a job is made of."""

    spec: dict[str, Any]
    """The output spec: everything resolved."""
    platform_spec: dict[str, Any]
    engine_spec: dict[str, Any]
    output: names.OutputNames


def compile_job(
    backend: Backend, given: BaseModel, facts: CompileFacts, profile: str | None = None
) -> Compiled:
    """Compile a job; raises `InvalidError` naming the fields that are not supported."""
    spec = resolved(backend, given, facts)
    output = names.output_names(
        (spec.get("output") or {}).get("name"), facts.model.shown, facts.dataset.shown, facts.digits
    )
    spec["output"] = {**(spec.get("output") or {}), "name": output.name, "fileset": output.fileset}
    _name_runs(spec, output.name, facts.job_name)
    engine_spec = dict(backend.engine_spec(spec, facts))
    if not _chose_precision(backend, given):
        engine_spec["precision"] = None  # the engine takes what the device has on which it starts
    steps = list(_steps(backend, spec, engine_spec, output, facts, profile))
    return Compiled(spec, {"steps": steps}, engine_spec, output)


def _chose_precision(backend: Backend, given: BaseModel) -> bool:
    """Whether the input itself names a precision: only then it is the same on every device."""
    spec = given.model_dump(mode="json")
    paths = {path for table in backend.tables for path, to in table.supported.items() if to == "precision"}
    return any(
        places.is_there(spec, path) and places.look(spec, path) not in {None, "auto"} for path in paths
    )


def resolved(backend: Backend, given: BaseModel, facts: CompileFacts) -> dict[str, Any]:
    """The spec with every default as it will be; `support.SpecRefusedError` says what cannot."""
    holding: list[support.Rule] = []
    problems = []
    try:
        holding.extend(backend.rules(given, facts))
    except InvalidError as error:
        problems.append(error.detail)
    problems += support.refusals(given, holding)
    if problems:
        raise support.SpecRefusedError(problems)
    spec = given.model_dump(mode="json")
    support.resolve(spec, holding)
    spec = {
        "backend": backend.name,
        "engine": facts.engine.name,
        "device": facts.machine.device,
        **spec,
        "name": facts.job_name,
    }
    backend.resolve(spec, facts)
    return spec


def refused(backend: Backend, machine: TrainingMachine) -> dict[str, str]:
    """Fields of which not every value is supported on a machine, with the reason; for people to read."""
    holds = machine.situations()
    tables = (rule for table in backend.tables for rule in table.rules)
    return {rule.path: rule.reason for rule in tables if holds.get(rule.on, False)}


def _name_runs(spec: dict[str, Any], output: str, job: str) -> None:
    """Trackers' projects are called after the output, their runs after the job."""
    trackers = spec.get("integrations") or {}
    if trackers.get("wandb"):
        trackers["wandb"]["project"] = trackers["wandb"]["project"] or output
        trackers["wandb"]["name"] = trackers["wandb"]["name"] or job
    if trackers.get("mlflow"):
        trackers["mlflow"]["experiment_name"] = trackers["mlflow"]["experiment_name"] or output
        trackers["mlflow"]["name"] = trackers["mlflow"]["name"] or job


def _steps(
    backend: Backend,
    spec: Mapping[str, Any],
    engine_spec: Mapping[str, Any],
    output: names.OutputNames,
    facts: CompileFacts,
    profile: str | None,
) -> Iterator[dict[str, Any]]:
    grpo = engine_spec.get("method") == "grpo"
    download = "model-dataset-environment-download" if grpo else "model-and-dataset-download"
    adapter = engine_spec.get("finetuning") == "lora" and engine_spec.get("output_method") != "merged"
    end = {
        "workspace": facts.workspace,
        "name": output.name,
        "job": facts.job_name,
        "root": facts.files_root,
        "whole": not adapter,
        "base": shared.MODEL,
    }
    yield _light(download, "download", {**_download(spec, facts), "end": end}, _hub_token(facts))
    yield _training(backend, spec, engine_spec, facts, profile)
    place = {"root": facts.files_root, "workspace": facts.workspace, "fileset": output.fileset}
    base = {"base_model": facts.model.base or facts.model.shown}
    description = spec["output"].get("description")
    yield _light(UPLOAD, "upload", {"source": shared.OUTPUT, "description": description, **place, **base})
    entity = {
        "name": output.name,
        "fileset": output.fileset,
        "kind": "adapter" if adapter else "full",
        "description": description,
        "created_by_job": facts.job_name,
        **base,
    }
    yield _light(REGISTER, "register", {"workspace": facts.workspace, "model": entity})


def _light(
    name: str,
    program: str,
    config: dict[str, Any],
    extra: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """A step without a GPU, by an interpreter of the service."""
    return {
        "name": name,
        "environment": [dict(_STORAGE), *extra],
        "executor": {
            "provider": "cpu",
            "profile": "default",
            "container": {"command": [PYTHON_PROGRAM, "-P", "-m", f"{_STEPS}.{program}"]},
            "resources": copy.deepcopy(_LIGHT),
        },
        "config": config,
        "lifecycle": {"pause_deadline_seconds": 0},
    }


def _download(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
    wanted: list[tuple[str, str, InputSource | None]] = [
        (shared.MODEL, "model", facts.model),
        (shared.ADAPTER, "model", facts.adapter),
        (shared.DATASET, "dataset", facts.dataset),
        (shared.VALIDATION, "dataset", facts.validation),
        *((row_policies.folder(number), "dataset", one) for number, one in enumerate(facts.beside)),
        (shared.ENVIRONMENT, "environment", facts.environment),
    ]
    own = facts.evaluation is not None and facts.evaluation.kind != "benchmark"
    if own:
        wanted.append((shared.BENCHMARK, "benchmark", facts.evaluation))
    share = shared.split_share(spec)
    return {
        "items": [
            {"folder": folder, "what": what, **source.to_json()}
            for folder, what, source in wanted
            if source is not None
        ],
        "split": {"share": share, "seed": spec["schedule"]["seed"], "into": shared.VALIDATION}
        if share
        else None,
        "hub_python": engine_program(facts.engine.name),
        "evaluation": None
        if facts.evaluation is None
        else {
            "benchmark": None if own else facts.evaluation.place,
            "folder": shared.BENCHMARK if own else None,
            "limit": spec["eval"]["limit"],
            "into": shared.EVALUATION,
        },
    }


def _hub_token(facts: CompileFacts) -> tuple[dict[str, Any], ...]:
    secret = (facts.options.get("hub") or {}).get("token_secret")
    return ({"name": "HF_TOKEN", "from_secret": {"name": secret}},) if secret else ()


def _training(
    backend: Backend,
    spec: Mapping[str, Any],
    engine_spec: Mapping[str, Any],
    facts: CompileFacts,
    profile: str | None,
) -> dict[str, Any]:
    given = (spec.get("training") or {}).get("execution_profile")
    variables = (spec.get("training") or {}).get("env_vars") or {}
    return {
        "name": backend.training_step(engine_spec),
        "environment": [
            dict(_STORAGE),
            *({"name": key, "value": value} for key, value in sorted(variables.items())),
        ],
        "executor": _executor(backend, profile or given, engine_spec, facts),
        "config": dict(engine_spec),
        "lifecycle": {
            "pause_deadline_seconds": facts.pause_deadline_seconds,
            "staleness_timeout_seconds": facts.staleness_timeout_seconds,
        },
    }


def _executor(
    backend: Backend, profile: str | None, engine_spec: Mapping[str, Any], facts: CompileFacts
) -> dict[str, Any]:
    limits = {key: value for key, value in (facts.options.get(executor_kinds.DEFAULT) or {}).items() if value}
    resources: dict[str, Any] = {"limits": limits}
    on_gpu = facts.machine.device == "cuda"
    devices = engine_spec.get("devices") or {}
    nodes = devices.get("nodes", 1)
    provider = _provider(on_gpu=on_gpu, nodes=nodes, there=facts.providers)
    if provider != "cpu":
        resources["num_gpus"] = devices.get("count", 1) if on_gpu else 0
    if on_gpu:
        resources["shm_size"] = _SHARED_MEMORY[engine_spec.get("finetuning", "full")]
    if provider == "gpu_distributed":
        resources["num_nodes"] = nodes
    return {
        "provider": provider,
        "profile": profile or ("gpu" if on_gpu else "default"),
        "container": {"command": [engine_program(facts.engine.name), "-P", "-m", backend.trainer]},
        "resources": resources,
    }


def _provider(*, on_gpu: bool, nodes: int, there: tuple[str, ...]) -> str:
    """The provider of a training step: the least that it needs among those that have the profile."""
    wanted = ("gpu_distributed",) if nodes > 1 else ("gpu", "gpu_distributed")
    if not on_gpu and nodes == 1:
        wanted = ("cpu", *wanted)
    return next((one for one in wanted if one in there), wanted[0])
