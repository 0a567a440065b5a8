"""Whether a step can be started as things are: asked before anything is changed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobSpec
from nemo_helix_server.controller.launches import LaunchError, Launches
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.executors.base import (
    CapacityRequest,
    MachineTooSmallError,
    NeverPossibleError,
    NotConfinedError,
)
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs import identifiers
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.storage import run_lookup
from nemo_helix_server.storage.run_files import StepRun


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Says what prevents a start; it takes nothing and writes nothing."""

    launches: Launches
    executor: Executors

    def check_spec(self, spec: HelixJobSpec) -> None:
        """Raise `InvalidError` for the first step of a new job that its executor can never give a place."""
        for step in spec.model_dump(mode="json")["steps"]:
            try:
                self._require_place(step, f"the step {step['name']}", "")
            except NotConfinedError as error:
                raise InvalidError(f"the step {step['name']}: {error}") from error
            except MachineTooSmallError as error:
                raise InvalidError(
                    f"{error}; ask for less, or run the service where there is more"
                ) from error
            except (LaunchError, NeverPossibleError) as error:
                raise InvalidError(str(error)) from error

    def obstacle(self, context: StepContext, steps: tuple[Mapping[str, Any], ...] = ()) -> str | None:
        """Why a step, or one of ``steps`` of the same attempt, cannot be started now; None: nothing does.

        A wait for other work is not an obstacle.
        """
        for spec in steps or (context.step.spec,):
            one = replace(context, step=replace(context.step, spec=spec, name=str(spec["name"])))
            try:
                self._require(one)
            except (LaunchError, NeverPossibleError) as error:
                return str(error)
        return None

    def _require(self, context: StepContext) -> None:
        step = context.step
        self._require_place(step.spec, f"the step {step.name}", context.workspace)
        self.launches.check(context)
        self._require_program(context)

    def _require_place(self, spec: Mapping[str, Any], what: str, workspace: str) -> None:
        needs = self.launches.needs(spec)
        names = (workspace, "", "", what, what)
        run = StepRun(*names, self.launches.executor(spec), run_lookup.profile_of(spec))
        slots, confined = 0 if needs.gpus else 1, self.launches.confines(self.launches.settings_of(spec))
        request = CapacityRequest(run, what, workspace, needs, slots, (0.0, 0), confined)
        self.executor.require_possible(request)

    def _require_program(self, context: StepContext) -> None:
        """An engine's interpreter may have been removed; what a job makes for itself is its own affair."""
        executor = self.launches.executor(context.step.spec)
        run = run_lookup.new_run(context, identifiers.task_name(), executor)
        place = self.executor.place(run, self.launches.settings(context))
        argv = self.launches.command(context, place)
        if not argv or self._is_made_by_the_job(argv[0], run):
            return
        environment = self.launches.environment(context, place)
        if not place.has_program(argv, environment):
            raise LaunchError(
                f"the step {context.step.name} runs {argv[0]}, which is not a program here any more; put it "
                "back (`nemo engines list` shows the engines, `nemo engines install` makes them)"
            )

    def _is_made_by_the_job(self, program: str, run: StepRun) -> bool:
        paths = self.executor.files(run).paths(run)
        return any(
            PurePosixPath(program).is_relative_to(folder)
            for folder in (paths.storage, paths.scratch, paths.folder)
        )
