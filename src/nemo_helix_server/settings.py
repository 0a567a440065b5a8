"""What an operator can set: a YAML file, overridden by environment variables, overridden by the command line.

A variable is ``NHX_`` and the path of a field joined by ``_``, as in ``NHX_JOBS_STORAGE_MINIMUM_FREE_BYTES``.
Its value is YAML. Unknown keys of the file are errors, unknown variables are not: the client has that prefix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from nemo_helix_plugin.customization import backends
from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server import executor_kinds, setting_paths
from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.engines import catalogue
from nemo_helix_server.errors import ServerError
from nemo_helix_server.storage.filesystem_kind import is_network
from nemo_runs import homes, yaml_scalars
from nemo_runs.extensions import entry_points

PREFIX = "NHX_"
_DAY = 24 * 3600
LONGEST = 100 * 365 * _DAY
"""No period that is set here may be longer, in seconds: a hundred years."""

Period = Annotated[int, Field(ge=0, le=LONGEST)]
Interval = Annotated[float, Field(gt=0, le=LONGEST)]


class SettingsError(ServerError):
    """A setting is wrong; the message names it and where it came from."""


class SettingsSection(BaseModel):
    """A group of settings; it knows its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class StorageSettings(SettingsSection):
    """How long the storage of jobs that do not run is kept, in seconds."""

    paused_storage_ttl_seconds: Period = 7 * _DAY
    """Of a paused job, unless the job has its own pause window."""
    maximum_pause_ttl_seconds: Period = 30 * _DAY
    """The longest pause window a job may have."""
    failed_storage_ttl_seconds: Period = 4 * 3600
    """Of a job that ended in error; afterwards it cannot be run again."""
    minimum_free_bytes: Annotated[int, Field(ge=0, le=2**62)] = 256 * 2**20
    """No step is started, and no pause begun, when less would be left on the data directory's disk."""


class ProfileSettings(SettingsSection):
    """What the configuration of every execution profile has; each executor adds its own keys."""

    ttl_seconds_before_active: Period = 1800
    """How long a step that was accepted may take until it runs."""
    ttl_seconds_active: Period | None = None
    """Seconds a step may run; unset = as long as it takes."""
    graceful_shutdown_timeout_seconds: Annotated[float, Field(ge=0, le=LONGEST)] = 10.0
    """Between SIGTERM and SIGKILL, when a step is stopped."""
    seconds_between_interruptions: Interval | None = None
    """Mean time until the place interrupts a step without notice; unset = measured from earlier steps."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of every step of the profile."""
    log_bytes: Annotated[int, Field(ge=4096, le=2**40)] = 64 * 2**20
    """Kept output of one start of a step; older lines go first."""

    @property
    def partition_name(self) -> str | None:
        """The part of its place to which the profile leads; `None`: it names none."""
        return None

    @property
    def is_shared(self) -> bool:
        """Whether the operator lets all steps run as one user elsewhere, who sees the files of all."""
        return False


class SubprocessSettings(ProfileSettings):
    """The configuration of a profile whose steps run as processes of this machine."""

    ttl_seconds_after_finished: Period = 3600
    """Accepted for compatibility; folders of starts stay with their job."""
    cleanup_completed_jobs_immediately: bool = False
    """Accepted for compatibility."""
    default_task_image: str | None = None
    """Accepted for compatibility; processes have no image."""


class ExecutorDefaults(SettingsSection):
    """Configuration of the built-in profiles, by backend."""

    subprocess: SubprocessSettings = SubprocessSettings()


def _own(configuration: type[BaseModel], executor: str) -> type[BaseModel]:
    """The class of an executor's configuration; ``ValueError`` for one that is not made from ours."""
    if issubclass(configuration, ProfileSettings):
        return configuration
    found = f"{configuration.__module__}.{configuration.__qualname__}"
    raise ValueError(f"{found} of the executor '{executor}' is not made from ProfileSettings")


def _validated(configuration: type[BaseModel], executor: str, value: Any) -> BaseModel:
    """Check an executor's configuration; its own checks may be another package's code, and raise anything."""
    try:
        return configuration.model_validate(value)
    except (ValidationError, KeyboardInterrupt):
        raise
    except BaseException as error:
        title, said = executor_kinds.title(executor), entry_points.said(error)
        raise ValueError(f"{title} cannot check it: {said}") from error


