"""What a result row is made of: the task, the answer, the grade; and how each is taken out of it again.

All of it is side by side in one object, and whose a name is must never be a guess. Of two parts with a
field of the same name the later one has it in the order task, agent, verifier, the collector itself; the
values that it covers are kept whole in ``_ng_covered``. An answer that waits for its grade is such a row
without the grade. So an answer can be graded at any time with what the first grading had before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_gym.types import (
    Episode,
    RolloutFailedError,
    Row,
    Task,
    Verdict,
    answer_end,
    reasoning_text,
    token_count,
)

AGENT_FIELDS: Final = "_ng_agent_fields"
"""Names of the fields that are the agent's."""
VERDICT_FIELDS: Final = "_ng_verdict_fields"
"""Names of the fields that are the verifier's; absent where there are none."""
COVERED: Final = "_ng_covered"
"""By part (``task``, ``agent``, ``verdict``): fields whose names somebody else has in this row."""

END_FIELD: Final = "_ng_end"
"""Field of a row whose answer did not end well; it says how it ended (`nemo_gym.types.AnswerEnd`)."""
NOT_GRADED_FIELD: Final = "_ng_not_graded"
"""Field of such a row that got reward 0 without being graded; it belongs to the verdict."""

METRICS: Final = "_ng_metrics"
"""Field of a row with the verifier's metrics by name; absent where there are none."""
JUDGES: Final = "_ng_judges"
"""Field of a row with what its grading took of judge models, by name; absent where none was asked."""
OURS: Final = frozenset({"response", "reward", "extracted_answer", "ng_perf"})
"""Names that the collector itself gives a meaning to."""
_NOT_OF_TASK: Final = OURS | {"mask_sample"}
"""A task cannot leave itself out of the score: that is for who plays it and who grades it."""
_PREFIX: Final = "_ng_"
_KEPT: Final = ("_ng_attempt_index",)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered task, graded or not."""

    task: Row
    """The materialized row without its identity."""
    agent: Row
    """What the agent added."""
    response: Row
    perf: Row
    """``ng_perf``: turns, tool calls, tokens, latency in ms, end in UTC seconds."""
    notes: Row = field(default_factory=dict)
    """What the store noted (``_ng_attempt_index``)."""

    @classmethod
    def of(cls, task: Task, episode: Episode, *, latency_ms: float, ended_at: float) -> Answer:
        """What one rollout came to. ``ended_at`` is in UTC seconds; with the latency it says when the rollout
        was in flight.
        """
        response = episode.response
        usage = response.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        perf = {
            "num_turns": episode.turns,
            "num_tool_calls": episode.tool_calls,
            "prompt_tokens": token_count(usage.get("input_tokens")),
            "completion_tokens": token_count(usage.get("output_tokens")),
            **_thoughts(response, usage),
            "total_latency_ms": round(latency_ms, 3),
            "ended_at": round(ended_at, 3),
        }
        own = {key: value for key, value in task.row.items() if not key.startswith(_PREFIX)}
        return cls(own, dict(episode.fields), response, perf)

    @classmethod
    def of_row(
        cls, row: Row, task: Mapping[str, Any] | None = None, source: frozenset[str] = frozenset()
    ) -> Answer:
        """Take an answer out of its row.

        Rows of earlier versions do not say whose their fields are: what is not a field of the data set, whose
        keys are ``source``, is then the agent's, and ``task`` is the materialized row if it is known to have
        names that such a row lost.
        """
        covered = row.get(COVERED) or {}
        of_verdict = frozenset(row.get(VERDICT_FIELDS) or ())
        own = {k: v for k, v in row.items() if k not in OURS and k not in of_verdict and k[:4] != _PREFIX}
        of_agent = row[AGENT_FIELDS] if AGENT_FIELDS in row else own.keys() - source
        agent = {key: own.pop(key) for key in of_agent if key in own} | covered.get("agent", {})
        if task is not None:
            own = {key: value for key, value in task.items() if key[:4] != _PREFIX}
        perf = row.get("ng_perf")
        return cls(
            own | covered.get("task", {}),
            agent,
            row["response"],
            perf if isinstance(perf, dict) else {},
            {key: row[key] for key in _KEPT if key in row},
        )

    def to_task(self, task_index: int, rollout_index: int) -> Task:
        """The task as it was put to the agent."""
        row = {"_ng_task_index": task_index, "_ng_rollout_index": rollout_index, **self.task}
        return Task(task_index, rollout_index, row)

    def to_episode(self) -> Episode:
        """The episode as the agent gave it."""
        turns, calls = self.perf.get("num_turns", 1), self.perf.get("num_tool_calls", 0)
        return Episode(self.response, turns, calls, dict(self.agent))

    def ungraded(self) -> Row:
        """The row of an answer that waits for its grade."""
        return self._row({}) | {"response": self.response, "ng_perf": self.perf}

    def graded(self, verdict: Verdict, reward: float | None, judges: Mapping[str, Row] | None = None) -> Row:
        """The row of a result; ``judges`` is what the grading took of judge models.

        `RolloutFailedError` where the verifier's fields are not a mapping or a metric is not a number.
        """
        fields: object = verdict.fields  # of a plug-in
        if not isinstance(fields, Mapping):
            found = type(fields).__name__
            raise RolloutFailedError("verifier_error", f"the verifier's fields are a {found}, not a mapping")
        row = self._row(dict(fields))
        if NOT_GRADED_FIELD in fields:
            row[NOT_GRADED_FIELD] = fields[NOT_GRADED_FIELD]
        if metrics := checked_metrics(verdict.metrics):
            row[METRICS] = metrics  # before the reward, which readers find by its last occurrence
        if judges:
            row[JUDGES] = dict(judges)
        row["response"] = self.response
        row["reward"] = reward
        row["extracted_answer"] = verdict.extracted_answer
        row["ng_perf"] = self.perf
        return row

    def _row(self, of_verdict: Row) -> Row:
        """The fields of all three parts, and whose they are."""
        of_verdict.pop(NOT_GRADED_FIELD, None)
        above_agent: AbstractSet[str] = OURS | of_verdict.keys() if of_verdict else OURS
        above_task = above_agent | self.agent.keys() if self.agent else above_agent
        row: Row = {}
        covered: dict[str, Row] = {}
        _put(row, "task", self.task, above_task | _NOT_OF_TASK, covered)
        row[AGENT_FIELDS] = _put(row, "agent", self.agent, above_agent, covered)
        names = _put(row, "verdict", of_verdict, OURS, covered)
        if names:
            row[VERDICT_FIELDS] = names
        if covered:
            row[COVERED] = covered
        row.update(self.notes)
        if (end := answer_end(self.response)) != "completed":
            row[END_FIELD] = end
        return row


def verdict_of_row(row: Row) -> Verdict:
    """The grade in the row of a result, as the verifier gave it."""
    fields = {key: row[key] for key in (*(row.get(VERDICT_FIELDS) or ()), NOT_GRADED_FIELD) if key in row}
    reward, metrics = row.get("reward"), row.get(METRICS)
    return Verdict(
        float(reward) if isinstance(reward, int | float) else None,
        row.get("extracted_answer"),
        fields | ((row.get(COVERED) or {}).get("verdict") or {}),
        metrics if isinstance(metrics, dict) else {},
    )


def measured_reward(row: Mapping[str, Any]) -> float | None:
    """The reward of a result that counts; ``None`` for one that is masked or unscored."""
    reward = row.get("reward")
    if row.get("mask_sample") is True or type(reward) not in (int, float, bool):
        return None
    return float(reward)  # type: ignore[arg-type]  # one of the three number types


def checked_metrics(metrics: object) -> dict[str, float | None]:
    """A verifier's metrics as names and finite numbers; raises `RolloutFailedError` for anything else."""
    if not isinstance(metrics, Mapping):
        found = type(metrics).__name__
        raise RolloutFailedError("verifier_error", f"the verifier's metrics are a {found}, not a mapping")
    checked: dict[str, float | None] = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not name:
            raise RolloutFailedError("verifier_error", f"the verifier's metric {name!r} has no name of text")
        number = isinstance(value, int | float) or hasattr(value, "__float__")
        if value is not None and not (number and math.isfinite(value)):
            raise RolloutFailedError(
                "verifier_error",
                f"the verifier's metric '{name}' is {value!r}, neither a finite number nor null",
            )
        checked[name] = None if value is None else float(value)
    return checked


def _put(row: Row, part: str, fields: Row, others: AbstractSet[str], covered: dict[str, Row]) -> list[str]:
    """Put a part's fields into a row, into ``covered`` those that ``others`` have; the names in the row."""
    hidden = {k: v for k, v in fields.items() if k in others or k[:4] == _PREFIX} if fields else {}
    shown = fields
    if hidden:
        covered[part] = hidden
        shown = {k: v for k, v in fields.items() if k not in hidden}
    row.update(shown)
    return [*shown]


def _thoughts(response: Row, usage: Row) -> dict[str, int]:
    """How much of an answer were thoughts, if any: tokens as the server counts them, and characters."""
    found = {}
    details = usage.get("output_tokens_details")
    if isinstance(details, dict) and (tokens := token_count(details.get("reasoning_tokens"))):
        found["reasoning_tokens"] = tokens
    if characters := len(reasoning_text(response)):
        found["reasoning_chars"] = characters
    return found
