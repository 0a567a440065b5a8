"""The agent of plain benchmarks: one question, one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from nemo_gym.types import Episode, Policy, RolloutFailedError, Row, Task


class SingleTurnOptions(BaseModel):
    """The single-turn agent has no options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SingleTurnAgent:
    """Send the task's ``responses_create_params`` once and take what comes back."""

    Options: ClassVar[type[BaseModel]] = SingleTurnOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = options

    async def run(self, task: Task, policy: Policy) -> Episode:
        """Ask once. An answer that itself says ``failed`` is a failed rollout, never an empty answer."""
        return Episode(await answer(policy, task.row["responses_create_params"]))


async def answer(policy: Policy, params: Mapping[str, Any]) -> Row:
    """Ask once. Raises `RolloutFailedError` for an answer that itself says ``failed``."""
    response = await policy.respond(params)
    if response.get("status") == "failed":
        error = response.get("error") or {}
        message = error.get("message") if isinstance(error, dict) else str(error)
        raise RolloutFailedError(
            "agent_run_error", f"the model's answer says failed: {message or 'no reason'}"
        )
    return response