class ExecutorProfile(SettingsSection):
    """One more execution profile, or another configuration of a built-in one."""

    provider: Provider
    profile: str = "default"
    backend: str = executor_kinds.DEFAULT
    """The executor, see `nemo_helix_server.executor_kinds`."""
    config: ProfileSettings
    """The executor's own keys, and those of `ProfileSettings`; may be left out."""

    @model_validator(mode="before")
    @classmethod
    def _config_may_be_left_out(cls, value: Any) -> Any:
        return {"config": {}, **value} if isinstance(value, dict) else value

    @field_validator("backend")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in executor_kinds.names():
            raise ValueError(f"there is no executor '{value}'; there are {', '.join(executor_kinds.names())}")
        return value

    @field_validator("config", mode="before")
    @classmethod
    def _config_of_the_executor(cls, value: Any, info: ValidationInfo) -> Any:
        """The keys are those of the executor that ``backend`` names."""
        if not isinstance(value, dict) or "backend" not in info.data:
            return value
        name = info.data["backend"]
        try:
            configuration = _own(executor_kinds.load(name).config, name)
            return _validated(configuration, name, value)
        except executor_kinds.UnknownExecutorError as error:
            raise ValueError(str(error)) from error
        except ValidationError as error:
            raise setting_paths.WrongValueError.first_of(error, configuration) from error


class LeaseSettings(SettingsSection):
    """What of this machine the steps may use; shared with the same user's other programs that lease."""

    devices: tuple[str, ...] | None = None
    """GPU devices by index or UUID; unset = what the machine has."""
    slots: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Steps without GPU that may run at once; unset = what the machine's processors allow."""
    devices_per_workspace: Annotated[int, Field(ge=1)] | None = None
    """Runs of one workspace that may hold devices at once; unset = no limit."""
    slots_per_workspace: Annotated[int, Field(ge=1)] | None = None
    """Runs of one workspace without devices at once; unset = no limit."""
    folder: Path | None = None
    """Where the leases are kept; unset = the user's runtime folder."""


class IsolationSettings(SettingsSection):
    """What steps see of this machine."""

    mode: Literal["auto", "required", "none"] = "auto"
    """Whether steps are kept from the service's keys: `auto` where tokens are needed and it works, `required`
    or the service does not start, `none` never."""
    read: tuple[Path, ...] = ()
    """Further folders that isolated steps can read."""
    write: tuple[Path, ...] = ()
    """Further folders that isolated steps can change."""


class ContinuationSettings(SettingsSection):
    """How steps resume that have lost their allocation; the lifecycle of a step may set the first two."""

    max_continuations: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    """How often a step may resume from a checkpoint in one attempt."""
    max_walltime_seconds: Period | None = None
    """How long the allocations of a step may take together before no other follows; unset = no limit."""
    first_wait_seconds: Annotated[float, Field(ge=0, le=LONGEST)] = 10.0
    """Seconds until the next allocation, after two in a row without a new checkpoint; then twice as long."""
    longest_wait_seconds: Annotated[float, Field(ge=0, le=LONGEST)] = 600.0
    """The longest of these waits, in seconds."""


class JobsSettings(SettingsSection):
    """The Jobs service."""

    storage: StorageSettings = StorageSettings()
    reconcile_interval_seconds: Interval = 2.0
    """How often running steps are looked at when nothing said that they changed."""
    schedule_interval_seconds: Interval = 5.0
    """The same when nothing runs and nothing waits."""
    creation_deadline_seconds: Period = 600
    """How long it is tried to prepare what a new job needs."""
    cancel_deadline_seconds: Period = 60
    """How long a cancelled step may take to end before it is killed with everything it started."""
    max_interruptions_without_progress: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """How often in a row a step resumes after an allocation that was long enough, and made no checkpoint."""
    continuation: ContinuationSettings = ContinuationSettings()
    executors: tuple[ExecutorProfile, ...] = ()
    """Further execution profiles: `provider`, `profile`, `backend`, `config`."""
    executor_defaults: ExecutorDefaults = ExecutorDefaults()
    enable_subprocess_executor: bool | None = None
    """False takes the built-in profiles away."""
    include_job_logs_in_diagnostics: bool = False
    """Accepted for compatibility; there are no diagnostics to send."""
    leases: LeaseSettings = LeaseSettings()
    isolation: IsolationSettings = IsolationSettings()
    host_variables: tuple[str, ...] | None = None
    """Variables of the service that steps may name as `host:NAME`; unset = all, or none with tokens."""


class BackendSettings(SettingsSection):
    """One training backend."""

    training_pause_deadline_seconds: Period = 1800
    """How long a pause of training may take."""
    training_staleness_timeout_seconds: Period = 0
    """Training that says nothing for so long is ended, and goes on from its checkpoint, if any; 0 = never."""
    training_checkpoint_max_overhead: Annotated[float, Field(gt=0, le=0.5)] = 0.02
    """The share of the time that saves may take where their interval is chosen (`interval: auto`)."""


