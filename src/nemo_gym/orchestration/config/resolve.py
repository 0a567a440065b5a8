"""From a submit file and the command line to the config exactly as submitted.

The resolved config can be submitted again and means the same: interpolations are resolved (a remaining
``${`` is escaped), overrides are applied, paths are absolute, ``host:VAR`` stays ``host:VAR``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nemo_gym import composition
from nemo_gym.composition import Override
from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.orchestration.config import clusters, fragments, rules
from nemo_gym.orchestration.config.registered_model import with_model
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.rollouts.run_config import foreign_names
from nemo_gym.rollouts.run_config.schema import RUN_KEYS
from nemo_gym.serving.registered import RegisteredModel
from nemo_gym.spelling import WrittenFloat, WrittenInt, remembered
from nemo_runs.suggestions import suggestion

_BRACE = re.compile(r"(\\*)\$\{")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What the command line asks for besides overrides."""

    only: Sequence[str] = ()
    """Names of the benchmarks, and of the models of a campaign, to submit; empty: all."""
    limit: int | None = None
    """At most so many tasks of each benchmark."""
    walltime: str | None = None
    model: RegisteredModel | None = None
    """The model that answers, in place of what the file says."""


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A submit config as submitted."""

    config: SubmitConfig
    plain: dict[str, Any]
    """The whole config as plain values, defaults filled in, ready to be written and submitted again."""
    digest: str
    """SHA-256 of the config; equal digests mean the same submission."""
    source: Path
    """The submit file, absolute."""
    parts: tuple[ResolvedConfig, ...] = ()
    """What is submitted, one for each cluster; empty for such a part itself."""

    def to_yaml(self) -> str:
        """The text of ``resolved-config.yaml``: keys in the schema's order."""
        return to_yaml(self.plain)

    def to_json(self) -> str:
        """The same as one JSON document."""
        return json.dumps(self.plain, indent=2, ensure_ascii=False)


_OF_A_MODEL: Final = {
    **dict.fromkeys(("url", "base_url", "model_url", "api_base", "endpoint"), "run.policy_base_url"),
    **dict.fromkeys(("name", "model_name"), "run.policy_model_name"),
    **{name: f"run.{path}" for name, path in foreign_names.above("responses_create_params").items()},
    **{name: f"run.responses_create_params.{name}" for name in ("temperature", "top_p", "max_output_tokens")},
    **{name: f"run.{name}" for name in ("policy_base_url", "policy_model_name", "responses_create_params")},
}
"""What people write directly below a model of ``driver.models``, and the keys that are meant."""


def resolve(
    path: Path, overrides: Sequence[Override] = (), narrowing: Narrowing | None = None, *, cwd: Path
) -> ResolvedConfig:
    """Read, override, interpolate and validate a submit config.

    Relative paths in it are taken beside the submit file first, then from ``cwd``. Raises `ConfigError` or
    `UsageError`, one sentence, before anything is written.
    """
    source = Path(os.path.abspath(cwd / path))
    known = composition.KnownKeys.of(SubmitConfig)
    for block in ("run", "prepare"):
        known = known.with_keys(("driver", "benchmarks", "*", block), RUN_KEYS)
    known = known.with_keys(("driver", "run"), RUN_KEYS)
    known = known.with_keys(("driver", "models", "*", "run"), RUN_KEYS)
    models = known.names["driver"].names["models"].values
    assert models is not None
    known = known.with_keys(("driver", "models", "*"), replace(models, aliases=_OF_A_MODEL))
    loaded = fragments.load(source)
    _refuse_benchmark(loaded.content, path)
    composed = composition.compose(loaded.content, overrides, known=known, where=str(source))
    wanted = _narrowed(composition.drop_scratch(composed), narrowing or Narrowing())
    if narrowing is not None and narrowing.model is not None:
        wanted = with_model(wanted, narrowing.model)
    anchored = _with_settings(_anchored(_with_common_run(wanted), [source.parent, cwd]))
    config = composition.check_model(
        SubmitConfig, anchored, where=str(source), known=known, files=loaded.files, keep_spelling=True
    )
    parts = clusters.split(config)
    for part in parts:
        rules.check(part)
    _resume_chains(config)
    whole = _resolved(config, anchored, source)
    return replace(whole, parts=tuple(_resolved(part, anchored, source) for part in parts))


