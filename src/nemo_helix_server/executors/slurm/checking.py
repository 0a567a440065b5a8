"""What would keep steps of a profile from running on its cluster, found out without a job."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.executors.base import ResourceNeeds
from nemo_helix_server.executors.slurm import job_script, ownership
from nemo_helix_server.executors.slurm.connection import OLDEST_PYTHON, ClusterConnection
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.survey import HostSurvey, Interpreter, survey
from nemo_helix_server.settings import EnginesSettings
from nemo_runs.durations import parse_duration
from nemo_runs.findings import Finding, ok, problem, unknown, warning
from nemo_runs.sizes import size_in_words
from nemo_runs.suggestions import suggestion
from nemo_slurm import facts, job_rules
from nemo_slurm.errors import CommandMissingError, SlurmError, UnusableValueError
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.hosts import Host
from nemo_slurm.job_rules import KeyNames, WantedJob

_KEYS = KeyNames(
    account="config.account",
    partition="config.partition",
    nodes="resources.num_nodes of a step",
    walltime="config.time",
    longer="a training step goes on in further jobs (config.max_allocations)",
)
_LITTLE_SPACE = 1 << 30
"""Bytes; one checkpoint of a small model takes more."""
_CLOCKS_AGREE = 2.0
"""Seconds."""
_TEST = "sbatch --test-only"


def examine(
    settings: SlurmSettings,
    provider: Provider,
    connection: ClusterConnection,
    data_dir: Path,
    *,
    now: Callable[[], float] = time.time,
) -> list[Finding]:
    """Everything that can be found out about a profile; ``data_dir`` is the service's data directory."""
    host = connection.host
    try:
        said = facts.gather(host)
    except CommandMissingError as error:
        return [problem("connection", f"{error}; config.host names the machine that has Slurm's commands.")]
    except SlurmError as error:
        key = "config.host: " if settings.host is not None else ""
        return [problem("connection", f"{key}{error}.")]
    found = [ok("connection", f"{host.label}, as {said.user}")]
    found += judge_cluster(settings, provider, said)
    found.append(_accepted(settings, provider, host))
    try:
        seen = survey(settings, host, data_dir, now)
    except SlurmError as error:
        return [*found, unknown("host", f"{host.label} did not say what is there: {error}")]
    found += judge_host(settings, provider, seen, host.label)
    found += judge_service_files(data_dir, settings.root, seen, host=host.name)
    if seen.is_ours:
        found.append(_own_program(connection))
    return found


def judge_cluster(settings: SlurmSettings, provider: Provider, said: ClusterFacts) -> Iterator[Finding]:
    """What the scheduler's own words say about the profile; pure."""
    wanted = WantedJob(
        account=settings.account,
        partition=settings.partition,
        nodes=needs_of(provider).nodes,
        seconds=_seconds(settings.time),
    )
    yield from job_rules.judge(wanted, _KEYS, said)
    yield from job_rules.judge_limits(
        wanted,
        said,
        lambda text: warning("submit limit", f"{text}; steps stay queued until some of these have ended"),
    )
    if said.accounting is not None:
        text = (
            f"accounting does not answer ({said.accounting}); how a job ended is then known for minutes only"
        )
        yield warning("sacct", text)
    yield from _successors(settings, said)
    yield from _pyxis(settings, said)


def needs_of(provider: Provider) -> ResourceNeeds:
    """The least that a step of a provider asks for."""
    if provider == "gpu_distributed":
        return ResourceNeeds(nodes=2, gpus=1)
    return ResourceNeeds(gpus=1 if provider == "gpu" else 0)


def judge_host(
    settings: SlurmSettings, provider: Provider, seen: HostSurvey, label: str
) -> Iterator[Finding]:
    """What was seen on the cluster's host; pure."""
    yield from _root(settings.root, seen, label)
    yield _clock(seen, label)
    if seen.setup is not None:
        yield warning(
            "setup", f"config.setup: the last of its lines fails on {label}: {seen.setup or 'silently'}"
        )
    if not all(one.tried for one in (seen.own, *seen.engines.values()) if one is not None):
        text = (
            f"config.setup: its lines end the shell on {label} before any interpreter is tried; take out what"
        )
        yield problem("setup", f"{text} leaves the shell, such as exit.")
    if seen.own is not None:
        yield _python(settings, seen.own, label)
    yield from _engines(settings, provider, seen, label)
    yield from _image(settings, seen, label)