class EngineSettings(SettingsSection):
    """One training engine."""

    python: Path | None = None
    """Its interpreter; unset = what `nemo engines install` made, which an engine of another package lacks."""
    threads: Annotated[int, Field(ge=1, le=4096)] = 1
    """Processor threads of one process; more of them than cores makes small steps much slower."""


def _engine_names() -> list[str]:
    """Those that can be installed, and those that backends of other packages bring."""
    return list(dict.fromkeys([*catalogue.RECIPES, *(backend.engine for backend in registry.usable())]))


if TYPE_CHECKING:

    class EnginesSettings(SettingsSection):
        """The training engines, each in an interpreter of its own."""

        trackers: EngineSettings = EngineSettings()
else:
    EnginesSettings = create_model(
        "EnginesSettings",
        __base__=SettingsSection,
        __module__=__name__,
        **{name: (EngineSettings, EngineSettings()) for name in _engine_names()},
    )


class TrackersSettings(SettingsSection):
    """Telling experiment trackers about jobs."""

    interval_seconds: Interval = 2.0
    """How often the service looks for what is to be published."""
    timeout_seconds: Interval = 60.0
    """How long a tracker may take for an answer before it is left alone for a while."""
    allowed_hosts: tuple[str, ...] | None = None
    """Hosts that jobs may name though they lead to this machine; unset = all, or none with tokens."""
    wandb_mode: Literal["online", "offline", "disabled"] | None = None
    """Unset = the service's variable ``WANDB_MODE``, or else online; offline writes files to be synced."""


class FilesSettings(SettingsSection):
    """Where filesets are kept."""

    root: str | None = None
    """A folder, or an address of fsspec such as ``s3://bucket/filesets``; unset = in the data directory."""


class CustomizationSettings(SettingsSection):
    """Fine-tuning jobs."""

    local_paths: tuple[Path, ...] | None = None
    """Folders whose models and data may be named; unset = all, or none where tokens are needed."""


class PlatformSettings(SettingsSection):
    """Where the platform runs."""

    runtime: Literal["none"] = "none"
    """Steps run as processes of this machine."""


class AuthSettings(SettingsSection):
    """Who may do what."""

    required: bool | None = None
    """Whether every request needs a token; unset = unless the service listens on loopback only."""


class EvaluationsSettings(SettingsSection):
    """A directory of evaluations that the pages show."""

    folder: Path
    """A run directory, a folder of results, or a folder with such, by its absolute path."""
    workspace: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The workspace whose readers see it; unset = admins of the whole service alone."""

    @field_validator("folder")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError("must be an absolute path")
        return value


class PagesSettings(SettingsSection):
    """The pages of the service for browsers."""

    evaluations: tuple[EvaluationsSettings, ...] = ()
    """Directories of evaluations to show beside the jobs."""
    submitted_evaluations: bool = True
    """Whether evaluations that the service's user submitted from this machine are shown, to admins of the
    whole service."""

    root_path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~@%+-]+)*$", max_length=500)] = ""
    """Path below which a proxy shows the service, as in ``/user/anna/proxy/8080``; the proxy may take it away
    from what it passes on, or leave it."""
    origins: tuple[Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$", max_length=300)], ...] = ()
    """How browsers reach the service through a proxy, as in ``https://hub.example.org``; unset = by the
    address that it listens on."""
    session_seconds: Annotated[int, Field(ge=60, le=365 * _DAY)] = 12 * 3600
    """How long a browser stays signed in."""
    code_seconds: Annotated[int, Field(ge=10, le=_DAY)] = 300
    """How long an address that `nemo services open` printed can be opened."""

    @field_validator("root_path")
    @classmethod
    def _leads_down(cls, value: str) -> str:
        if {".", ".."} & set(value.split("/")) or "%2f" in value.lower():
            raise ValueError("must not hold the parts . and .., nor %2F")
        return value


class _FixedSettings(SettingsSection):
    """The settings of `nemo services run` that do not depend on which backends there are."""

    host: str = "127.0.0.1"
    """Name or address to listen on; anything but loopback needs access tokens."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """0 = any that is free."""
    data_dir: Path = Field(default_factory=lambda: default_data_dir(os.environ))
    """Where everything is kept; unset = nhx in the user's data folder."""
    database_url: str | None = None
    """A SQLAlchemy address; unset = the file ``jobs.db`` in the data directory."""
    public_url: str | None = None
    """How the steps reach the service; unset = the address it listens on."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Of the log on stderr."""
    platform: PlatformSettings = PlatformSettings()
    jobs: JobsSettings = JobsSettings()
    engines: EnginesSettings = EnginesSettings()
    trackers: TrackersSettings = TrackersSettings()
    files: FilesSettings = FilesSettings()
    customization: CustomizationSettings = CustomizationSettings()
    auth: AuthSettings = AuthSettings()
    pages: PagesSettings = PagesSettings()

    def store_url(self) -> str:
        """The database's address."""
        # in an address these mean something, and a folder's name may hold them
        written = {ord(sign): quote(sign) for sign in "%?#"}
        file = str(self.data_dir.absolute() / "jobs.db").translate(written)
        return self.database_url or f"sqlite:///{file}"

    def of_backend(self, name: str) -> BackendSettings:
        """The section of a backend; raises `ServerError` where its name is that of another section."""
        section = getattr(self, name, None)
        if not isinstance(section, BackendSettings):
            raise ServerError(f"the backend '{name}' cannot be used: the service has settings of that name")
        return section


