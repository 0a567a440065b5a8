"""Fine-tuning jobs, as their users see them: created by backend, from then on jobs as all others."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.body_problems import body_problems
from nemo_helix_plugin.customization import backends, explain
from nemo_helix_plugin.customization.requests import CreateCustomizationJobRequest, PreviewRequest
from nemo_helix_plugin.jobs.types import TERMINAL, CreateHelixJobRequest
from nemo_helix_server.customizer import compile as compiling
from nemo_helix_server.customizer import dry_running, names, previewing
from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.engines import Engines
from nemo_helix_server.customizer.facts import CompileFacts, EngineFacts, InputSource
from nemo_helix_server.customizer.gathering import Gathered
from nemo_helix_server.customizer.named_inputs import NamedInputs
from nemo_helix_server.customizer.references import References
from nemo_helix_server.customizer.support import SpecRefusedError
from nemo_helix_server.engines import machine
from nemo_helix_server.errors import InvalidError, StateConflictError, UnknownNameError
from nemo_helix_server.executors.base import NeverPossibleError, RunPlace
from nemo_helix_server.isolation import Isolation
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.jobs.filtering.tree import Compare, Operator, Tree, all_of
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import Settings
from nemo_helix_server.trackers import endpoints
from nemo_helix_server.trackers.errors import OffError
from nemo_runs import findings

Document = dict[str, Any]
_OWN = Compare("source", Operator.EQUAL, names.SOURCE)
_NOT_FOUND = InputSource("path", "", "nothing")
"""In the place of what a spec names and nobody has, so that the rest of the spec can be looked at."""
_LOOKED_AT = 20
"""Newest jobs with one output; of older ones none can still be on its way."""


@dataclass(frozen=True, slots=True)
class Customizer:
    """Makes fine-tuning jobs. What cannot work is said before there is one."""

    jobs: JobsService
    profiles: Profiles
    references: References
    engines: Engines
    settings: Settings
    place_of: Callable[[str], RunPlace | None] = lambda _profile: None
    """What there is where steps of a profile run, by its name; `None`: no such profile."""
    isolation: Isolation | None = None
    """Keeps the engine of a preview to its own files, as steps are; `None` where these are not either."""
    _creating: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    """Of two that ask for one name at once, the second is refused."""

    def create(
        self,
        caller: Caller,
        workspace: str,
        backend: str,
        body: CreateCustomizationJobRequest,
        *,
        client_token: str | None = None,
    ) -> tuple[Document, bool]:
        """Make a job; the flag says whether it is new."""
        facts, compiled = self._compiled(caller, workspace, registry.find(backend), body, client_token)
        with self._creating:
            request = self._checked(workspace, body, facts, compiled, client_token)
            return self.jobs.create(caller, workspace, request, client_token=client_token)

    def _checked(
        self,
        workspace: str,
        body: CreateCustomizationJobRequest,
        facts: CompileFacts,
        compiled: compiling.Compiled,
        client_token: str | None,
    ) -> CreateHelixJobRequest:
        """The job's request; raises with everything that would keep it from being made or from its end."""
        gathered = Gathered()
        with gathered:
            request = _request(body, facts.job_name, compiled)
            self.profiles.check(request.platform_spec)
        with gathered:
            self._check_secrets(workspace, compiled.spec)
        with gathered:
            self._check_trackers(compiled.spec)
        with gathered:
            self._check_output(workspace, facts.job_name, compiled.output, client_token)
        gathered.raise_all()
        return request

    def preview(self, caller: Caller, workspace: str, backend: str, body: PreviewRequest) -> Document:
        """What a job of this spec would learn of its first rows, and what would be cut; there is no job."""
        request, trains = CreateCustomizationJobRequest(spec=body.spec), registry.find(backend)
        if trains.previewer is None:
            raise InvalidError(f"the backend {backend} shows no preview of what a job would learn")
        facts, compiled = self._compiled(caller, workspace, trains, request, None)
        arguments = ["--rows", str(body.rows)]
        return self._asked(caller, workspace, facts, compiled, trains.previewer, arguments)

    def dry_run(
        self, caller: Caller, workspace: str, backend: str, body: CreateCustomizationJobRequest
    ) -> Document:
        """Everything that would be looked at before a job trains, and what it would take; there is no job."""
        trains = registry.find(backend)
        facts, compiled = self._compiled(caller, workspace, trains, body, None)
        self._checked(workspace, body, facts, compiled, None)
        named_so = f"the job '{facts.job_name}' makes the model '{compiled.output.name}'"
        noted = [findings.ok("spec", "every field is supported"), findings.ok("names", named_so)]
        of_hub = [
            source
            for source in (facts.model, facts.dataset, facts.validation, *facts.beside)
            if source and source.kind == "hub"
        ]
        found: Document = {}
        if trains.estimator is None:
            noted.append(findings.unknown("estimate", f"the backend {backend} says nothing before the start"))
        elif of_hub:
            text = f"{of_hub[0].shown} is fetched by the job's first step"
            noted.append(findings.unknown("estimate", f"{text}; rows, memory and time are not known yet"))
        else:
            found, more = self._estimated(caller, workspace, trains, facts, compiled, body)
            noted += more
        return {
            "job": facts.job_name,
            "output": compiled.output.name,
            "backend": backend,
            "engine": facts.engine.name,
            "device": facts.machine.device,
            "fits": findings.passed(noted),
            "findings": [one.to_json() for one in noted],
            "estimate": found or None,
        }

    def _estimated(
        self,
        caller: Caller,
        workspace: str,
        trains: Backend,
        facts: CompileFacts,
        compiled: compiling.Compiled,
        body: CreateCustomizationJobRequest,
    ) -> tuple[Document, list[findings.Finding]]:
        device, engine = facts.machine.device, facts.engine.name
        arguments = ["--device", device]
        for speed in self._speeds(workspace, engine, device):
            arguments += ["--speed", repr(speed)]
        found = self._asked(caller, workspace, facts, compiled, str(trains.estimator), arguments)
        place = self._place(validated(trains.description, body.spec), body)
        if place is not None and place.machine() is not None:
            capacity = dry_running.MachineCapacity(None, shared=device == "cpu", disk=None)
        else:
            gpus = machine.gpu_bytes() if device == "cuda" else []
            capacity = dry_running.capacity_here(device, self.settings.data_dir, gpus)
        keep = int((compiled.spec.get("checkpoints") or {}).get("keep") or 2)
        return found, list(dry_running.judged(found, capacity, keep))

    def _speeds(self, workspace: str, engine: str, device: str) -> list[float]:
        """Operations a second of the newest trainings with an engine on a kind of device."""
        wanted = (("spec.engine", engine), ("spec.device", device))
        tree = all_of([_OWN, *(Compare(field, Operator.EQUAL, value) for field, value in wanted)])
        page = self.jobs.list_jobs(
            workspace, where=tree, sort="-created_at", page=1, page_size=_LOOKED_AT, echo=None
        )
        known = [(job["status_details"] or {}).get("flops_per_second") for job in page["data"]]
        found = [float(speed) for speed in known if isinstance(speed, int | float) and speed > 0]
        return found[: dry_running.SPEEDS]

    def _asked(
        self,
        caller: Caller,
        workspace: str,
        facts: CompileFacts,
        compiled: compiling.Compiled,
        module: str,
        arguments: Sequence[str],
    ) -> Document:
        places_in = None
        if self.isolation is not None:
            places_in = functools.partial(
                self.isolation.of_preview, workspace=workspace, asked_by=caller.name
            )
        # it is asked on the service's machine, wherever the job would train
        facts = dataclasses.replace(facts, engine=self.engines.require(facts.engine.name))
        return previewing.answer(facts, compiled, module, arguments, places_in=places_in)

    def _compiled(
        self,
        caller: Caller,
        workspace: str,
        backend: Backend,
        body: CreateCustomizationJobRequest,
        client_token: str | None,
    ) -> tuple[CompileFacts, compiling.Compiled]:
        given = validated(backend.description, body.spec)
        self._check_workspace(workspace)
        gathered = Gathered()
        engine = EngineFacts(backend.engine, "", {})
        with gathered:
            engine = self._engine(backend.engine, self._place(given, body))
        digits = names.token(workspace, client_token)
        name = body.name or getattr(given, "name", None) or names.job_name(backend.name, digits)
        facts = self.facts(
            caller, workspace, backend, given, engine, body, gathered, name=name, digits=digits
        )
        with gathered:
            compiled = compiling.compile_job(backend, given, facts, body.profile)
        gathered.raise_all()
        return facts, compiled

    def facts(
        self,
        caller: Caller,
        workspace: str,
        backend: Backend,
        given: BaseModel,
        engine: EngineFacts,
        body: CreateCustomizationJobRequest,
        gathered: Gathered,
        *,
        name: str,
        digits: str,
    ) -> CompileFacts:
        """Find out everything that compiling needs to know; what names nothing is gathered."""
        inputs = NamedInputs(self.references, self.settings.data_dir, caller, workspace, gathered)
        found = inputs.of_spec(backend.description, given)
        own = self.settings.of_backend(backend.name)
        environment, rewards = found.get("environment"), None
        if environment:
            with gathered:
                rewards = inputs.rewards(environment)
        evaluation = None
        with gathered:
            evaluation = inputs.benchmark(given)
        place = self._place(given, body)
        return CompileFacts(
            machine=(place and place.machine()) or self.engines.machine,
            engine=engine,
            model=found.get("model") or _NOT_FOUND,
            dataset=found.get("dataset") or _NOT_FOUND,
            adapter=found.get("adapter"),
            beside=inputs.beside(given),
            validation=found.get("validation"),
            environment=environment,
            evaluation=evaluation,
            rewards=rewards,
            trusted=Role(caller.role) is Role.ADMIN,
            workspace=workspace,
            job_name=name,
            digits=digits,
            files_root=self.references.filesets.root,
            pause_deadline_seconds=own.training_pause_deadline_seconds,
            staleness_timeout_seconds=own.training_staleness_timeout_seconds,
            checkpoint_max_overhead=own.training_checkpoint_max_overhead,
            providers=self._providers(given, body),
            options=body.options.model_dump(mode="json") if body.options else {},
        )

    def _engine(self, name: str, place: RunPlace | None) -> EngineFacts:
        if place is None:
            return self.engines.require(name)
        try:
            return place.engine(name, self.engines.require)
        except NeverPossibleError as error:
            raise StateConflictError(str(error)) from error

    def _place(self, given: BaseModel, body: CreateCustomizationJobRequest) -> RunPlace | None:
        """Where the training will run, when a profile says so; the service's own machine otherwise."""
        profile = _profile(given, body)
        return self.place_of(profile) if profile else None

    def _providers(self, given: BaseModel, body: CreateCustomizationJobRequest) -> tuple[str, ...]:
        """Those that have a profile of the name that was given."""
        profile = _profile(given, body)
        return tuple(one["provider"] for one in self.profiles.all() if one["profile"] == profile)

    def list_jobs(
        self,
        workspace: str,
        backend: str,
        where: Tree,
        *,
        sort: str,
        page: int,
        page_size: int,
        echo: Any,
    ) -> Document:
        """A page of a backend's jobs."""
        of_backend = Compare("spec.backend", Operator.EQUAL, backend)
        tree = all_of([_OWN, of_backend, *([where] if where != parse.EVERYTHING else [])])
        return self.jobs.list_jobs(
            workspace, where=tree, sort=sort, page=page, page_size=page_size, echo=echo
        )

    def get(self, workspace: str, backend: str, name: str) -> Document:
        """One job of a backend; raises `UnknownNameError` for any other."""
        job = self.jobs.get(workspace, name)
        if job["source"] != names.SOURCE or (job["spec"] or {}).get("backend") != backend:
            raise UnknownNameError(
                f"the job '{name}' is not of the backend {backend}; `nemo jobs get {name}` shows it"
            )
        return job

    def explain(self, backend: str) -> Document:
        """The schemas of a backend and the state of its engine."""
        trains = registry.find(backend)
        return {
            "backend": backend,
            "engine": self.engines.state(trains.engine),
            "profiles": sorted({entry["profile"] for entry in self.profiles.all()}),
            "input": explain.input_schema(backend),
            "output": explain.output_schema(backend),
            "options": explain.options_schema(),
            "refused": compiling.refused(trains, self.engines.machine),
        }

    def health(self) -> Document:
        """Whether there is anything to train with."""
        usable_backends = list(registry.usable())
        states = [self.engines.state(backend.engine) for backend in usable_backends]
        usable = any(state["installed"] for state in states)
        return {
            "plugin": names.SOURCE,
            "status": "ok" if usable else "no engine is installed",
            "contributors": [backend.name for backend in usable_backends],
            "engines": states,
        }

    def _check_workspace(self, workspace: str) -> None:
        with self.jobs.store.read() as reader:
            self.jobs.check_workspace(reader, workspace)

    def _check_secrets(self, workspace: str, spec: Mapping[str, Any]) -> None:
        """Trackers' keys are named by the spec, not by a step: the service alone publishes."""
        wandb = (spec.get("integrations") or {}).get("wandb") or {}
        name = wandb.get("api_key_secret")
        if name is None:
            return
        with self.jobs.store.read() as reader:
            if reader.secrets.find(workspace, name) is None:
                raise StateConflictError(
                    f"integrations.wandb.api_key_secret: there is no secret {name} in workspace {workspace}; "
                    f"create it with `nemo secrets create {name} --value host:VARIABLE "
                    f"--workspace {workspace}`"
                )

    def _check_trackers(self, spec: Mapping[str, Any]) -> None:
        """An address that a publisher would refuse is refused before there is a job."""
        for tracker, field in (("wandb", "base_url"), ("mlflow", "tracking_uri")):
            address = ((spec.get("integrations") or {}).get(tracker) or {}).get(field)
            if address is None:
                continue
            try:
                allowed = self.settings.trackers.allowed_hosts
                endpoints.check_address(address, f"integrations.{tracker}.{field}", allowed)
            except OffError as error:
                raise InvalidError(str(error)) from error

    def _check_output(
        self, workspace: str, job: str, output: names.OutputNames, client_token: str | None
    ) -> None:
        name = output.name
        with self.jobs.store.read() as reader:
            if client_token and reader.jobs.by_client_token(workspace, client_token):
                return
        if self.references.models.find(workspace, name):
            raise StateConflictError(
                f"output.name: there is a model '{name}' already in workspace {workspace}; choose another "
                "name"
            )
        if name == output.fileset:  # made up, and so another one each time
            return
        tree = all_of([_OWN, Compare("spec.output.name", Operator.EQUAL, name)])
        page = self.jobs.list_jobs(
            workspace, where=tree, sort="-created_at", page=1, page_size=_LOOKED_AT, echo=None
        )
        for other in page["data"]:
            if other["name"] != job and other["status"] not in TERMINAL:
                raise StateConflictError(
                    f"output.name: the job '{other['name']}' will make a model '{name}' in workspace "
                    f"{workspace}; choose another name, or cancel that job"
                )


