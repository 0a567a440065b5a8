"""How a step is started: its command, its environment, what it needs of the machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from nemo_helix_server.controller import continuation
from nemo_helix_server.customizer.facts import ENGINE_PROGRAM, PYTHON_PROGRAM, EngineFacts
from nemo_helix_server.errors import ServerError
from nemo_helix_server.executors.base import CapacityRequest, Launch, ResourceNeeds, RunPlace
from nemo_helix_server.isolation import Isolation, IsolationFolders
from nemo_helix_server.jobs.advice import FailureKind
from nemo_helix_server.jobs.allocations import size_of
from nemo_helix_server.jobs.interruptions import ExpectedInterruptions
from nemo_helix_server.jobs.model import Step, StepContext
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage import run_lookup, secret_store
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import StepPaths
from nemo_runs import secret_refs
from nemo_runs.clock import Clock, SystemClock, turn
from nemo_runs.errors import SecretReferenceError
from nemo_runs.secret_refs import SecretText

_SCALES: dict[str, int | Decimal] = {
    "": 1,
    "m": Decimal("0.001"),
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}
_SCALES |= {"P": 10**15, "E": 10**18}
_SCALES |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)} | {"ki": 1024}


class LaunchError(ServerError):
    """A step cannot be started as it is; the message says what to change."""

    def __init__(self, message: str, *, kind: FailureKind = FailureKind.START_SETUP) -> None:
        """``kind`` decides what helps, see `nemo_helix_server.jobs.advice`."""
        super().__init__(message)
        self.kind = kind


def _no_engines(name: str) -> EngineFacts:
    raise LaunchError(f"there is no engine {name} here")


@dataclass(frozen=True, slots=True)
class Launches:
    """Makes the launch of a step of its spec, the settings and the secrets of this moment."""

    data_dir: Path
    """The service's data directory, which has the secrets of workspaces."""
    profile: Callable[[str, str], ProfileSettings]
    """Settings of an execution profile by provider and name."""
    base_url: Callable[[], str]
    """Where steps reach the service."""
    token: Callable[[StepContext, str], str | None] = lambda _context, _task: None
    """The access token of a start, when steps need one."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The service's own environment."""
    clock: Clock = field(default_factory=SystemClock)
    executor_of: Callable[[str, str], str] = lambda _provider, _name: ""
    """The name of the executor of an execution profile by provider and name; empty = the default one."""
    has_profile: Callable[[str, str], bool] = lambda _provider, _name: True
    """Whether there is an execution profile."""
    isolation: Isolation | None = None
    """Keeps steps to their own files; `None` where they see what the service sees."""
    engine: Callable[[str], EngineFacts] = _no_engines
    """How an engine is started on the service's own machine; raises `ServerError` when it cannot be."""
    python: str = sys.executable
    """The service's own interpreter."""
    host_variables: tuple[str, ...] | None = None
    """Names of variables of the service that steps may be given; `None`: all."""

    def executor(self, spec: Mapping[str, Any]) -> str:
        """The name of the executor that a step's execution profile names now."""
        wanted = spec["executor"]
        return self.executor_of(wanted["provider"], wanted.get("profile") or "default")

    def settings(self, context: StepContext) -> ProfileSettings:
        """The settings of the step's execution profile."""
        return self.settings_of(context.step.spec)

    def settings_of(self, spec: Mapping[str, Any]) -> ProfileSettings:
        """The same for a step's spec."""
        executor = spec["executor"]
        return self.profile(executor["provider"], executor.get("profile") or "default")

    def place_name(self, context: StepContext) -> str:
        """Where a step runs, as interruptions are counted: its execution profile, with its partition."""
        partition = self.settings(context).partition_name
        profile = run_lookup.profile_of(context.step.spec)
        return f"{profile}, partition {partition}" if partition else profile

    def turn(self, step: Step) -> tuple[float, int]:
        """A step's place among those that wait, smallest first: since when its turn counts."""
        return turn(self.clock, step.turn_at or step.created_at, step.turn_mark)

    def needs(self, spec: Mapping[str, Any]) -> ResourceNeeds:
        """What a step asks for; raises `LaunchError` for what is not an amount."""
        resources = spec["executor"].get("resources") or {}
        asked = resources.get("requests") or {}
        size = size_of(spec)
        return ResourceNeeds(
            nodes=size.nodes,
            gpus=size.gpus // size.nodes,
            cpus=float(quantity(asked["cpu"])) if asked.get("cpu") else None,
            memory_bytes=amount(asked["memory"]) if asked.get("memory") else None,
            shm_bytes=amount(resources["shm_size"]) if resources.get("shm_size") else None,
        )

    def request(self, context: StepContext, run: StepRun) -> CapacityRequest:
        """What the step asks its executor for."""
        needs = self.needs(context.step.spec)
        return CapacityRequest(
            run=run,
            job=f"{context.workspace}/{context.job_name}",
            workspace=context.workspace,
            needs=needs,
            slots=0 if needs.gpus else 1,
            turn=self.turn(context.step),
            confined=self.confines(self.settings(context)),
        )

    def confines(self, profile: ProfileSettings) -> bool:
        """Whether steps of a profile are kept to their own files; not where it lets all share a user."""
        return self.isolation is not None and not profile.is_shared

    def image(self, context: StepContext) -> str | None:
        """The image that the step names; it is recorded, and an executor without containers leaves it."""
        return (context.step.spec["executor"].get("container") or {}).get("image")

    def argv(self, context: StepContext) -> tuple[str, ...]:
        """The step's command."""
        executor = context.step.spec["executor"]
        container = executor.get("container") or {}
        words = executor.get("command") or [
            *(container.get("entrypoint") or []),
            *(container.get("command") or []),
        ]
        return tuple(map(str, words))

    def command(self, context: StepContext, place: RunPlace) -> tuple[str, ...]:
        """The step's command where it is to run; raises `LaunchError` when its program is not there."""
        return tuple(self._program(word, context, place) for word in self.argv(context))

    def config(self, context: StepContext, place: RunPlace) -> Any:
        """The step's configuration where it is to run; raises `LaunchError` as `command`."""
        config = context.step.spec.get("config")
        if not isinstance(config, Mapping):
            return config
        return {
            name: self._program(value, context, place) if isinstance(value, str) else value
            for name, value in config.items()
        }

    def environment(self, context: StepContext, place: RunPlace) -> dict[str, str]:
        """The variables that are the same at each start: the place's, the profile's, the step's own."""
        own = {item["name"]: item["value"] for item in _variables(context) if _is_literal(item)}
        of_engine = self._engine_environment(context, place)
        base = place.environment()
        return {**base, "PYTHONUNBUFFERED": "1", **self.settings(context).env, **of_engine, **own}

    def check(self, context: StepContext) -> None:
        """Raise `LaunchError` for what a start would fail with, as far as that can be known before."""
        executor = context.step.spec["executor"]
        provider, profile = executor["provider"], executor.get("profile") or "default"
        if not self.has_profile(provider, profile):
            raise LaunchError(
                f"the step {context.step.name} wants the execution profile {provider}/{profile}, which the "
                "service does not have any more; put it back into jobs.executors of its settings"
            )
        if not self.argv(context):
            raise LaunchError(
                f"the step {context.step.name} has no command; give its container an entrypoint or a command "
                "in a new job",
                kind=FailureKind.START_SPEC,
            )
        self._secrets(context)

    def launch(
        self,
        context: StepContext,
        run: StepRun,
        *,
        devices: tuple[str, ...],
        checkpoint: str | None,
        paths: StepPaths,
        place: RunPlace,
        interruptions: ExpectedInterruptions | None = None,
    ) -> Launch:
        """Everything about a start; raises `LaunchError` without a secret.

        ``checkpoint`` and ``paths`` are as the run sees them, ``place`` is where it runs, and
        ``interruptions`` is what it must expect there.
        """
        self.check(context)
        settings = self.settings(context)
        values, references = self._secrets(context)
        token = self.token(context, run.token)
        if token is not None:
            values["NHX_ACCESS_TOKEN"] = SecretText(token)
        own = self._own(context, run, paths, references)
        if checkpoint is not None:
            own["NEMO_JOB_CHECKPOINT"] = checkpoint
        if interruptions is not None and interruptions.known is not None:
            own["NEMO_JOB_SECONDS_BETWEEN_INTERRUPTIONS"] = f"{interruptions.known:g}"
        limits = (context.step.spec["executor"].get("resources") or {}).get("limits") or {}
        environment = {**self.environment(context, place), **own}
        folders = self._isolation_folders(context, paths, checkpoint)
        if folders is not None:
            base = place.environment()
            # what the step or its profile set stays
            inherited = {name for name, value in environment.items() if value == base.get(name)}
            wanted = folders.environment.items()
            environment |= {k: v for k, v in wanted if k in inherited or k not in environment}
        return Launch(
            argv=self.command(context, place),
            environment=environment,
            file_access=folders.file_access if folders else None,
            secrets=values,
            working_directory=PurePosixPath(paths.storage),
            devices=devices,
            memory_bytes=amount(limits["memory"]) if limits.get("memory") else None,
            time_limit_seconds=settings.ttl_seconds_active,
            grace_seconds=settings.graceful_shutdown_timeout_seconds,
            log_bytes=settings.log_bytes,
            needs=self.needs(context.step.spec),
            image=self.image(context),
            goes_on=context.step.pausable,
            exclude_nodes=self._excluded(context),
            profile=settings,
        )

    def _program(self, word: str, context: StepContext, place: RunPlace) -> str:
        if word == PYTHON_PROGRAM:
            return place.python() or self.python
        if word.startswith(ENGINE_PROGRAM):
            return self._engine(word.removeprefix(ENGINE_PROGRAM), context, place).python
        return word

    def _engine_environment(self, context: StepContext, place: RunPlace) -> dict[str, str]:
        """The variables of the engine whose interpreter the command names."""
        argv = self.argv(context)
        if not argv or not argv[0].startswith(ENGINE_PROGRAM):
            return {}
        engine = self._engine(argv[0].removeprefix(ENGINE_PROGRAM), context, place)
        digest = {"NEMO_ENGINE_ENVIRONMENT": engine.digest} if engine.digest else {}
        return {**engine.environment, **digest}

    def _engine(self, name: str, context: StepContext, place: RunPlace) -> EngineFacts:
        try:
            return place.engine(name, self.engine)
        except ServerError as error:
            raise LaunchError(f"the step {context.step.name} cannot start: {error}") from error

    def _excluded(self, context: StepContext) -> tuple[str, ...]:
        """Nodes that earlier starts of the step failed with."""
        details = context.step.status_details
        return continuation.AllocationHistory.read(details.get(continuation.ALLOCATIONS)).excluded

    def _isolation_folders(
        self, context: StepContext, paths: StepPaths, checkpoint: str | None
    ) -> IsolationFolders | None:
        if self.isolation is None or not self.confines(self.settings(context)):
            return None
        return self.isolation.folders_for(paths, context.workspace, context.created_by, checkpoint)

    def _own(
        self, context: StepContext, run: StepRun, paths: StepPaths, references: Mapping[str, str]
    ) -> dict[str, str]:
        step, url = context.step, self.base_url()
        return {
            "NEMO_JOB_ID": context.job_name,
            "NEMO_JOB_ATTEMPT_ID": step.attempt_id,
            "NEMO_JOB_STEP": step.name,
            "NEMO_JOB_TASK": run.token,
            "NEMO_JOB_WORKSPACE": context.workspace,
            "NEMO_JOB_FILESET": context.fileset,
            "NEMO_JOB_STEP_CONFIG_FILE_PATH": paths.config_file,
            "NEMO_JOB_STEP_CONFIG_STORAGE_PATH": paths.config_folder,
            "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": paths.scratch,
            "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": paths.storage,
            "NEMO_JOB_TRAINER_PATH": paths.trainer,
            "NEMO_JOB_CONTROL_FILE": paths.control_file,
            "NEMO_JOB_ALLOCATION_FILE": paths.allocation_file,
            "NEMO_JOB_SECRETS": ",".join(f"{name}={reference}" for name, reference in references.items()),
            "NHX_BASE_URL": url,
            "NHX_JOBS_URL": url,
            "NHX_PRINCIPAL": context.created_by,
        }

    def _secrets(self, context: StepContext) -> tuple[dict[str, SecretText], dict[str, str]]:
        """Values by variable, and what ``NEMO_JOB_SECRETS`` says of them."""
        values: dict[str, SecretText] = {}
        references: dict[str, str] = {}
        of_the_job = {secret.get("name"): secret.get("ref_id") for secret in context.secrets}
        for item in _variables(context):
            name, where = item["name"], f"the variable {item['name']} of the step {context.step.name}"
            if item.get("from_secret"):
                given = item["from_secret"]["name"]
                reference = str(of_the_job.get(given) or given)
                values[name] = SecretText(self._stored(context, reference, where))
                references[name] = reference if "/" in reference else f"{context.workspace}/{reference}"
            elif not _is_literal(item):
                values[name] = self._of_the_host(str(item["value"]), where)
        return values, references

    def _stored(self, context: StepContext, reference: str, where: str) -> str:
        workspace, slash, name = reference.rpartition("/")
        if slash and workspace != context.workspace:
            raise LaunchError(
                f"{where} names a secret of another workspace, {reference}; only its own are given",
                kind=FailureKind.START_SPEC,
            )
        try:
            path = secret_store.value_path(self.data_dir, context.workspace, name)
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LaunchError(
                f"{where} needs the secret {name} of the workspace {context.workspace}, which cannot be "
                "read; `nemo secrets create` makes it"
            ) from error

    def _of_the_host(self, value: str, where: str) -> SecretText:
        try:
            reference = secret_refs.parse_reference(value, where=where)
            if self.host_variables is not None and reference.text not in self.host_variables:
                raise LaunchError(
                    f"{where}: {value} is not among the setting jobs.host_variables of the service; "
                    "`nemo secrets create` keeps a value in the workspace"
                )
            return secret_refs.resolve_host(reference, self.environ, where=where)
        except SecretReferenceError as error:
            raise LaunchError(str(error)) from error


def amount(text: str) -> int:
    """A quantity as Kubernetes writes it, such as ``16Gi``, as a whole number."""
    return int(quantity(text))


def quantity(text: str) -> Decimal:
    """The same with its fraction, such as 0.5 for ``500m``."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)", text)
    scale = _SCALES.get(found[2]) if found else None
    if found is None or scale is None:
        raise LaunchError(
            f"{text!r} is not an amount; write a number with a suffix, such as 16Gi",
            kind=FailureKind.START_SPEC,
        )
    return Decimal(found[1]) * scale


def _variables(context: StepContext) -> list[Mapping[str, Any]]:
    return list(context.step.spec.get("environment") or [])


def _is_literal(item: Mapping[str, Any]) -> bool:
    """Whether a variable has its value in the spec; ``host:NAME`` is a variable of the service instead."""
    value = item.get("value")
    return value is not None and not re.fullmatch(rf"host:{secret_refs.VARIABLE}", str(value))
