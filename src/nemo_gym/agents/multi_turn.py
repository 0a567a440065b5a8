"""The agent of scripted conversations: each row says several things, one after the other."""

from __future__ import annotations

from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict

from nemo_gym.agents.usage import total_usage
from nemo_gym.types import (
    CONVERSATION,
    Episode,
    Policy,
    RolloutFailedError,
    Row,
    Task,
    answer_end,
)


class MultiTurnOptions(BaseModel):
    """Options of the multi-turn agent, which ``benchmark.prompt.turns`` sets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    """The field of the row with what the user says: texts, the first of which is in the request already."""


class MultiTurnAgent:
    """Say what the row says, each thing once the one before is answered.

    An answer that did not end well (cut, refused, withheld) ends the conversation, and is its end.
    """

    Options: ClassVar[type[BaseModel]] = MultiTurnOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = cast("MultiTurnOptions", options)

    async def run(self, task: Task, policy: Policy) -> Episode:
        """Play the conversation. The episode has the last answer, and all messages in `CONVERSATION`."""
        params: Row = task.row["responses_create_params"]
        messages: list[Row] = list(params["input"])
        answers: list[Row] = []
        for said in (None, *task.row[self.options.field][1:]):
            if said is not None:
                messages.append({"role": "user", "content": said})
            answer = await policy.respond({**params, "input": messages})
            if answer.get("status") == "failed":
                raise RolloutFailedError("agent_run_error", f"answer {len(answers) + 1} says that it failed")
            answers.append(answer)
            one = Episode(answer)
            messages = [*messages, {"role": "assistant", "content": one.text}]
            if one.end != "completed":
                break
        whole = {**answers[-1], "usage": total_usage(answer.get("usage") for answer in answers)}
        fields: Row = {CONVERSATION: messages, "turn_ends": [answer_end(answer) for answer in answers]}
        if thoughts := [Episode(answer).reasoning for answer in answers[:-1]]:
            fields["turn_thoughts"] = thoughts
        return Episode(whole, turns=len(answers), fields=fields)