def lie_in_each_other(data_dir: Path, root: Path, *, host: str | None) -> bool:
    """Whether jobs could read the service's keys through a root on the service's machine."""
    own, shared = data_dir.resolve(), root.resolve()
    return host is None and (own.is_relative_to(shared) or shared.is_relative_to(own))


def judge_service_files(
    data_dir: Path, root: Path, seen: HostSurvey, *, host: str | None
) -> Iterator[Finding]:
    """Whether jobs could read the service's keys: its data directory must not lie where nodes see it."""
    about, where = "service's files", f"the data directory {data_dir}, with the service's keys,"
    if host is not None and seen.sees_service:
        text = f"{where} is seen on {host} too, and so by jobs; move it to a disk of the service alone."
        yield problem(about, text)
    elif host is not None:
        yield ok(about, f"{host} does not see the data directory")
    elif lie_in_each_other(data_dir, root, host=host):
        text = f"{where} and config.root, {root}, lie in each other; jobs can read both: name another root."
        yield problem(about, text)
    elif _device(data_dir.resolve()) == _device(root.resolve()):
        text = (
            f"{where} is on the file system of config.root: jobs on nodes that have it can read it; move it"
        )
        yield warning(about, f"{text} to a disk that no node has")
    else:
        yield ok(about, "the data directory is on another file system than config.root")


def _accepted(settings: SlurmSettings, provider: Provider, host: Host) -> Finding:
    """What the scheduler says to the script of a step that asks for the least."""
    folder = PurePosixPath(settings.root) / "check"
    try:
        script = job_script.render(settings, needs_of(provider), name="check", run=folder, code=folder)
    except UnusableValueError as error:
        return problem(_TEST, f"{error}.")
    return facts.accepts(host, script, about=_TEST, change=_keys_that_ask(settings))


def _keys_that_ask(settings: SlurmSettings) -> str:
    """The keys of a profile by which its steps ask for something of a node."""
    keys = [key for key in ("gpu_type", "cpus", "memory", "constraint", "options") if getattr(settings, key)]
    return f"the profile: {', '.join(f'config.{key}' for key in keys)}" if keys else "the profile"


def _own_program(connection: ClusterConnection) -> Finding:
    """Whether our own part, which every start needs, is brought there and runs."""
    try:
        connection.prepare([connection.folder.root])
    except SlurmError as error:
        return problem("program", f"{error}.")
    return ok("program", f"our own part runs on {connection.host.label}, from {connection.folder.root}/code")


def _seconds(given: str | None) -> float | None:
    if given is None:
        return None
    return math.inf if given == "UNLIMITED" else parse_duration(given, where="config.time")


def _successors(settings: SlurmSettings, said: ClusterFacts) -> Iterator[Finding]:
    """Whether jobs can queue the next one of a training step."""
    if settings.max_allocations == 1:
        return
    found = job_rules.used_partition(settings.partition, said.partitions or [])
    open_to = said.alloc_nodes.get(found.name if found else settings.partition or "", "ALL")
    if open_to == "ALL":
        yield unknown(
            "successors", "no setting keeps jobs from queueing the next one; whether they can shows in a job"
        )
    else:
        text = f"jobs may be submitted from {open_to} only, so that a training step goes on only"
        yield warning("successors", f"{text} while the service runs")


def _pyxis(settings: SlurmSettings, said: ClusterFacts) -> Iterator[Finding]:
    container = settings.container
    if container is None or container.runtime != "pyxis":
        return
    if said.containers:
        yield ok("containers", "srun takes --container-image")
    elif said.containers is None:
        yield unknown("containers", "srun did not say whether it takes --container-image")
    else:
        text = (
            "config.container: srun takes no --container-image, so Pyxis is not there; set runtime to "
            "apptainer if the site has that, else leave the container out"
        )
        if "runtime" in container.model_fields_set:  # somebody says that it is there: on nodes alone, perhaps
            yield warning("containers", f"{text}, unless it is there on nodes only")
        else:
            yield problem("containers", f"{text}.")


def _root(root: Path, seen: HostSurvey, label: str) -> Iterator[Finding]:
    if seen.unwritable:
        yield problem("storage", f"config.root: {root} on {label} cannot be written to: {seen.unwritable}.")
        return
    why = ownership.why_not_ours(PurePosixPath(root), label, owner=seen.owner, user=seen.user, mode=seen.mode)
    if why is not None:
        yield problem("storage", f"{why}.")
    elif seen.mode & 0o055:
        yield warning("storage", f"config.root: others may look into {root} on {label}: chmod 700 {root}")
    else:
        yield ok("storage", f"{root} is for its owner alone; that all nodes see it shows in a job")
    if seen.free_bytes is None:
        yield unknown("space", f"{root} does not say how much is free")
    else:
        shown = f"{size_in_words(seen.free_bytes)} are free at {root}"
        little = seen.free_bytes < _LITTLE_SPACE
        yield warning("space", f"{shown}; checkpoints may not fit") if little else ok("space", shown)


