"""The text of a job script: traps, quoted assignments, and the static shell files that do the work.

Only assignments are generated; everything that acts is in ``nemo_gym/shell``, where it is checked as it is.
Every value is one single-quoted word, so that no value can become shell. Secret values appear as assignments
(not exported; each step exports what its configuration names) and only when ``redacted`` is false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.chain.budget import Budget
from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan.sealed_files import (
    NOT_SEALED,
    SEALED_AGAIN,
    check_of_the_seal,
    data_digests,
    digest_lines,
    folder_name,
    sealed_files,
    shell_parts,
    with_own_digest,
)
from nemo_gym.orchestration.plan.values import JobPlan, OtelPlan, ServicePlan, StepImage
from nemo_runs.secret_refs import VARIABLE, Reference, host_references, parse_reference

_LONGEST_LAST_SCRAPE = 20
_OPENING = """\
#!/usr/bin/env bash
# Job script of one benchmark, written by `gym eval submit`. It may hold secret values: keep it to its owner.
# shellcheck source-path=SCRIPTDIR disable=SC1003,SC1112,SC2016,SC2034
# (quoted values may look like anything, and some are read by name in shell/services.sh)
trap 'gym_asked=${gym_asked:-drain}' USR1
trap 'gym_asked=stop' TERM
"""
_CLOSING = """
# Never returns, so that nothing is read from this file any more while the job runs.
gym_main "$@"
"""


def render_job(plan: JobPlan, *, redacted: bool, sealed: Mapping[str, bytes] | None = None) -> str:
    """The whole script; with ``redacted``, ``<host:VAR>`` replaces each secret value.

    ``sealed`` are the files that it reads, by default those of this installation.
    """
    files = sealed_files(plan) if sealed is None else sealed
    name = folder_name(files)
    folder = JobPaths(plan.job_dir).sealed / name
    lines = [*_job_lines(plan, folder), *_slurm_lines(plan)]
    for index, service in enumerate(plan.services):
        lines += ["", *_service_lines(index, service)]
        if plan.slurm is not None:
            lines += _container_lines(f"GYM_SERVICE_{index}", service.container)
    lines += ["", *_seal_lines(plan, folder, files), *_secret_lines(plan, redacted=redacted), ""]
    sources = [f". {folder.parent.name}/{name}/{part}.sh" for part in shell_parts(plan)]
    change = f"cd -- {quote(str(plan.job_dir))} || exit 1"
    text = [_opening(plan), *lines, check_of_the_seal(), change, 'gym_check_seal "${1-}"', *sources]
    return with_own_digest("\n".join(text) + "\n" + _CLOSING)


def _opening(plan: JobPlan) -> str:
    """The beginning; the scheduler reads its lines right after the first one, up to the first command."""
    if plan.slurm is None:
        return _OPENING
    first, rest = _OPENING.split("\n", 1)
    return "\n".join([first, *(f"#SBATCH {option}" for option in plan.slurm.options), rest])


def quote(text: str) -> str:
    """``text`` as one single-quoted shell word, whatever is in it but a zero byte."""
    if "\0" in text:
        raise ConfigError("a value of the job script holds a zero byte, which no program's argument can hold")
    return "'" + text.replace("'", "'\\''") + "'"


def folder_of(script: str) -> str | None:
    """The folder for which a job script was written; `None` when it is not a job script."""
    _, found, rest = script.partition("\nGYM_JOB_DIR=")
    words = re.match(r"(?:'[^']*'|\\')+", rest)
    return words[0].replace("'\\''", "\0").replace("'", "").replace("\0", "'") if found and words else None


def override_tokens(values: Mapping[str, Any]) -> list[str]:
    """A nested mapping as override tokens ``+a.b=<value>``, each value as JSON, which is YAML too."""
    return [f"+{key}={_json(value)}" for key, value in _leaves(values, "")]


def host_variables(values: object) -> list[str]:
    """The variables of all ``host:VAR`` texts in nested values, each once, in order of appearance."""
    return list(dict.fromkeys(text.removeprefix("host:") for _, text in host_references(values)))


def _job_lines(plan: JobPlan, sealed: Path) -> Iterator[str]:
    yield _assign("GYM_JOB", plan.gym_job_id)
    yield _assign("GYM_BENCHMARK", plan.benchmark)
    yield _assign("GYM_JOB_DIR", str(plan.job_dir))
    yield _assign("GYM_PROGRAM", str(plan.gym))
    yield _assign("GYM_KEEPS", plan.keeps)
    if plan.install is not None:
        yield _assign("GYM_INSTALL_REPO", plan.install.repo)
        yield _assign("GYM_INSTALL_REF", plan.install.ref)
        yield _assign("GYM_INSTALL_FOLDER", str(plan.install.folder))
    yield _assign("GYM_WALLTIME", _limit(plan.walltime))
    yield _assign("GYM_DRAIN_LEAD", _limit(round(plan.drain_lead) or None))
    yield from _chain_lines(plan.budget)
    yield from _driver_lines(plan, sealed)
    yield from _otel_lines(plan.otel)
    yield from _notify_lines(plan)
    services = plan.services
    yield _array("GYM_SERVICE_NAMES", [service.name for service in services])
    yield _array("GYM_SERVICE_PORTS", [str(service.port or 0) for service in services])
    yield _array("GYM_SERVICE_HEALTH_PORTS", [str(service.health_port or 0) for service in services])
    yield _array("GYM_SERVICE_MODELS", [service.model_name for service in services])
    yield _array("GYM_SERVICE_PATHS", [service.health_path for service in services])
    yield _array("GYM_SERVICE_TIMEOUTS", [str(service.health_timeout) for service in services])
    yield from _spread_lines(services)
    yield from _shared_lines(plan)


def _spread_lines(services: Sequence[ServicePlan]) -> Iterator[str]:
    """What is only said where a service is more than one server on the first node."""
    if all(_of(service) == service.name and service.node == 0 for service in services):
        return
    yield _array("GYM_SERVICE_OF", [_of(service) for service in services])
    yield _array("GYM_SERVICE_PLACES", [str(service.node) for service in services])
    heads = (index if service.head is None else service.head for index, service in enumerate(services))
    yield _array("GYM_SERVICE_HEADS", [str(head) for head in heads])
    yield _array("GYM_SERVICE_REPLICAS", [_limit(service.replica) for service in services])
    yield _array("GYM_SERVICE_FIRST_GPUS", [_limit(service.first_gpu) for service in services])
    yield _array("GYM_SERVICE_GPUS", [str(service.gpus) for service in services])


def _of(service: ServicePlan) -> str:
    return service.service or service.name


def _shared_lines(plan: JobPlan) -> Iterator[str]:
    """What the job of a model and the jobs of its benchmarks know of each other."""
    if plan.benchmarks:
        yield _array("GYM_SHARERS", [benchmark.name for benchmark in plan.benchmarks])
        yield _array("GYM_SHARER_CHAINS", ["yes" if its.resumable else "" for its in plan.benchmarks])
    if plan.shared:
        yield _assign("GYM_SHARED", plan.shared)
        yield _assign("GYM_PARALLEL", str((plan.run or {}).get("num_samples_in_parallel") or ""))


def _seal_lines(plan: JobPlan, folder: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    yield _assign("GYM_SCHEDULER", plan.scheduler)
    yield _assign("GYM_SEALED", str(folder))
    yield _assign("GYM_SEALED_FILES", digest_lines(files))
    rows = data_digests(plan)
    yield _assign("GYM_INPUT_FILES", _lines(rows, absolute=False))
    yield _assign("GYM_DATA_FILES", _lines(rows, absolute=True))


def _lines(digests: Mapping[str, str], *, absolute: bool) -> str:
    """A line for each file inside the job's folder, or each outside, as ``sha256sum --check`` reads it."""
    return "\n".join(
        f"{digest}  {name}" for name, digest in digests.items() if name.startswith("/") is absolute
    )