def _backend_section(name: str) -> type[BackendSettings]:
    """The section of a backend, with the backend's own defaults."""
    fields = BackendSettings.model_fields
    try:
        backend = registry.find(name)
    except ServerError:  # its package is broken; whoever asks for it is told so
        return BackendSettings
    defaults = {
        "training_pause_deadline_seconds": backend.pause_deadline_seconds,
        "training_staleness_timeout_seconds": backend.staleness_timeout_seconds,
    }
    own: dict[str, Any] = {
        key: (Period, Field(default=value, description=fields[key].description))
        for key, value in defaults.items()
    }
    return create_model(f"{name.title()}Settings", __base__=BackendSettings, __module__=__name__, **own)


def _backend_sections() -> dict[str, Any]:
    # a name that cannot be a section's is refused where it is asked for: `registry.find`, `of_backend`
    taken = {*_FixedSettings.model_fields, *dir(_FixedSettings)}
    free = [name for name in backends.names() if backends.is_name(name) and name not in taken]
    sections = {name: _backend_section(name) for name in free}
    return {name: (section, section()) for name, section in sections.items()}


if TYPE_CHECKING:

    class Settings(_FixedSettings):
        """All settings of `nemo services run`."""
else:
    Settings = create_model(
        "Settings",
        __base__=_FixedSettings,
        __module__=__name__,
        __doc__="All settings of `nemo services run`.",
        **_backend_sections(),
    )


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from a file, then variables, then ``overrides``; raises `SettingsError`."""
    values = _read(file) if file else {}
    given = {path: name for name, path in variables() if name in environ}
    sources = setting_paths.Sources(file, given, list(overrides or {}))
    for path, name in given.items():
        setting_paths.put(values, path, _value_of(name, environ[name]))
    values |= dict(overrides or {})
    values.setdefault("data_dir", default_data_dir(environ))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        texts = {path: name for path, name in given.items() if path in setting_paths.not_text(error)}
        if not texts:
            raise SettingsError(setting_paths.sentence(error, Settings, sources)) from error
    for path, name in texts.items():  # what looks like a number is the text that the variable holds
        setting_paths.put(values, path, environ[name])
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(setting_paths.sentence(error, Settings, sources)) from error


def variables(
    section: type[BaseModel] = Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and path of every setting that a variable can set."""
    for name, field in section.model_fields.items():
        here = (*path, name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, SettingsSection):
            yield from variables(kind, here)
        else:
            yield PREFIX + "_".join(here).upper(), here


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """``$XDG_DATA_HOME/nhx``; on a network file system, where nothing is there yet, a folder of this node."""
    usual = homes.base("XDG_DATA_HOME", ".local/share", environ) / "nhx"
    if not usual.exists() and is_network(usual):
        return Path("/var/tmp") / f"nhx-{os.getuid()}"  # noqa: S108 - made owner-only, and refused if it is not ours
    return usual


class _Loader(yaml.SafeLoader):
    """Plain scalars as everywhere here."""


yaml_scalars.give_rules(_Loader)
yaml_scalars.refuse_repeated_keys(_Loader, yaml.MarkedYAMLError)


def _read(file: Path) -> dict[str, Any]:
    try:
        value = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a child of the safe one
    except OSError as error:
        raise SettingsError(f"the settings file {file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the settings file {file} is not YAML: {' '.join(str(error).split())}"
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(
            f"the settings file {file} holds a {type(value).__name__}; it must hold keys with values"
        )
    return value


def _value_of(name: str, text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a child of the safe one
    except yaml.YAMLError as error:
        raise SettingsError(f"the variable {name} is not YAML: {' '.join(str(error).split())}") from error