def _clock(seen: HostSurvey, label: str) -> Finding:
    if abs(seen.ahead) <= _CLOCKS_AGREE:
        return ok("clock", f"{label} and the service agree within {_CLOCKS_AGREE:g} s")
    which = "ahead of" if seen.ahead > 0 else "behind"
    text = f"the clock of {label} is {abs(seen.ahead):.0f} s {which} the service's, and times of jobs with it"
    return warning("clock", f"{text}; have both set by NTP")


def _python(settings: SlurmSettings, own: Interpreter, label: str) -> Finding:
    about, key = "python", f"config.python: {settings.python}"
    if not own.tried:
        return unknown(about, f"{key} was not tried, since config.setup ends the shell before it")
    if own.version is None:
        return problem(about, f"{key} does not run on {label}: {own.said}; name one of Python 3.11 or newer.")
    shown = ".".join(map(str, own.version))
    if own.version < OLDEST_PYTHON:
        return problem(about, f"{key} on {label} is Python {shown}; name one of Python 3.11 or newer.")
    return ok(about, f"{settings.python} is Python {shown}")


def _engines(settings: SlurmSettings, provider: Provider, seen: HostSurvey, label: str) -> Iterator[Finding]:
    for name, engine in seen.engines.items():
        yield _engine(name, engine, label, inside=settings.container is not None)
    for name in sorted(settings.engines.keys() - EnginesSettings.model_fields.keys()):
        # a step may name an engine that the service does not know, so only a likely slip is one
        if meant := suggestion(name, EnginesSettings.model_fields):
            text = f"config.engines.{name}: the service knows no engine of this name{meant}"
            yield warning("engines", f"{text}; only steps that name it themselves are run with it")
    if not settings.engines and settings.host is not None:
        yield warning("engines", "config.engines: it names none, so training steps are refused here")
    if settings.engines and settings.device == "cuda" and not needs_of(provider).gpus:
        text = f"config.device: it is cuda, and steps of a profile of {provider} get no GPU; set it to cpu"
        yield warning("device", text)


def _engine(name: str, engine: Interpreter, label: str, *, inside: bool) -> Finding:
    about, key = f"engine {name}", f"config.engines.{name}: {engine.python}"
    if not engine.tried:
        return unknown(about, f"{key} was not tried, since config.setup ends the shell before it")
    if engine.version is None and inside:
        return unknown(about, f"{key} does not run on {label} itself; it may be inside the container")
    if engine.version is None:
        return problem(about, f"{key} does not run on {label}: {engine.said}.")
    if engine.missing:
        text = f"{key} on {label} has no {', '.join(engine.missing)}; install what the engine needs there"
        return (
            unknown(about, f"{text}, unless the container has it") if inside else problem(about, f"{text}.")
        )
    has = ", ".join(f"{package} {version}" for package, version in engine.versions.items())
    shown = ".".join(map(str, engine.version))
    return ok(about, f"{engine.python}, Python {shown}{' with ' if has else ''}{has}")


def _image(settings: SlurmSettings, seen: HostSurvey, label: str) -> Iterator[Finding]:
    container = settings.container
    if container is None:
        return
    if container.runtime == "apptainer":
        if "apptainer" in seen.missing:
            text = f"config.container: {label} has no program apptainer; it may be there on nodes only"
            yield warning("containers", f"{text}, or config.setup has to make it reachable")
        else:
            yield ok("containers", f"{label} has apptainer")
    if container.image is None:
        yield ok("image", "steps that name no image run on the nodes as they are")
    elif container.image in seen.missing:
        yield problem("image", f"config.container.image: there is no {container.image} on {label}.")
    elif container.image.startswith("/"):
        yield ok("image", container.image)
    else:
        yield unknown("image", f"{container.image} is a name; whether nodes can get it shows in a job")


def _device(path: Path) -> int | None:
    """The file system of a path, or of the nearest folder above it."""
    for one in (path, *path.parents):
        try:
            return one.stat().st_dev
        except OSError:
            continue
    return None
