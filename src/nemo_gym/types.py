"""Values and protocols that agents, verifiers and the collector share.

An agent puts one task to the policy model, possibly over many turns, and returns an episode. A verifier turns
task and episode into a verdict. Both are async, so that tool loops and judge models fit: an agent may call
``policy.respond`` as often as it likes, and a verifier is built with the models that its options name.
Outsiders add their own through the entry-point groups ``nemo_gym.agents`` and ``nemo_gym.verifiers``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from pydantic import BaseModel

Row = dict[str, Any]
"""One JSON object of a dataset, of the materialized inputs or of the results."""

AnswerEnd = Literal[
    "completed",
    "max_output_tokens",
    "content_filter",
    "refusal",
    "tool_calls",
    "turn_limit",
    "token_limit",
    "time_limit",
    "unstated",
    "other",
]
"""How an answer ended. ``completed``: the server says that it is whole. ``max_output_tokens``: cut at the
token limit. ``content_filter``: withheld or cut by the server. ``refusal``: the model declined.
``tool_calls``: it waits for the results of tools. ``turn_limit``, ``token_limit``, ``time_limit``: it called
tools, and the agent's limit of turns, of tokens of all turns or of time was reached. ``unstated``: the server
gave no reason. ``other``: a reason that is not known here; ``response.incomplete_details.reason`` has the
server's word."""

CONVERSATION = "conversation"
"""Field of an episode of several turns: all messages, each with ``role`` and ``content``."""

ANSWER_ENDS: tuple[AnswerEnd, ...] = get_args(AnswerEnd)
_TOKEN_DIGITS = 15
_TOOL_CALLS = frozenset({"function_call", "custom_tool_call"})


class TurnLog(Protocol):
    """What is stored of a rollout before it is over."""

    def stored(self) -> Sequence[Row]:
        """The entries of earlier attempts, oldest first."""
        ...

    async def add(self, entry: Row) -> None:
        """Store one more; once this returns it survives the end of this process in any way."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One planned rollout."""

    task_index: int
    """Number of the row in the dataset, from 0."""
    rollout_index: int
    """Which repeat of the task this is, from 0."""
    row: Row
    """The materialized row, ``responses_create_params`` filled in."""
    turns: TurnLog | None = field(default=None, compare=False, repr=False)
    """Where an agent that says ``keeps_turns = True`` stores its turns, to go on from them later."""


@dataclass(slots=True)
class Episode:
    """What came out of one rollout before it was graded."""

    response: Row
    """The last answer as an object of the OpenAI Responses API: ``output``, ``usage``, and so on."""
    turns: int = 1
    """How many answers the policy model gave."""
    tool_calls: int = 0
    fields: Row = field(default_factory=dict)
    """Further fields for the result row (a trajectory, say)."""

    @property
    def text(self) -> str:
        """All output text of the last answer, joined."""
        return output_text(self.response)

    @property
    def truncated(self) -> bool:
        """Whether the last answer stopped at the token limit."""
        return is_truncated(self.response)

    @property
    def end(self) -> AnswerEnd:
        """How the last answer ended."""
        return answer_end(self.response)

    @property
    def reasoning(self) -> str:
        """The thoughts that came with the last answer, joined; they are not part of ``text``."""
        return reasoning_text(self.response)

    @property
    def refusal(self) -> str:
        """What the model said when it declined; empty when it did not."""
        return _joined(self.response, "message", "refusal", "refusal")


