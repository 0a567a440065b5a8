"""The agent of BFCL: one question with its tools, or a conversation in a world of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.agents.single_turn import answer
from nemo_gym.agents.tool_calls import TRAJECTORY, as_input, result_item, with_call_ids
from nemo_gym.agents.usage import total_usage
from nemo_gym.bfcl import environment, world
from nemo_gym.bfcl.answers import BROKEN, FIELD, SAID, Said, said_in
from nemo_gym.bfcl.places import Place
from nemo_gym.bfcl.world import BrokenWorldError, CalledWorld
from nemo_gym.types import Episode, Policy, Row, Task

_KIND = "reasoning"
"""Thoughts of earlier answers are not sent back, as bfcl-eval's own handlers leave them out."""


class BfclAgentOptions(BaseModel):
    """Options of the BFCL agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sandbox: dict[str, Any] = Field(default_factory=dict)
    """Where the calls of conversations are evaluated; the Python in it is always that of BFCL."""
    max_steps: int = Field(20, ge=1)
    """Answers with calls in one turn of a conversation; with one more it ends, and is wrong if turns are
    left."""
    seconds: float = Field(60, gt=0, allow_inf_nan=False)
    """How long the calls of one answer may take."""


class BfclAgent:
    """Ask once, or talk as bfcl-eval does: in each turn the model calls until an answer has no call."""

    Options: ClassVar[type[BaseModel]] = BfclAgentOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = cast("BfclAgentOptions", options)
        self._place = Place(self.options.sandbox, where="benchmark.agent.sandbox")

    async def probe(self, rows: Iterable[Row], _policy: Policy) -> None:
        """Where there are conversations a sandbox must work. Raises `nemo_gym.errors.GymError`."""
        if any("turns" in row[FIELD] for row in rows):
            await self._place.get()

    async def facts(self) -> Mapping[str, str]:
        """What is called and asked."""
        return {"bfcl_eval": environment.version(), "bfcl_eval_pins": environment.pins_digest()}

    async def run(self, task: Task, policy: Policy) -> Episode:
        """One rollout."""
        params = task.row["responses_create_params"]
        if "turns" not in task.row[FIELD]:
            response = await answer(policy, params)
            return Episode(response, tool_calls=len(_calls(response["output"])))
        sandbox, python = await self._place.get()
        async with world.begun(sandbox, python, task.row, self.options.seconds) as begun:
            return await _Conversation(task.row, policy, begun, self.options.max_steps).play()


class _Conversation:
    """One conversation; `play` is called once."""

    def __init__(
        self,
        row: Row,
        policy: Policy,
        begun: CalledWorld,
        max_steps: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._about = row[FIELD]
        self._params = dict(row["responses_create_params"])
        self._items: list[Row] = []
        self._policy = policy
        self._world = begun
        self._max_steps = max_steps
        self._monotonic = monotonic
        self._call_ids: set[str] = set()
        self._said: list[list[Said]] = []
        self._trajectory: list[Row] = []
        self._last: Row = {}

    async def play(self) -> Episode:
        """Play to the end. Raises what the policy raises."""
        broken = None
        try:
            for number, messages in enumerate(self._about["turns"]):
                later = self._about["later_tools"].get(str(number), [])
                if later:
                    self._params["tools"] = [*self._params.get("tools", ()), *later]
                if not await self._turn(messages):
                    break
        except BrokenWorldError as error:
            broken = str(error)
        usage = total_usage(step["usage"] for step in self._trajectory)
        fields: Row = {SAID: self._said, TRAJECTORY: self._trajectory}
        if broken is not None:
            fields[BROKEN] = broken
        calls = sum(len(step["calls"]) for step in self._trajectory)
        return Episode({**self._last, "usage": usage}, len(self._trajectory), calls, fields)

    async def _turn(self, messages: Sequence[Row]) -> bool:
        """One message of the user, and answers until one has no call; false when there were too many."""
        self._items += messages
        said: list[Said] = []
        self._said.append(said)
        for number in range(self._max_steps + 1):
            step = await self._step()
            if number == 0:
                step["messages"] = list(messages)
            said.append(said_in(self._last))
            if not await self._call(step, said[-1]):
                return True
        return False

    async def _step(self) -> Row:
        """The next answer."""
        began = self._monotonic()
        self._last = await answer(self._policy, {**self._params, "input": list(self._items)})
        output = with_call_ids(self._last["output"], self._call_ids)
        self._items += as_input(item for item in output if item.get("type") != _KIND)
        seconds = round(self._monotonic() - began, 3)
        step: Row = {"output": output, "usage": self._last.get("usage"), "seconds": seconds, "calls": []}
        self._trajectory.append(step)
        return step

    async def _call(self, step: Row, said: Said) -> bool:
        """Call what is called; false where nothing is, or where it cannot be read, which ends the turn."""
        calls = _calls(step["output"])
        if not calls:
            return False
        began = self._monotonic()
        found = await self._world.call(said)
        seconds = round(self._monotonic() - began, 3)
        read = "problem" not in found
        results = found["results"] if read else [f"Error: {found['problem']}"] * len(calls)
        for item, result in zip(calls, results, strict=True):
            step["calls"].append(
                {"call_id": item["call_id"], "name": item.get("name"), "result": result, "seconds": seconds}
                | ({} if read else {"error": True})
            )
            self._items.append(result_item(item["call_id"], result))
        return read


def _calls(output: Iterable[Row]) -> list[Row]:
    return [item for item in output if item.get("type") == "function_call"]
