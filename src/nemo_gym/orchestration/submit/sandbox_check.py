"""Whether the sandboxes that benchmarks run code in work on this machine, and what holds their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym import plugins
from nemo_gym.agents.registry import AGENTS
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.tools.config_files import tool_specs
from nemo_gym.tools.toolbox import runs_code_of_model
from nemo_gym.verifiers.registry import VERIFIERS
from nemo_gym.verifiers.source_files import verifier_specs
from nemo_runs import findings
from nemo_runs.findings import Finding

_ABOUT = "sandbox"
_HELD = {
    "cgroups": "the kernel holds its limits (cgroups)",
    "watcher": "a watching thread holds its limits, and memory and disk can go beyond them for a moment",
}


def look(runs: Mapping[str, BenchmarkRun], *, elsewhere: str | None, on_nodes: bool) -> Iterator[Finding]:
    """A finding for each benchmark that runs code.

    ``elsewhere`` names the machine that jobs are submitted from when it is not this one. ``on_nodes``: jobs
    run on other machines than the one that they are submitted from.
    """
    for name, run in runs.items():
        for spec in sandboxes_of(run.run or {}):
            if elsewhere is not None:
                text = (
                    f"{name} runs code; whether a sandbox works on {elsewhere} is tried when its job begins"
                )
                yield findings.unknown(_ABOUT, text)
            else:
                yield _here(name, spec, on_nodes=on_nodes)


def sandboxes_of(run: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The options `sandbox` of the agent and the verifiers of one run, defaults where they are left out."""
    benchmark = run.get("benchmark") or {}
    parts = [(AGENTS, spec) for spec in [benchmark.get("agent")] if isinstance(spec, Mapping)]
    parts += [(VERIFIERS, spec) for spec in verifier_specs(benchmark.get("verifier"))]
    for kind, spec in parts:
        try:
            fields = plugins.load_class(kind, spec, where="").cls.Options.model_fields
        except ConfigError:
            continue  # said elsewhere
        if "sandbox" in fields:
            value = spec.get("sandbox", fields["sandbox"].get_default(call_default_factory=True))
            if value is None and any(map(runs_code_of_model, tool_specs(spec))):
                value = {}
            if isinstance(value, Mapping):
                yield value


def _here(name: str, spec: Mapping[str, Any], *, on_nodes: bool) -> Finding:
    from nemo_gym.sandbox.registry import environment_of, load_sandbox, probe_now

    try:
        sandbox = load_sandbox(spec)
        environment = environment_of(spec)
    except ConfigError as error:
        return findings.problem(_ABOUT, f"{name}: {error}")
    if environment is not None and environment.find_python() is None:
        text = (
            f"{name}: the environment '{environment.name}' is not installed here; `gym eval prepare` of this "
            "benchmark installs it, else its first job does, which needs a network"
        )
        return findings.warning(_ABOUT, text)
    found = probe_now(sandbox)
    nodes = "; compute nodes may be set up otherwise, and it is tried there when a job begins"
    if not found.works and on_nodes:
        return findings.warning(_ABOUT, f"{name} runs code, and here {found.reason}{nodes}")
    if not found.works:
        return findings.problem(_ABOUT, f"{name} runs code, and {found.reason}")
    versions = ", ".join(f"{program} {version}" for program, version in found.versions.items())
    kind = f"{found.type} ({versions})" if versions else found.type
    if found.type == "none":
        text = f"{name} runs code as you, with your files and network: sandbox.type is none"
        return findings.warning(_ABOUT, text)
    notes = "".join(f"; {note}" for note in found.notes)
    has = "" if environment is None else f" with the environment '{environment.name}'"
    text = f"{name}: {kind}{has} works here; {_HELD[found.limits_by]}{notes}{nodes if on_nodes else ''}"
    return findings.ok(_ABOUT, text)