def _secret_lines(plan: JobPlan, *, redacted: bool) -> Iterator[str]:
    yield NOT_SEALED
    yield _assign("GYM_SCRIPT", "")
    for variable, value in plan.secrets.items():
        _check_variable(variable, "secrets")
        yield _assign(f"GYM_SECRET_{variable}", f"<host:{variable}>" if redacted else value.reveal())
    yield SEALED_AGAIN


def _chain_lines(budget: Budget | None) -> Iterator[str]:
    limits = budget or Budget()
    yield _assign("GYM_RESUMABLE", "yes" if budget else "")
    yield _assign("GYM_MAX_RETRIES", str(limits.max_retries))
    yield _assign("GYM_MAX_WALLTIME", _limit(limits.max_walltime))
    yield _assign("GYM_MAX_LINKS_WITHOUT_PROGRESS", _limit(limits.max_links_without_progress))
    yield _assign("GYM_RESUMES", "yes" if limits.resumes else "")


def _limit(value: int | None) -> str:
    return "" if value is None else str(value)


def _slurm_lines(plan: JobPlan) -> Iterator[str]:
    if plan.slurm is None:
        return
    yield _assign("GYM_SETUP", plan.slurm.setup)
    yield _assign("GYM_KILL_ON_INVALID_DEP", "yes" if plan.slurm.kill_on_invalid_dep else "")
    yield _assign("GYM_QUEUE_FROM", plan.slurm.queue_from)
    yield _assign("GYM_RUNTIME", plan.slurm.runtime)
    yield from _container_lines("GYM_DRIVER", plan.container)
    yield from _container_lines("GYM_OTEL", plan.otel.container if plan.otel else None)