def _refuse_benchmark(loaded: Mapping[str, Any], path: Path) -> None:
    """The config of a benchmark is a part of a submit file, and no submit file itself."""
    if not loaded.keys() & SubmitConfig.model_fields.keys() and loaded.keys() & {"benchmark", "config_paths"}:
        raise ConfigError(
            f"{path}: this is the config of a benchmark, and a submit file is needed here, which names it in "
            f"driver.benchmarks.NAME.run.config_paths; `gym eval run -c {path}` runs it without a job."
        )


def _resolved(config: SubmitConfig, given: Mapping[str, Any], source: Path) -> ResolvedConfig:
    plain = escaped(remembered(given, config.model_dump(mode="json")))
    return ResolvedConfig(config, plain, digest_of(plain), source)


def _resume_chains(config: SubmitConfig) -> None:
    """Let each job of a chain go on with what is recorded, unless the user said otherwise."""
    for job in config.driver.benchmarks.values():
        if job.chain is not None:
            job.run.setdefault("resume_from_cache", True)


def _with_common_run(config: dict[str, Any]) -> dict[str, Any]:
    """The config with ``driver.run`` below the ``run`` of every benchmark that has no command, and gone."""
    driver = config.get("driver")
    common = driver.get("run") if isinstance(driver, Mapping) else None
    benchmarks = driver.get("benchmarks") if isinstance(driver, Mapping) else None
    if not isinstance(common, Mapping) or not common or not isinstance(benchmarks, Mapping):
        return config
    jobs = {
        name: {**job, "run": composition.merge(common, job.get("run") or {})}
        if isinstance(job, Mapping)
        and job.get("command") is None
        and isinstance(job.get("run") or {}, Mapping)
        else job
        for name, job in benchmarks.items()
    }
    rest = (
        {key: value for key, value in driver.items() if key != "run"} if isinstance(driver, Mapping) else {}
    )
    return {**config, "driver": {**rest, "benchmarks": jobs}}


def _with_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The config with the user's own ``notify`` where it says nothing about that; null says: nobody."""
    if "notify" in config:
        return config
    from nemo_gym.orchestration.config.settings import load_settings

    notify = load_settings().notify
    return config if notify is None else {**config, "notify": notify.model_dump(mode="json")}


def _narrowed(config: dict[str, Any], narrowing: Narrowing) -> dict[str, Any]:
    """The config with ``--only``, ``--limit`` and ``--walltime`` put in."""
    driver = config.get("driver")
    benchmarks = driver.get("benchmarks") if isinstance(driver, Mapping) else None
    if isinstance(driver, Mapping) and isinstance(benchmarks, Mapping):
        models = driver.get("models")
        models = dict(models) if isinstance(models, Mapping) else {}
        named = [name for name in narrowing.only if name in models and name not in benchmarks]
        if named:
            driver = {**driver, "models": {key: models[key] for key in models if key in named}}
        chosen = _only(benchmarks, [name for name in narrowing.only if name not in named], models)
        if narrowing.limit is not None:
            chosen = {name: _limited(name, job, narrowing.limit) for name, job in chosen.items()}
        config = {**config, "driver": {**driver, "benchmarks": chosen}}
    compute = config.get("compute")
    if narrowing.walltime is not None and isinstance(compute, Mapping):
        timed = {
            name: {**entry, "walltime": narrowing.walltime} if isinstance(entry, Mapping) else entry
            for name, entry in compute.items()
        }
        config = {**config, "compute": timed}
    return config


def _only(benchmarks: Mapping[str, Any], only: Sequence[str], models: Mapping[str, Any]) -> dict[str, Any]:
    for name in only:
        if name not in benchmarks:
            known = [*benchmarks, *models]
            hint = suggestion(name, known) or f"; there are {', '.join(known)}"
            where = "no such benchmark in driver.benchmarks"
            if models:
                where = "no such benchmark or model"
            raise UsageError(f"--only {name}: {where}{hint}.")
    return {name: job for name, job in benchmarks.items() if not only or name in only}


def _limited(name: str, job: Any, limit: int) -> Any:
    if not isinstance(job, Mapping):
        return job
    if job.get("command") is not None:
        raise UsageError(
            f"--limit cannot limit driver.benchmarks.{name}, which runs a command; name others with --only."
        )
    run = job.get("run")
    return {**job, "run": {**(run if isinstance(run, Mapping) else {}), "limit": limit}}


