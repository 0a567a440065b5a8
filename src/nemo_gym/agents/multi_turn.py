"""The agent of scripted conversations: each row says several things, one after the other."""

from __future__ import annotations

from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict

from nemo_gym.agents.single_turn import answer
from nemo_gym.agents.usage import total_usage
from nemo_gym.types import (
    CONVERSATION,
    Episode,
    Policy,
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
            answers.append(await answer(policy, {**params, "input": messages}))
            last = Episode(answers[-1])
            messages = [*messages, {"role": "assistant", "content": last.text}]
            if last.end != "completed":
                break
        whole = {**answers[-1], "usage": total_usage(one.get("usage") for one in answers)}
        fields: Row = {CONVERSATION: messages, "turn_ends": [answer_end(one) for one in answers]}
        if thoughts := [Episode(one).reasoning for one in answers[:-1]]:
            fields["turn_thoughts"] = thoughts
        return Episode(whole, turns=len(answers), fields=fields)