def validated(backend: backends.BackendDescription, spec: Mapping[str, Any]) -> BaseModel:
    """A spec as the backend's input; raises `SpecRefusedError` naming every field that is wrong."""
    try:
        return backend.input_type().model_validate(spec)
    except ValidationError:
        problems = [str(one) for one in body_problems(backend.input_type(), spec)]
        unknown = "there is no such field"
        more = f"; `nemo customization {backend.name} explain` shows them"
        raise SpecRefusedError([f"{one}{more}" if unknown in one else one for one in problems]) from None


def _profile(given: BaseModel, body: CreateCustomizationJobRequest) -> str | None:
    """The execution profile that a request names for the training."""
    found: str | None = body.profile
    return found or getattr(getattr(given, "training", None), "execution_profile", None)


def _request(
    body: CreateCustomizationJobRequest, name: str, compiled: compiling.Compiled
) -> CreateHelixJobRequest:
    fields = {
        "name": name,
        "description": body.description,
        "project": body.project,
        "source": names.SOURCE,
        "spec": compiled.spec,
        "platform_spec": compiled.platform_spec,
        "ownership": body.ownership,
        "custom_fields": body.custom_fields,
        "output_location": body.output_location,
    }
    try:
        return CreateHelixJobRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the job"
        raise InvalidError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