def _anchored(config: dict[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """The config with its relative paths made absolute."""
    anchored = dict(config)
    job, driver = config.get("job"), config.get("driver")
    if isinstance(job, Mapping) and isinstance(path := job.get("output_path"), str) and path:
        _refuse_relative_elsewhere(path, config.get("compute"))
        anchored["job"] = {**job, "output_path": os.path.abspath(folders[-1] / Path(path).expanduser())}
    if not isinstance(driver, Mapping):
        return anchored
    driver = dict(driver)
    if isinstance(gym := driver.get("gym"), str) and "/" in gym:
        driver["gym"] = _found(gym, folders)
    benchmarks = driver.get("benchmarks")
    if isinstance(benchmarks, Mapping):
        driver["benchmarks"] = {name: _anchored_job(job, folders) for name, job in benchmarks.items()}
    return {**anchored, "driver": driver}


def _refuse_relative_elsewhere(path: str, compute: Any) -> None:
    """A relative path means a place on this machine."""
    entries = (compute if isinstance(compute, Mapping) else {}).items()
    hosts = {
        name: entry.get("hostname")
        for name, entry in entries
        if isinstance(entry, Mapping) and entry.get("output_path") is None
    }
    for name, host in hosts.items():
        if isinstance(host, str) and not path.startswith("/") and not _is_this_machine(host):
            raise ConfigError(
                f"job.output_path: {path} is relative to a folder of this machine, but "
                f"compute.{name}.hostname is {host}; give an absolute path on that machine."
            )


def _is_this_machine(host: str) -> bool:
    from nemo_slurm.hosts import is_this_machine

    return is_this_machine(host)


def _anchored_job(job: Any, folders: Sequence[Path]) -> Any:
    if not isinstance(job, Mapping):
        return job
    mappings = {key: job[key] for key in ("prepare", "run") if isinstance(job.get(key), Mapping)}
    return {**job, **{key: _anchored_mapping(value, folders) for key, value in mappings.items()}}


def _anchored_mapping(mapping: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    anchored = dict(mapping)
    paths = mapping.get("config_paths")
    if isinstance(paths, list):
        anchored["config_paths"] = [_found(path, folders) for path in paths]
    if isinstance(rows := mapping.get("input_jsonl_fpath"), str):
        anchored["input_jsonl_fpath"] = _found(rows, folders)
    return anchored


def _found(path: Any, folders: Sequence[Path]) -> Any:
    """The absolute path where a relative one is found; what is not found stays (a shipped benchmark, say)."""
    if not isinstance(path, str) or not path:
        return path
    expanded = Path(path).expanduser()
    for folder in folders:
        if (folder / expanded).exists():
            return os.path.abspath(folder / expanded)
    return path


def escaped(value: Any) -> Any:
    """The value with every ``${`` escaped, so that reading it again takes it as text."""
    if isinstance(value, str):
        return _BRACE.sub(lambda found: found[1] * 2 + r"\${", value)
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value


def digest_of(plain: Mapping[str, Any]) -> str:
    """SHA-256 of a resolved config, as ``resolved-config.yaml`` holds it."""
    import hashlib

    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def to_yaml(plain: Mapping[str, Any]) -> str:
    """YAML text that `composition.load_yaml` reads back to the same values, in the same order."""
    import yaml

    from nemo_gym.yaml_files import TextLoader

    class Dumper(yaml.SafeDumper):
        """Quotes every text that our reader or a plain YAML 1.1 reader would take for something else."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - a value that stands twice is written twice
            return True

    Dumper.yaml_implicit_resolvers = {
        first: yaml.SafeDumper.yaml_implicit_resolvers.get(first, [])
        + TextLoader.yaml_implicit_resolvers.get(first, [])
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *TextLoader.yaml_implicit_resolvers}
    }
    Dumper.add_representer(str, _represent_text)
    Dumper.add_representer(WrittenInt, _represent_int)
    Dumper.add_representer(WrittenFloat, _represent_float)
    return yaml.dump(dict(plain), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)


def _represent_int(dumper: Any, value: WrittenInt) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:int", value.text)


def _represent_float(dumper: Any, value: WrittenFloat) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:float", value.text)


def _represent_text(dumper: Any, text: str) -> Any:
    """Several lines as a block, so that shell text stays readable."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
