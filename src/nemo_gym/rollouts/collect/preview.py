"""The first requests of a run exactly as they would be sent, without a server: each agent's first one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.agents.registry import load_agent
from nemo_gym.rollouts.data.dataset import Planned, check_rows, materialize, read_rows
from nemo_gym.rollouts.data.prepare import ensure_data, with_definition
from nemo_gym.rollouts.judges.configured import UnnamedJudges, judges_of
from nemo_gym.rollouts.policy import apis, likelihoods
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.rollouts.scores.whole_answers import load_grader
from nemo_gym.types import LogLikelihood, Row, Task

UNNAMED = "MODEL"
"""Stands for the model's name where none is given."""


@dataclass(frozen=True, slots=True)
class PreviewedRequest:
    """One request."""

    task_index: int
    url: str
    """Where it goes; the path alone where no server is named."""
    body: Row


class _Asked(Exception):  # noqa: N818 - it ends an agent at its first question, which is not an error
    pass


class _Listener:
    """A policy that takes down what it is asked and never answers."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._model = config.policy_model_name or UNNAMED
        self.path = ""
        self.body: Row | None = None

    async def respond(self, params: Mapping[str, Any]) -> Row:
        if self.body is None:
            api, role = self._config.policy_api, self._config.policy_system_role
            self.path = apis.PATHS[api]
            plain = json.loads(json.dumps(params))
            self.body = apis.request_body(api, self._model, plain, system_role=role)
        raise _Asked

    async def score(self, context: Sequence[int], continuation: Sequence[int]) -> LogLikelihood:
        if self.body is None:
            self.path = likelihoods.PATH
            self.body = likelihoods.request_body(self._model, [*context, *continuation])
        raise _Asked


def first_requests(config: RunConfig, count: int, report: Any) -> Iterator[PreviewedRequest]:
    """The first request of each of the first ``count`` tasks, which are checked as a run checks them.

    Raises `nemo_gym.errors.GymError` for what would keep the run from asking. An agent that asks nothing has
    no request.
    """
    chosen = config.model_copy(update={"limit": min(count, config.limit or count), "num_repeats": 1})
    chosen = with_definition(chosen, report=report)
    agent = load_agent(chosen.benchmark.agent)
    path = ensure_data(chosen, report=report)
    num_tasks(chosen, path)
    base = (config.policy_base_url or "").rstrip("/")
    for number, line in enumerate(materialize(chosen, read_rows(path, limit=chosen.limit))):
        listener = _Listener(config)
        try:
            asyncio.run(agent.run(Task(number, 0, json.loads(line)), listener))
        except Exception:
            if listener.body is None:
                raise
        if listener.body is not None:
            yield PreviewedRequest(number, base + listener.path, listener.body)


def num_tasks(config: RunConfig, path: Path) -> int:
    """How many tasks a run would ask of a file of rows, which are checked as a run checks them: all of them.

    Raises `nemo_gym.errors.GymError` for what would keep the run from asking or from grading.
    """
    judges = judges_of(config, None) if config.judge_models else UnnamedJudges()
    grader = load_grader(config.benchmark, repeats=config.repeats, judges=judges)
    return check_rows(config, path, grader, planned=Planned(0)).num_tasks
