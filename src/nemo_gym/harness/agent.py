"""The agent of lm-eval's tasks: a question is answered, or pairs of texts get their likelihoods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from nemo_gym.agents.single_turn import SingleTurnAgent, SingleTurnOptions
from nemo_gym.types import Episode, LogLikelihood, Policy, Row, Task

FIELD = "lm_eval"
"""Of a row: the task, the number of the document, and its digest."""
LIKELIHOODS = "likelihoods"
"""Of a row: token ids of contexts, and of what follows each."""
SCORED = "lm_eval_likelihoods"
"""Of a result: for each request its log-likelihood, and whether it is greedy."""


class NoHarnessAgentOptions(BaseModel):
    """The agent has no options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HarnessAgent:
    """Ask once for a text, or once for the likelihood of each pair."""

    Options: ClassVar[type[BaseModel]] = NoHarnessAgentOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = options
        self._single = SingleTurnAgent(SingleTurnOptions())

    async def run(self, task: Task, policy: Policy) -> Episode:
        """One rollout."""
        asked = task.row.get(LIKELIHOODS)
        if asked is None:
            return await self._single.run(task, policy)
        found = [await policy.score(*pair) for pair in pairs(asked)]
        if asked["rolling"]:
            scored = [[sum(one.value for one in found), all(one.greedy for one in found)]]
        else:
            scored = [[one.value, one.greedy] for one in found]
        return Episode(_response(found), turns=len(found), fields={SCORED: scored})

    async def probe(self, rows: Iterable[Row], policy: Policy) -> None:
        """Ask for one likelihood of the first row that wants any: a server may have none to give."""
        for row in rows:
            if row.get(LIKELIHOODS) is not None:
                await policy.score(*pairs(row[LIKELIHOODS])[0])
                return


def pairs(asked: Mapping[str, Any]) -> list[tuple[list[int], list[int]]]:
    """Context and continuation of each request of a row."""
    return [(asked["contexts"][number], rest) for number, rest in asked["pairs"]]


def conditional(asked: Mapping[str, Any]) -> int:
    """How many of a row's texts are its choices.

    Some metrics of lm-eval ask for each choice once more, without the question.
    """
    texts = [str(text).strip() for text in asked.get("texts", ())]
    half, odd = divmod(len(texts), 2)
    contexts = [number for number, _ in asked.get("pairs", ())]
    twice = not odd and half > 1 and texts[:half] == texts[half:] and len(set(texts)) > 1
    first, second = set(contexts[:half]), set(contexts[half:])
    return half if twice and len(first) == len(second) == 1 and first != second else len(texts)


def _response(found: list[LogLikelihood]) -> Row:
    """A Responses object without text, with what the server counted."""
    sent, made = sum(one.input_tokens for one in found), sum(one.output_tokens for one in found)
    usage = {"input_tokens": sent, "output_tokens": made, "total_tokens": sent + made}
    return {"object": "response", "status": "completed", "output": [], "usage": usage}
