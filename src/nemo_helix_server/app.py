"""The composition root: the one place that knows every part and puts a service together."""

from __future__ import annotations

import functools
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.api.application import make_application
from nemo_helix_server.api.feed import StoreFeed
from nemo_helix_server.api.health import HealthProbe
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.api.streams import Broadcaster
from nemo_helix_server.auth import step_tokens
from nemo_helix_server.auth.authentication import Authenticator
from nemo_helix_server.controller import loop
from nemo_helix_server.controller.feasibility import Feasibility
from nemo_helix_server.controller.launches import Launches
from nemo_helix_server.customizer.engines import Engines, this_machine
from nemo_helix_server.customizer.references import References
from nemo_helix_server.customizer.service import Customizer
from nemo_helix_server.customizer.templates import TemplateRepository
from nemo_helix_server.engines.environments import cache_folder
from nemo_helix_server.executors import dispatch
from nemo_helix_server.executors.base import RunPlace
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.files.locations import open_tree
from nemo_helix_server.isolation import Boundary, Isolation
from nemo_helix_server.jobs.model import StepContext, Token
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_helix_server.logs.pages import LogPages
from nemo_helix_server.logs.reader import Logs
from nemo_helix_server.models.registry import ModelRegistry
from nemo_helix_server.pages.application import BesideApi, ServicePages, make_pages
from nemo_helix_server.pages.sessions import FILE, PageSessions
from nemo_helix_server.service import responses
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.service.profile_checks import ProfileChecks
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.service.token_store import TokenStore
from nemo_helix_server.service.workspaces import WorkspaceRepository
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.artifacts import ArtifactReader
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.secret_store import SecretStore
from nemo_helix_server.store.store import JobStore
from nemo_helix_server.trackers import publishing
from nemo_pages.security import BelowPath
from nemo_runs.addresses import is_loopback
from nemo_runs.clock import Clock

_WITH_WORKLOAD = [status for status in HelixJobStatus if status.holds_workload]


@dataclass(frozen=True, slots=True)
class AssembledService:
    """A service that is put together and not started yet; its application's life is the controller's."""

    application: ASGIApp
    parts: ServiceParts
    controller: loop.Controller
    executor: Executors
    page_sessions: PageSessions
    pages: ServicePages

    def end_streams(self) -> None:
        """End what watches, so that nothing waits for it; in the event loop."""
        self.parts.broadcaster.close()

    def under_way(self) -> int:
        """How many jobs have a workload now."""
        with self.parts.jobs.store.read() as reader:
            return sum(
                number for status, number in reader.jobs.counts(None).items() if status in _WITH_WORKLOAD
            )

    def close(self) -> None:
        """Release everything; workloads keep running."""
        self.pages.close()
        self.executor.close()


@dataclass(frozen=True, slots=True)
class _CoreServices:
    """What every part of a service is built on."""

    settings: Settings
    store: JobStore
    clock: Clock
    storage: JobStorage
    limits: StorageLimits
    profiles: Profiles
    authenticator: Authenticator


def compose(
    settings: Settings,
    store: JobStore,
    clock: Clock,
    *,
    base_url: str,
    tokens_required: bool,
    isolation: Isolation | None = None,
    boundary: Boundary | None = None,
    listening_at: str | None = None,
) -> AssembledService:
    """Put a service together; the store is migrated, the data directory is there and is ours alone.

    Steps reach it at ``base_url``, browsers at ``listening_at``, which is the same if not given.
    Steps are kept to their own files by ``isolation``, where it is given; ``boundary`` is shown to those who
    make tokens.
    """
    if tokens_required and settings.trackers.allowed_hosts is None:
        closed = settings.trackers.model_copy(update={"allowed_hosts": ()})
        settings = settings.model_copy(update={"trackers": closed})
    core = _CoreServices(
        settings=settings,
        store=store,
        clock=clock,
        storage=JobStorage(settings.data_dir),
        limits=settings.jobs.storage,
        profiles=Profiles(settings.jobs),
        authenticator=Authenticator(store, step_tokens.load_key(settings.data_dir), clock, tokens_required),
    )
    broadcaster = _broadcaster(core)
    executor = dispatch.of_service(settings, clock.monotonic)
    engines = Engines(settings.engines, this_machine(), cache_folder())
    launches = _launches(core, base_url, isolation, engines, tokens_required=tokens_required)
    controller = _controller(core, executor, launches, broadcaster)
    trackers = publishing.build(store, core.storage, settings)

    def start() -> None:
        controller.start()
        trackers.start()

    def stop() -> None:
        trackers.stop()
        controller.stop()

    parts = _parts(core, controller, broadcaster, boundary, engines, tokens_required=tokens_required)
    loopback_only = is_loopback(settings.host)
    sessions = _page_sessions(core)
    pages = make_pages(parts, sessions, settings.pages, listening_at or base_url)
    application = make_application(
        parts,
        loopback_only=loopback_only,
        hosts=[urllib.parse.urlsplit(origin).netloc for origin in settings.pages.origins],
        beside=functools.partial(BesideApi, pages.application),
        start=start,
        stop=stop,
    )
    application = BelowPath(application, settings.pages.root_path)
    return AssembledService(application, parts, controller, executor, sessions, pages)


