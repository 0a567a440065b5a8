"""The agent of a command's benchmark: its answers were given before, to the command."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from nemo_gym.command_benchmark.results import CommandResults, Sample
from nemo_gym.types import Episode, Policy, RolloutFailedError, Row, Task

GRADE = "command_grade"
"""Field of a result: the grade as the command wrote it."""
SCORE = "command_score"
"""Field of a result: the score of the whole run as the command says it."""
METRICS = "command_metrics"
"""Field of a result: further numbers of the sample."""


class NoCommandAgentOptions(BaseModel):
    """The agent has no options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CommandAgent:
    """Give the answers that a command has recorded."""

    Options: ClassVar[type[BaseModel]] = NoCommandAgentOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = options
        self._results: CommandResults | None = None

    def bind(self, results: CommandResults) -> None:
        """Give it what was read."""
        self._results = results

    async def run(self, task: Task, policy: Policy) -> Episode:
        """One sample. One that the command says has failed, or has not, is a failed rollout for good."""
        del policy
        if self._results is None:
            raise RolloutFailedError("command_error", "the command has not run", terminal=True)
        samples = self._results.questions[task.task_index].samples
        if task.rollout_index >= len(samples):
            raise RolloutFailedError("command_error", "the command wrote no such sample", terminal=True)
        sample = samples[task.rollout_index]
        if sample.error is not None:
            raise RolloutFailedError("command_error", sample.error, terminal=True)
        fields: Row = {GRADE: sample.grade}
        if sample.metrics:
            fields[METRICS] = dict(sample.metrics)
        if self._results.score is not None:
            fields[SCORE] = self._results.score
        return Episode(_response(sample), fields=fields)


def _response(sample: Sample) -> Row:
    """A Responses object for an answer that the command had from the server."""
    sent, made = sample.input_tokens, sample.output_tokens
    content = [{"type": "output_text", "text": sample.answer, "annotations": []}]
    return {
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": content}],
        "usage": {"input_tokens": sent, "output_tokens": made, "total_tokens": sent + made},
    }