def conversation_of_rollout(task: Task, episode: Episode) -> list[dict[str, str]]:
    """What was said, the last answer included: each message's ``role``, and its text as ``content``."""
    messages = episode.fields.get(CONVERSATION)
    if not isinstance(messages, list):
        asked = (task.row.get("responses_create_params") or {}).get("input") or []
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked)
        messages.append({"role": "assistant", "content": episode.text})
    return [
        {"role": str(message.get("role") or message.get("type")), "content": _text_of(message.get("content"))}
        for message in messages
        if isinstance(message, dict)
    ]


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A grade."""

    reward: float | None
    """In [0, 1]; ``None`` when the answer cannot be graded, which is counted as unscored and never as 0."""
    extracted_answer: str | None = None
    """What was understood as the answer; ``None`` when nothing could be."""
    fields: Row = field(default_factory=dict)
    """Further fields for the result row."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Further measurements of the answer by name: finite numbers, ``None`` where there is no value. A value
    that is missing is counted and never 0."""


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """What a verifier declares about one of its metrics."""

    higher_is_better: bool | None = None
    """``None``: neither, as for a length."""
    low: float = -math.inf
    """Least possible value."""
    high: float = math.inf
    """Greatest possible value."""
    unseen: float | None = None
    """The value of an answer that did not end well and is not graded; ``None``: it has none."""


@dataclass(frozen=True, slots=True)
class GradedRollout:
    """One recorded rollout with its grade."""

    task: Task
    episode: Episode
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a verifier makes of many rollouts: a value and how sure it is."""

    value: float | None
    std_error: float | None = None


@dataclass(frozen=True, slots=True)
class LogLikelihood:
    """How likely a model finds some tokens after others."""

    value: float
    """The sum of their log-probabilities, natural logarithms."""
    greedy: bool
    """Whether each of them is the likeliest there."""
    input_tokens: int = 0
    output_tokens: int = 0
    """What the server counted for it."""


class Policy(Protocol):
    """A model that answers."""

    async def respond(self, params: Mapping[str, Any]) -> Row:
        """Answer one request.

        ``params`` are those of the OpenAI Responses API (``input``, ``temperature``, ``top_p``,
        ``max_output_tokens``, …); the answer is a Responses object regardless of the server's API.
        Raises `nemo_gym.rollouts.policy.client.PolicyError` when no answer could be had within its bounds.
        """
        ...

    async def score(self, context: Sequence[int], continuation: Sequence[int]) -> LogLikelihood:
        """How likely the tokens of ``continuation`` are after those of ``context``, of which there is one.

        Raises as `respond` does, also where the server gives no log-probabilities for prompts.
        """
        ...


@runtime_checkable
class Agent(Protocol):
    """How a task is put to the policy model. Built as ``AgentClass(options)``.

    Three more members are optional. ``async probe(rows, policy)`` is asked with the first rows before
    anything is recorded: a request there that the server does not offer ends the run. ``async facts()``
    returns what else answers depend on, as a mapping from names to texts: it goes into the manifest, and what
    differs there refuses to resume. ``keeps_turns = True`` has each task come with a `TurnLog`.
    """

    Options: ClassVar[type[BaseModel]]
    """Schema of the agent's own options in the config, ``type`` left out."""

    async def run(self, task: Task, policy: Policy) -> Episode:
        """Play one rollout; it must not block, and has no limit of time but that of a drain.

        Raise `nemo_gym.types.RolloutFailedError` for a failure the agent understands.
        """
        ...


