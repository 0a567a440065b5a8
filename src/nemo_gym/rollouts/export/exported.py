"""One output as every export sees it: manifest, summary, rollouts, and whether these may be given away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.reading.located import LocatedRollouts, locate
from nemo_gym.rollouts.reading.recorded import RecordedRollout, RolloutReader
from nemo_gym.rollouts.scores.summary import Summary, load_summary

UNPUBLISHED = {"gpqa": "the authors of GPQA ask that its questions are not shown on the internet"}
"""Words in names of benchmarks that must stay unpublished whatever their config says, and why: those of
tasks of lm-eval, which have no config, and of outputs that were begun before configs could say it."""

_ADDRESS = re.compile(
    r"""[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'"<>]+(?<![.,:;)])"""  # a whole address
    r"""|(?<=\bhost )[^\s'"]+"""  # as libraries name a host that does not answer
    r"""|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f:]+\](?::\d+)?""",
)


@dataclass(frozen=True)
class ExportedOutput:
    """One benchmark of a run."""

    benchmark: str
    paths: RolloutPaths
    run: str
    """What the run is called: its id, or its path."""
    labels: Mapping[str, str] = field(default_factory=dict)
    hides_addresses: bool = False
    """Whether reasons of failures are given without the addresses of servers in them."""
    campaign_model: str | None = None
    """Of a campaign: the model's name in its file; several models there may be one server's."""

    @cached_property
    def manifest(self) -> OutputManifest:
        """What the rows belong to. Raises `DataError` where there is no manifest."""
        found = load_manifest(self.paths.manifest)
        if found is None:
            raise DataError(f"{self.paths.manifest}: not there, so it is unknown what the rows belong to.")
        return found

    @cached_property
    def summary(self) -> Summary:
        """What the output came to. Raises `DataError` while nothing was added up."""
        found = load_summary(self.paths)
        if found is None:
            raise DataError(
                f"{self.benchmark} of {self.run} has no summary yet; export it when it has ended."
            )
        return found

    @cached_property
    def located(self) -> LocatedRollouts:
        """Where the rows are."""
        return locate(self.paths)

    @property
    def model(self) -> str:
        """The name under which the model answered, else the one that was asked for."""
        name = (self.manifest.model or {}).get("name") or self.manifest.generation.get("policy_model_name")
        return str(name or "unknown")

    @property
    def column(self) -> str:
        """The benchmark's name without the campaign's model before it."""
        return self.benchmark.removeprefix(f"{self.campaign_model}.")

    @property
    def unpublished(self) -> str | None:
        """Why questions and answers must not leave; ``None`` where they may. Scores always may."""
        if self.manifest.unpublished is not None:
            return self.manifest.unpublished
        words = {word for name in self._names() for word in re.split(r"[^a-z0-9]+", name.lower())}
        return next((reason for word, reason in UNPUBLISHED.items() if word in words), None)

    @property
    def publishes_rows(self) -> bool:
        """Whether questions and answers may leave."""
        return self.unpublished is None

    def _names(self) -> Iterator[str]:
        """All names under which the questions are known; a group of lm-eval has those of its tasks."""
        yield from (self.benchmark, self.benchmark_name)
        found: Any = self.manifest.scoring
        for key in ("benchmark", "lm_eval", "definition", "tasks"):
            found = found.get(key) if isinstance(found, Mapping) else None
        yield from map(str, found or ())

    @property
    def benchmark_name(self) -> str:
        """The benchmark's own name, whatever its folder is called."""
        return self.manifest.benchmark or self.benchmark

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The sampling parameters that were set."""
        found = self.manifest.generation.get("responses_create_params")
        return found if isinstance(found, Mapping) else {}

    @property
    def ended_at(self) -> float:
        """UTC seconds at which the summary was written, else the rows."""
        for path in (self.paths.coverage, self.paths.output):
            if path.exists():
                return path.stat().st_mtime
        return 0.0

    def rollouts(self) -> Iterator[RecordedRollout]:
        """All recorded rollouts by task and repeat; none where rows must stay unpublished."""
        if self.publishes_rows:
            for rollout in RolloutReader(self.located).read(self.located.known()):
                yield _without_addresses(rollout) if self.hides_addresses else rollout

    def settings(self) -> dict[str, Any]:
        """Settings that affect answers and grades, as flat names and plain values.

        Addresses of servers and paths of a machine are left out: they are nobody else's business. So is the
        prompt where rows must stay unpublished, since its examples are rows, too.
        """
        found = [*_flat(self.manifest.generation), *_flat(self.manifest.scoring)]
        hidden = () if self.publishes_rows else ("benchmark.prompt.",)
        return {
            name: value
            for name, value in found
            if not name.startswith(hidden) and not _is_of_a_machine(value)
        }


def _is_of_a_machine(value: Any) -> bool:
    """Whether a value is an address or a path, or has one in it."""
    if isinstance(value, Mapping):
        return any(map(_is_of_a_machine, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_of_a_machine, value))
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9+.-]*://\S+|/\S+", value) is not None


def _without_addresses(rollout: RecordedRollout) -> RecordedRollout:
    """The rollout with reasons of failures that name no server."""
    if not rollout.failures:
        return rollout
    failures = [replace(one, message=_ADDRESS.sub("(address)", one.message)) for one in rollout.failures]
    reason = rollout.reason
    if rollout.outcome == "failed":
        reason = _ADDRESS.sub("(address)", reason)
    return replace(rollout, failures=failures, reason=reason)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