def _container_lines(prefix: str, container: StepImage | None) -> Iterator[str]:
    yield _assign(f"{prefix}_IMAGE", container.image if container else "")
    yield _array(f"{prefix}_MOUNTS", [_both_sides(mount) for mount in container.mounts] if container else [])


def _both_sides(mount: str) -> str:
    """A path alone is mounted at the same place."""
    return mount if ":" in mount else f"{mount}:{mount}"


def _driver_lines(plan: JobPlan, sealed: Path) -> Iterator[str]:
    names = [_of(service) for service in plan.services]
    policy = names.index(plan.policy) if plan.policy is not None else None
    # the key of our own service is not among the secrets: the job makes it
    variables = [name for name in host_variables([plan.run, plan.prepare]) if name in plan.secrets]
    named = [(name, Reference("host", name)) for name in variables]
    yield _array("GYM_DRIVER_ENV", _environment([*named, *plan.env.items()], "driver.env"))
    yield _assign("GYM_PREPARE", "" if plan.prepare is None else "yes")
    yield _array("GYM_PREPARE_ARGS", _prepare_arguments(plan, sealed))
    yield _assign("GYM_COMMAND", plan.command or "")
    yield _assign("GYM_POLICY", "" if policy is None else str(policy))
    yield _assign("GYM_POLICY_HOST", plan.policy_host)
    wired: dict[str, Any] = {}
    if policy is not None:
        model = plan.services[policy].model_name
        wired = {"policy_model_name": model, "policy_service_name": plan.policy}
    yield _array("GYM_POLICY_ARGS", override_tokens(wired))


def _prepare_arguments(plan: JobPlan, sealed: Path) -> list[str]:
    config = [] if plan.run is None else ["--config", str(sealed / JobPaths(sealed).run_config.name)]
    return [*config, *override_tokens(plan.prepare or {})]


def _otel_lines(otel: OtelPlan | None) -> Iterator[str]:
    if otel is not None:
        _check_variable(otel.token_env, "otel.token_env")
    yield _assign("GYM_OTEL_BINARY", otel.binary if otel else "")
    yield _assign("GYM_OTEL_TOKEN_ENV", otel.token_env if otel else "")
    yield _assign("GYM_OTEL_TIMEOUT", str(otel.health_check_timeout_seconds) if otel else "")
    yield _assign("GYM_OTEL_PAUSE", str(_last_scrape_pause(otel.config)) if otel else "")


def _notify_lines(plan: JobPlan) -> Iterator[str]:
    if plan.notify is None:
        return
    found = {
        reference.text: reference
        for where, value in plan.notify.values().items()
        if (reference := parse_reference(value, where=where)).kind == "host"
    }
    yield _assign("GYM_NOTIFY", "yes")
    yield _assign(
        "GYM_NOTIFY_AFTER",
        str(60 * plan.notify.no_progress_minutes) if "no_progress" in plan.notify.on else "",
    )
    yield _array("GYM_NOTIFY_ENV", _environment(found.items(), "notify"))


def _last_scrape_pause(config: Mapping[str, Any]) -> int:
    """Seconds after the driver's end until everything has been scraped once more: one interval, bounded."""
    prometheus = config.get("receivers", {}).get("prometheus", {})
    jobs = prometheus.get("config", {}).get("scrape_configs", [])
    intervals = [int(match[1]) for job in jobs if (match := re.fullmatch(r"(\d+)s", job["scrape_interval"]))]
    return min(max(intervals, default=0) + 1, _LONGEST_LAST_SCRAPE)


def _service_lines(index: int, service: ServicePlan) -> Iterator[str]:
    prefix = f"GYM_SERVICE_{index}"
    yield _array(f"{prefix}_ENV", _environment(service.env.items(), f"services.{service.name}.env"))
    yield _array(f"{prefix}_ARGV", service.argv or [])
    yield _assign(f"{prefix}_SHELL", service.shell or "")
    yield _assign(f"{prefix}_PRE", service.pre_command)


def _environment(entries: Iterable[tuple[str, Reference]], where: str) -> list[str]:
    """Triples of key, kind and text, as ``gym_export`` of the shell reads them."""
    kinds = {"lit": "lit", "host": "secret", "runtime": "runtime"}
    words: list[str] = []
    for key, reference in entries:
        _check_variable(key, where)
        words += [key, kinds[reference.kind], reference.text]
    return words


def _check_variable(name: str, where: str) -> None:
    if not re.fullmatch(VARIABLE, name):
        raise ConfigError(f"{where}: {name!r} cannot be the name of an environment variable")


def _assign(name: str, value: str) -> str:
    return f"{name}={quote(value)}"


def _array(name: str, values: Sequence[str]) -> str:
    if not values:
        return f"{name}=()"
    return "\n".join([f"{name}=(", *(f"  {quote(value)}" for value in values), ")"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