@runtime_checkable
class Verifier(Protocol):
    """How an answer becomes a reward. Built as ``VerifierClass(options, models)``.

    ``models`` maps a name to a `Policy`; it is empty unless the config names judge models. A class that needs
    a live environment says ``grades_stored_answers = False``; `gym eval reverify` then refuses it. One whose
    grades take no time worth speaking of says ``grades_at_once = True``: answer and grade become one write.

    Only answers that ended well are put to a verifier; others get reward 0 and their end as the reason. A
    class that can grade more names those ends: ``graded_ends = frozenset({"refusal"})``, say. So can a
    benchmark, by its key ``graded_ends``.

    Further members are optional. ``metrics`` maps the names of its metrics, those of ``grade_group`` and
    ``aggregate`` included, to a `MetricInfo`. ``grade_group(rollouts)`` gets all graded rollouts of one task,
    in order, at least one, and returns metrics of the task as a mapping like that of `Verdict.metrics`; their
    mean over the tasks is shown. ``aggregate(rollouts)`` gets all graded rollouts of the run, an iterable in
    the order of task and repeat that can be gone through more than once and never holds more than one of them
    in memory, and returns a mapping from names to numbers, ``None`` or an `Estimate`. Both are plain
    functions of what is recorded, called whenever the run is added up; rollouts that are masked or have no
    reward are left out, the latter not by a class that says ``aggregates_unscored = True``. ``start()`` and
    ``close()``, where there are any, are called before the first answer and when nothing more is graded.
    The option of one that runs code is called ``sandbox``, a mapping for
    `nemo_gym.sandbox.registry.load_sandbox`: `gym eval check` tries it.
    """

    Options: ClassVar[type[BaseModel]]
    """Schema of the verifier's own options in the config, ``type`` left out."""

    def check_row(self, row: Row) -> str | None:
        """Say what a dataset row lacks, as a short phrase, or ``None``; asked before the first request.

        A row for which it raises is refused, with what was raised.
        """
        ...

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Grade one episode.

        It must not block: requests, signals and other grades wait in the same event loop. It has no limit of
        time but that of a drain, which cancels it; the answer is then kept, and graded by the next start.
        What it raises, `SystemExit` too, is a failed grading of this one answer.
        """
        ...


class RolloutFailedError(Exception):
    """A rollout that failed for a known reason; it goes to the failures file with its class."""

    def __init__(self, failure_class: str, message: str, *, terminal: bool = False) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.terminal = terminal
        """A terminal failure is never retried."""


def output_text(response: Mapping[str, Any]) -> str:
    """The text of all ``output_text`` parts of a Responses object, in order, joined."""
    return _joined(response, "message", "output_text", "text")


def reasoning_text(response: Mapping[str, Any]) -> str:
    """The text of all reasoning items of a Responses object, in order: thoughts, else their summary."""
    found: list[str] = []
    for item in response.get("output") or ():
        if item.get("type") == "reasoning":
            parts = item.get("content") or item.get("summary")
            texts = (
                (part.get("text") for part in parts if isinstance(part, dict))
                if isinstance(parts, list)
                else ()
            )
            found += [text for text in texts if isinstance(text, str)]
    return "".join(found)


def answer_end(response: Mapping[str, Any]) -> AnswerEnd:
    """How an answer ended, from ``status``, ``incomplete_details`` and ``output`` of a Responses object.

    An object without a status, as agents may make one, counts as completed.
    """
    details = response.get("incomplete_details")
    if isinstance(details, dict):
        reason = details.get("reason")
        if reason is None:
            return "unstated"
        return reason if reason in ANSWER_ENDS and reason != "completed" else "other"
    status = response.get("status")
    if status is not None and status != "completed":
        return "unstated" if status == "incomplete" else "other"
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and kind in _TOOL_CALLS:
            return "tool_calls"
        parts = item.get("content") if kind == "message" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "refusal":
                return "refusal"
    return "completed"


def _joined(response: Mapping[str, Any], item_type: str, part_type: str, key: str) -> str:
    parts = [
        part.get(key) or ""
        for item in response.get("output") or ()
        if item.get("type") == item_type
        for part in item.get("content") or ()
        if part.get("type") == part_type
    ]
    return parts[0] if len(parts) == 1 else "".join(parts)


def token_count(value: object) -> int:
    """A number of tokens as a server says it, digits in a text included; anything else counts 0."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _TOKEN_DIGITS:
        return int(value)
    if type(value) is int or (isinstance(value, float) and math.isfinite(value)):
        return int(value) if 0 < value < 10**_TOKEN_DIGITS else 0
    return 0


def is_cut_in_thought(response: Mapping[str, Any]) -> bool:
    """Whether the answer stopped because of ``max_output_tokens`` before anything but thoughts was said."""
    if not is_truncated(response) or output_text(response).strip():
        return False
    usage = response.get("usage")
    details = usage.get("output_tokens_details") if isinstance(usage, dict) else None
    counted = token_count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    return bool(counted or reasoning_text(response).strip())


def is_truncated(response: Mapping[str, Any]) -> bool:
    """Whether the answer stopped because of ``max_output_tokens``."""
    details = response.get("incomplete_details")
    return isinstance(details, dict) and details.get("reason") == "max_output_tokens"
