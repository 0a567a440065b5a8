"""One rollout with tools: turns until the model answers, a limit is reached, or a call is not for here.

The whole of it is in the field ``trajectory`` of the result row: for each turn what the model gave, what the
server counted, and each call with its arguments, its result as the model saw it, its seconds and whether it
was an error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.agents.single_turn import answer
from nemo_gym.agents.tool_calls import (
    CALL_KINDS,
    SAID,
    TOOL_ERRORS,
    TOOL_RESULTS_CUT,
    TRAJECTORY,
    ToolCall,
    as_input,
    calls_of,
    conversation,
    cut,
    result_item,
    with_call_ids,
)
from nemo_gym.agents.usage import spent_tokens, total_usage
from nemo_gym.tools.calling import ToolResult, ToolSchema
from nemo_gym.tools.toolbox import OpenToolbox
from nemo_gym.types import (
    CONVERSATION,
    AnswerEnd,
    Episode,
    Policy,
    RolloutFailedError,
    Row,
    Task,
    answer_end,
    output_text,
)


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """How far one rollout may go; ``None``: no limit."""

    turns: int
    total_tokens: int | None
    seconds: float | None
    output_bytes: int
    call_seconds: float
    parallel_calls: int


@dataclass(slots=True)
class _Turn:
    """One answer, and what its calls gave."""

    response: Row
    output: list[Row]
    """Of the response, each call with an id of its own."""
    seconds: float
    results: list[Row] = field(default_factory=list)
    said: str | None = None
    """What the user says after it."""

    def to_json(self) -> Row:
        return {
            "output": self.output,
            "usage": self.response.get("usage"),
            "seconds": self.seconds,
            "calls": self.results,
            **({} if self.said is None else {SAID: self.said}),
        }


class ToolLoop:
    """One rollout; `play` is called once."""

    def __init__(
        self,
        task: Task,
        policy: Policy,
        tools: OpenToolbox,
        schemas: Sequence[ToolSchema],
        limits: LoopLimits,
        *,
        said: Sequence[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``said`` is what the user says later, each once the model has answered without a call."""
        self._unsaid = list(said)
        self._has_several = bool(said)
        self._params: Mapping[str, Any] = task.row["responses_create_params"]
        self._log = task.turns
        self._policy = policy
        self._tools = tools
        self._limits = limits
        self._monotonic = monotonic
        self._offered, self._of_row = _offered(schemas, self._params.get("tools"))
        self._turns: list[_Turn] = []
        self._call_ids: set[str] = set()
        self._side_by_side = asyncio.Semaphore(limits.parallel_calls)
        self._started = monotonic()
        self._stored = list(task.turns.stored()) if task.turns is not None else []
        self._resumed = 0

    async def play(self) -> Episode:
        """Play to the end. Raises what the policy raises, and `nemo_gym.tools.calling.ToolCrashedError`."""
        while True:
            turn = await self._next_turn()
            self._turns.append(turn)
            calls = calls_of(turn.output)
            end = self._end_after(turn, calls)
            if end is not None:
                return self._episode(turn.response, end)
            if calls:
                await self._call_all(turn, calls)
            else:
                turn.said = self._unsaid.pop(0)
            if self._seconds_left() <= 0:
                return self._episode(turn.response, "time_limit")

    async def _next_turn(self) -> _Turn:
        """The next answer: one that is stored, else the model's."""
        stored = self._take("response")
        if stored is not None:
            self._resumed += 1
            response, seconds = stored["response"], float(stored["seconds"])
            self._started -= seconds
        else:
            began = self._monotonic()
            response = await answer(self._policy, self._request())
            seconds = round(self._monotonic() - began, 3)
            if self._log is not None:
                await self._log.add({"response": response, "seconds": seconds})
        return _Turn(response, with_call_ids(response["output"], self._call_ids), seconds)

    def _request(self) -> Row:
        items = conversation(self._params.get("input"))
        for turn in self._turns:
            items += as_input(turn.output)
            items += [result_item(result["call_id"], result["result"]) for result in turn.results]
            if turn.said is not None:
                items.append({"role": "user", "content": turn.said})
        request = {**self._params, "input": items}
        if self._offered:
            request["tools"] = self._offered
        return request

    def _end_after(self, turn: _Turn, calls: Sequence[ToolCall]) -> AnswerEnd | None:
        """How the rollout ends with this answer; ``None``: it goes on."""
        end = answer_end(turn.response)
        here = [item for item in turn.output if item.get("type") in CALL_KINDS]
        if end == "completed" and self._unsaid:
            return self._limit_reached()
        if end != "tool_calls" or len(calls) < len(here) or any(self._is_of_row(call) for call in calls):
            return end
        return self._limit_reached() if calls else end

    def _limit_reached(self) -> AnswerEnd | None:
        """Why no further question is asked, though the rollout would go on."""
        if len(self._turns) >= self._limits.turns:
            return "turn_limit"
        if self._limits.total_tokens is not None and self._spent_tokens() >= self._limits.total_tokens:
            return "token_limit"
        return "time_limit" if self._seconds_left() <= 0 else None

    def _is_of_row(self, call: ToolCall) -> bool:
        """Whether only the row has the tool: then the call is the answer, as it is without this agent."""
        return not self._tools.has(call.name) and call.name in self._of_row

    def _spent_tokens(self) -> int:
        used = total_usage(turn.response.get("usage") for turn in self._turns)
        if used is None:
            message = "max_total_tokens cannot be kept: the server does not say how many tokens it counted"
            raise RolloutFailedError("agent_run_error", message, terminal=True)
        return spent_tokens(used)

    def _seconds_left(self) -> float:
        limit = self._limits.seconds
        return float("inf") if limit is None else self._started + limit - self._monotonic()

    async def _call_all(self, turn: _Turn, calls: Sequence[ToolCall]) -> None:
        """Call side by side; the results are in the order of the calls."""
        stored = self._take("results")
        if stored is not None:
            turn.results = list(stored["results"])
            self._started -= max((float(result["seconds"]) for result in turn.results), default=0.0)
            return
        await self._tools.ready([call.name for call in calls if self._can_be_called(call)])
        turn.results = await _together([self._call(call) for call in calls])
        if self._log is not None:
            await self._log.add({"results": turn.results})

    def _can_be_called(self, call: ToolCall) -> bool:
        return call.arguments is not None and self._tools.has(call.name)

    async def _call(self, call: ToolCall) -> Row:
        async with self._side_by_side:
            began = self._monotonic()
            seconds = min(self._limits.call_seconds, max(self._seconds_left(), 0.001))
            if call.arguments is None:
                result = ToolResult(call.problem, error=True)
            elif not self._tools.has(call.name):
                known = ", ".join(str(tool.get("name")) for tool in self._offered) or "none"
                result = ToolResult(f"there is no tool '{call.name}'; known are {known}", error=True)
            else:
                result = await self._tools.call(call.name, call.arguments, seconds=seconds)
            took = round(self._monotonic() - began, 3)
        shown, whole = cut(result.content, result.size, self._limits.output_bytes)
        found: Row = {"call_id": call.call_id, "name": call.name, "arguments": call.written}
        found |= {"result": shown, "seconds": took}
        if result.error:
            found["error"] = True
        if whole is not None:
            found["cut_from_bytes"] = whole
        return found

    def _take(self, kind: str) -> Row | None:
        """The next stored entry if it is of this kind; from the first that is not, nothing stored counts."""
        if self._stored and kind in self._stored[0]:
            return self._stored.pop(0)
        self._stored.clear()
        return None

    def _episode(self, last: Row, end: AnswerEnd) -> Episode:
        """The last answer with the usage of all turns, and what happened until then."""
        response = {**last, "usage": total_usage(turn.response.get("usage") for turn in self._turns)}
        if end != answer_end(last):
            response |= {"status": "incomplete", "incomplete_details": {"reason": end}}
        results = [result for turn in self._turns for result in turn.results]
        fields: Row = {
            TRAJECTORY: [turn.to_json() for turn in self._turns],
            TOOL_ERRORS: sum("error" in result for result in results),
            TOOL_RESULTS_CUT: sum("cut_from_bytes" in result for result in results),
        }
        if self._has_several:
            fields[CONVERSATION] = self._conversation()
        if self._resumed:
            fields["turns_resumed"] = self._resumed
        return Episode(response, turns=len(self._turns), tool_calls=len(results), fields=fields)

    def _conversation(self) -> list[Row]:
        """What user and model said to each other, without the calls; the last message is the last answer."""
        messages = conversation(self._params.get("input"))
        for turn in self._turns:
            text = output_text(turn.response)
            if text or turn is self._turns[-1]:
                messages.append({"role": "assistant", "content": text})
            if turn.said is not None:
                messages.append({"role": "user", "content": turn.said})
        return messages


def _offered(schemas: Sequence[ToolSchema], of_row: Any) -> tuple[list[Row], frozenset[str]]:
    """The tools of a request, and the names that the row brings; the row describes a tool of both its way."""
    own = [tool for tool in (of_row or ()) if isinstance(tool, dict)]
    names = frozenset(str(name) for tool in own if (name := _name(tool)) is not None)
    offered = [schema.to_request() for schema in schemas if schema.name not in names]
    return [*offered, *own], names


def _name(tool: Mapping[str, Any]) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


async def _together(calls: Sequence[Awaitable[Row]]) -> list[Row]:
    """What all give; the first that raises ends the others."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
