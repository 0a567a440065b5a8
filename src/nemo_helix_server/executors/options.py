"""What holds for an executor that has none of the optional methods, and for one that has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import (
    Admits,
    Admitted,
    CapacityRequest,
    Checks,
    Continues,
    EngineFinder,
    FindsSoftware,
    KeepsFiles,
    KnowsChains,
    Located,
    RunPlace,
    Software,
    StepExecutor,
    WaitingForCapacity,
    Wakes,
    Warms,
)
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_runs import findings
from nemo_runs.findings import Finding


class UnknownPlace:
    """A place to run of which nothing is known before the start; see `base.RunPlace`."""

    def environment(self) -> Mapping[str, str]:
        """See the protocol: the profile and the step say everything."""
        return {}

    def machine(self) -> TrainingMachine | None:
        """See the protocol."""
        return None

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """See the protocol."""
        return here(name)

    def python(self) -> str | None:
        """See the protocol."""
        return None

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:  # noqa: ARG002 - the protocol's
        """See the protocol."""
        return True

    def environment_digest(
        self,
        argv: tuple[str, ...],  # noqa: ARG002 - the protocol's
        environment: Mapping[str, str],  # noqa: ARG002 - the protocol's
    ) -> str | None:
        """See the protocol."""
        return None


def _layers(executor: StepExecutor) -> Iterator[object]:
    """An executor, and below it the one that it passes on to."""
    layer: object = executor
    while layer is not None:
        yield layer
        layer = getattr(layer, "inner", None)


def admit(executor: StepExecutor, request: CapacityRequest) -> Admitted | WaitingForCapacity:
    """See `base.Admits`; without it every run may start, and waits, if at all, where it was handed to."""
    for layer in _layers(executor):
        if isinstance(layer, Admits):
            return layer.admit(request)
    return Admitted((), request.slots)


def require_possible(executor: StepExecutor, request: CapacityRequest) -> None:
    """See `base.Admits`; without it nothing is impossible before it was tried."""
    for layer in _layers(executor):
        if isinstance(layer, Admits):
            layer.require_possible(request)
            return


def release(executor: StepExecutor, run: StepRun) -> None:
    """See `base.Admits`; without it nothing was taken."""
    for layer in _layers(executor):
        if isinstance(layer, Admits):
            layer.release(run)
            return


def files(executor: StepExecutor, run: StepRun, otherwise: RunStorage) -> RunStorage:
    """See `base.KeepsFiles`; without it ``otherwise``, the service's data directory, has the files."""
    for layer in _layers(executor):
        if isinstance(layer, KeepsFiles):
            return layer.files(run)
    return otherwise


def place(executor: StepExecutor, profile: ProfileSettings) -> RunPlace:
    """See `base.Located`; without it nothing is known of the place."""
    for layer in _layers(executor):
        if isinstance(layer, Located):
            return layer.place(profile)
    return UnknownPlace()


def finds_software(executor: StepExecutor) -> bool:
    """Whether the executor is a `base.FindsSoftware`."""
    return any(isinstance(layer, FindsSoftware) for layer in _layers(executor))


def software(executor: StepExecutor, run: StepRun) -> Software | None:
    """See `base.FindsSoftware`; without it the place has said everything before the start."""
    for layer in _layers(executor):
        if isinstance(layer, FindsSoftware):
            return layer.software(run)
    return None


def end_chain(executor: StepExecutor, run: StepRun) -> None:
    """See `base.Continues`; without it nothing was queued."""
    if isinstance(executor, Continues):
        executor.end_chain(run)


def open_chains(executor: StepExecutor) -> Sequence[StepRun]:
    """See `base.KnowsChains`; without it none is known."""
    found = (layer for layer in _layers(executor) if isinstance(layer, KnowsChains))
    return next((layer.open_chains() for layer in found), ())


def descriptors(executor: StepExecutor) -> tuple[int, ...]:
    """See `base.Wakes`; one without it is polled."""
    return executor.descriptors() if isinstance(executor, Wakes) else ()


def warm(executor: StepExecutor) -> None:
    """See `base.Warms`; one without it has nothing to begin."""
    if isinstance(executor, Warms):
        executor.warm()


def check(executor: StepExecutor, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:
    """See `base.Checks`; without it there is nothing to check."""
    for layer in _layers(executor):
        if isinstance(layer, Checks):
            return layer.check(profile, provider)
    return [findings.unknown("executor", "nothing to check: it cannot try its profiles")]


def drain(descriptors: Iterable[int]) -> tuple[int, ...]:
    """Empty what `descriptors` gave; those from which nothing can come any more."""
    ended = []
    for descriptor in descriptors:
        with contextlib.suppress(BlockingIOError):
            while os.read(descriptor, 1 << 16):
                pass
            ended.append(descriptor)
    return tuple(ended)