def _page_sessions(core: _CoreServices) -> PageSessions:
    def token_of(digest: str) -> Token | None:
        with core.store.read() as reader:
            return reader.tokens.by_digest(digest)

    given = core.settings.pages
    return PageSessions(
        core.settings.data_dir / FILE,
        core.authenticator.key,
        core.clock,
        token_of,
        seconds=given.session_seconds,
        code_seconds=given.code_seconds,
    )


def _broadcaster(core: _CoreServices) -> Broadcaster:
    show_job = functools.partial(responses.job, limits=core.limits, clock=core.clock)
    return Broadcaster(StoreFeed(core.store, show_job=show_job, show_transition=responses.transition))


def _launches(
    core: _CoreServices,
    base_url: str,
    isolation: Isolation | None,
    engines: Engines,
    *,
    tokens_required: bool,
) -> Launches:
    host_variables = core.settings.jobs.host_variables
    if host_variables is None and tokens_required:
        host_variables = ()
    return Launches(
        core.settings.data_dir,
        profile=core.profiles.settings,
        base_url=lambda: base_url,
        token=functools.partial(_step_token, core.authenticator),
        clock=core.clock,
        executor_of=core.profiles.executor,
        has_profile=core.profiles.has,
        isolation=isolation,
        engine=engines.require,
        host_variables=host_variables,
    )


def _controller(
    core: _CoreServices, executor: Executors, launches: Launches, broadcaster: Broadcaster
) -> loop.Controller:
    return loop.build(
        store=core.store,
        executor=executor,
        storage=core.storage,
        launches=launches,
        settings=core.settings,
        limits=core.limits,
        changed=broadcaster.notify,
    )


def _parts(
    core: _CoreServices,
    controller: loop.Controller,
    broadcaster: Broadcaster,
    boundary: Boundary | None,
    engines: Engines,
    *,
    tokens_required: bool,
) -> ServiceParts:
    """What the routes call."""
    settings, store, clock, storage = core.settings, core.store, core.clock, core.storage
    isolation = controller.starter.launches.isolation
    workspaces = WorkspaceRepository(store, clock)
    workspaces.ensure_default()
    references = _references(settings, store, clock, tokens_required=tokens_required)

    def wake() -> None:
        controller.wake()
        broadcaster.notify()

    executors = controller.executor
    possible = Feasibility(controller.starter.launches, executors)
    jobs = JobsService(store, storage, core.limits, clock, wake, possible)
    return ServiceParts(
        jobs=jobs,
        checkpoints=CheckpointCatalogue(store, executors.files, wake),
        logs=LogPages(store, lambda run: executors.files(run).log(run), Logs()),
        artifacts=ArtifactReader(settings.data_dir / "filesets", functools.partial(_storage_of, storage)),
        authenticator=core.authenticator,
        tokens=TokenStore(store, clock, boundary),
        secrets=SecretStore(store, settings.data_dir, clock),
        workspaces=workspaces,
        broadcaster=broadcaster,
        profiles=core.profiles,
        profile_checks=ProfileChecks(core.profiles, executors, isolated=isolation is not None),
        filesets=references.filesets,
        models=references.models,
        customizer=Customizer(
            jobs,
            core.profiles,
            references,
            engines,
            settings,
            place_of=functools.partial(_place_of, core.profiles, executors),
            isolation=isolation,
        ),
        templates=TemplateRepository(store, clock),
        health=HealthProbe(store, settings.data_dir),
        controller_problems=controller.problems,
    )


def _references(settings: Settings, store: JobStore, clock: Clock, *, tokens_required: bool) -> References:
    """What fine-tuning names: filesets and models."""
    root = settings.files.root or str(settings.data_dir.absolute() / "filesets")
    filesets = Filesets(open_tree(root), clock, root)
    local_paths = settings.customization.local_paths
    if local_paths is None and tokens_required:
        local_paths = ()
    return References(ModelRegistry(store, filesets, clock), filesets, settings.data_dir, local_paths)


def _place_of(profiles: Profiles, executors: Executors, profile: str) -> RunPlace | None:
    for provider in ("gpu_distributed", "gpu", "cpu"):
        if profiles.has(provider, profile):
            executor, config = profiles.executor(provider, profile), profiles.settings(provider, profile)
            return executors.place_of(executor, config)
    return None


def _storage_of(storage: JobStorage, workspace: str, job_id: str) -> Path:
    return storage.paths(workspace, job_id).storage


def _step_token(authenticator: Authenticator, context: StepContext, task: str) -> str | None:
    return authenticator.step_token(
        workspace=context.workspace,
        job=context.job_name,
        job_id=context.step.job_id,
        step=context.step.name,
        task=task,
    )
