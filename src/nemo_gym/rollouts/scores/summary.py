"""What a run came to: a small value that is stored beside the results and printed for a person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import IO, Any

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.scores.group_scores import GroupScore, group_lines
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric
from nemo_gym.rollouts.scores.statistics import LEVEL, Interval
from nemo_runs.counts import counted
from nemo_runs.durable import files
from nemo_runs.durations import duration_in_words

SCHEMA_VERSION = 1
ENDS = {
    "max_output_tokens": "cut at the token limit",
    "content_filter": "withheld by a content filter",
    "refusal": "refused by the model",
    "tool_calls": "waiting for tools",
    "turn_limit": "stopped at the limit of turns",
    "token_limit": "stopped at the limit of tokens of all turns",
    "time_limit": "stopped at the limit of time",
    "unstated": "without a stated end",
    "other": "ended for another reason",
}
"""Ends of answers that did not end well, in words."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the expected rollouts add up: expected = measured + masked + unscored + failed + missing +
    not_needed.
    """

    expected: int
    measured: int
    """With a reward that counts."""
    masked: int
    """Recorded, but marked ``mask_sample``: no quality metric counts them."""
    unscored: int
    """Recorded without a numeric reward."""
    failed: int
    """Without a result, and at least one attempt failed."""
    missing: int
    """Never attempted, or lost in flight."""
    truncated: int
    """Measured, but the answer stopped at the token limit."""
    no_answer: int
    """Measured, but no answer could be understood (graded 0)."""
    no_answer_truncated: int
    """Both of the last two."""
    tasks: int
    measured_tasks: int
    """Tasks with at least one measured rollout."""
    attempts: int
    """Result rows and failure rows."""
    cut_in_thought: int = 0
    """Measured, but the answer stopped at the token limit before anything but thoughts was said."""
    not_graded: int = 0
    """Measured, but with reward 0 and unseen by the verifier, since the answer did not end well."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Measured rollouts whose answer did not end well, by its end (`nemo_gym.types.AnswerEnd`)."""
    failure_classes: Mapping[str, int] = field(default_factory=dict)
    """Failed attempts by class, those made good later included."""
    damaged: int = 0
    duplicates: int = 0
    unexpected: int = 0
    """Rows that were left out: unreadable, a second one of its rollout, of a rollout that is not expected."""
    not_needed: int = 0
    """Never attempted, since the run's question was answered before (``until``)."""

    @property
    def denominator(self) -> str:
        """What the score is a mean over, as a sentence."""
        return f"{self.measured:,} measured of {self._rest_of_the_sentence}"

    @property
    def counted(self) -> str:
        """The same, below a heading that says that it is what was measured."""
        return f"{self.measured:,} of {self._rest_of_the_sentence}"

    @property
    def _rest_of_the_sentence(self) -> str:
        left_out = {
            "failed": self.failed,
            "missing": self.missing,
            "masked": self.masked,
            "unscored": self.unscored,
            "not needed": self.not_needed,
        }
        parts = [f"{count:,} {name}" for name, count in left_out.items() if count]
        rest = f"; left out: {', '.join(parts)}" if parts else ""
        expected = counted(self.expected, "expected rollout")
        return f"{expected} ({self.measured_tasks:,} of {counted(self.tasks, 'task')}){rest}"


@dataclass(frozen=True, slots=True)
class Summary:
    """Score, coverage, tokens and time of one output."""

    coverage: Coverage
    score: Interval | None
    """Mean reward over the measured rollouts, clustered by task; ``None`` when nothing was measured."""
    key_metrics: Mapping[str, float]
    tokens: Mapping[str, float]
    """``input`` and ``output`` totals, and ``output_mean`` a rollout, where the server counted them; where
    there were thoughts, ``reasoning_answers`` with any, ``reasoning_tokens`` and ``reasoning_chars``."""
    latency_ms: Mapping[str, float]
    """``p50``, ``p90``, ``p99``, ``mean`` of a rollout."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """What the caller said: ``benchmark``, ``agent``, ``model``, ``run_id``, ``resumed``, ``new``,
    ``seconds`` and the like."""
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, MeasuredMetric] = field(default_factory=dict)
    """The verifier's metrics by name."""
    groups: tuple[GroupScore, ...] = ()
    """Scores of groups of tasks, for the benchmark's ``group_by``."""
    judges: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What grading took of each judge model: ``requests``, ``prompt_tokens``, ``completion_tokens``,
    ``latency_ms`` in all, and ``cost`` where prices are known. No part of ``tokens``."""
    until: Mapping[str, Any] | None = None
    """Of a run that may stop early: ``rule``, ``seed``, ``tasks_used``, ``outcome``, ``score`` and
    ``difference`` with their limits, ``sentence``."""
    tools: Mapping[str, float] = field(default_factory=dict)
    """``turns``, ``calls`` of tools, of those ``errors``, and results that were ``cut``; empty where no tool
    was called."""

    @property
    def whole(self) -> bool:
        """Whether a decision fell, or else each rollout has a result that is understood.

        Rollouts without a score of their own are, where a metric of the whole run was made of all of them
        (perplexity).
        """
        coverage = self.coverage
        decided = self.until is not None and self.until["outcome"] is not None
        answered = coverage.measured + coverage.unscored
        of_all = any(
            metric.over == "run" and metric.value is not None and metric.count == answered
            for metric in self.metrics.values()
        )
        understood = answered if of_all else coverage.measured
        return decided or coverage.expected == understood + coverage.masked

    def to_json(self) -> dict[str, Any]:
        """One flat document: coverage on top, then score, metrics, tokens, time."""
        score = None if self.score is None else {**asdict(self.score), "level": LEVEL}
        return {
            "schema_version": SCHEMA_VERSION,
            **asdict(self.coverage),
            "denominator": self.coverage.denominator,
            "score": score,
            "key_metrics": dict(self.key_metrics),
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "groups": [group.to_json() for group in self.groups],
            "tokens": dict(self.tokens),
            "judges": {name: dict(use) for name, use in self.judges.items()},
            "tools": dict(self.tools),
            "latency_ms": dict(self.latency_ms),
            "run": dict(self.run),
            "notes": list(self.notes),
            "until": self.until and dict(self.until),
        }

    def print(self, file: IO[str], *, width: int | None = None) -> None:
        """Write it for a person: a table on a terminal, one line a heading when piped."""
        lines = self.lines()
        if width is None and not file.isatty():
            widest = max(len(name) for name, _ in lines)
            file.writelines(f"{name.ljust(widest)}  {words}\n" for name, words in lines)
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from nemo_runs.drawn_tables import trimmed

        table = Table.grid(padding=(0, 2))
        for name, words in lines:
            table.add_row(Text(name, style="bold"), Text(words))
        console = Console(file=file, width=width, highlight=False, soft_wrap=False)
        with console.capture() as drawn:
            console.print(table)
        file.write(trimmed(drawn.get()))

    def lines(self) -> list[tuple[str, str]]:
        """What is printed, as (heading, words)."""
        found = [("benchmark", str(self.run["benchmark"]))] if self.run.get("benchmark") else []
        if self.run.get("model"):
            found.append(("model", str(self.run["model"])))
        found += [("score", self._score())]
        if self.until:
            found.append(("until", f"{self.until['sentence']}; seed {self.until['seed']}"))
        found += [("metric", f"{name} {metric.sentence}") for name, metric in self.metrics.items()]
        found += [("group", words) for words in group_lines(self.groups)]
        found += [("measured", self.coverage.counted)]
        found += [(name, words) for name, words in self._counts() if words]
        found += [("judge", _judge(name, use)) for name, use in self.judges.items()]
        found += [("note", note) for note in self.notes]
        return found

    def _score(self) -> str:
        if self.score is None:
            return "none: nothing was measured"
        score = self.score
        how = {"clustered_t": "clustered by task", "wilson": "Wilson interval over tasks"}.get(score.method)
        how = how or f"valid at any time, of all tasks, by {counted(score.clusters, 'task')}"
        return f"{score.mean:.1%}  ({LEVEL:.0%} interval {score.low:.1%} to {score.high:.1%}, {how})"

    def _counts(self) -> list[tuple[str, str]]:
        more = [
            f"{name} {value:.1f}%"
            for name, value in self.key_metrics.items()
            if "@" in name
            and "no_answer" not in name
            and not name.startswith(("pass@1/", "pass@1[", "majority@1/"))
        ]
        coverage = self.coverage
        classes = ", ".join(f"{name} {count:,}" for name, count in coverage.failure_classes.items())
        apart = f"{coverage.truncated:,} truncated, {coverage.no_answer:,} without an understandable answer"
        if coverage.no_answer_truncated:
            apart += f" ({coverage.no_answer_truncated:,} of them truncated)"
        return [
            ("more", ", ".join(more)),
            ("answers", apart),
            ("not whole", self._not_whole()),
            ("rollouts", self._rollouts()),
            (
                "failures",
                f"{counted(sum(coverage.failure_classes.values()), 'attempt')}: {classes}" if classes else "",
            ),
            ("tokens", self._tokens()),
            ("tools", self._tools()),
            ("time", self._time()),
        ]

    def _not_whole(self) -> str:
        """How answers ended that did not end well, and what became of them."""
        coverage = self.coverage
        if not coverage.ends:
            return ""
        ends = ", ".join(f"{ENDS.get(end, end)} {count:,}" for end, count in coverage.ends.items())
        total = sum(coverage.ends.values())
        if coverage.not_graded == total:
            return f"{ends}: not graded, reward 0"
        if not coverage.not_graded:
            return f"{ends}: graded all the same"
        return f"{ends}: {coverage.not_graded:,} of {total:,} not graded, reward 0"

    def _rollouts(self) -> str:
        parts = [
            f"{self.run[name]:,} {name}" for name in ("resumed", "new") if self.run.get(name) is not None
        ]
        return ", ".join(
            [*parts, f"{self.coverage.failed:,} failed", counted(self.coverage.attempts, "attempt")]
        )

    def _tokens(self) -> str:
        if not self.tokens:
            return ""
        words = (
            f"{self.tokens.get('input', 0):,.0f} in, {self.tokens.get('output', 0):,.0f} out "
            f"({self.tokens.get('output_mean', 0):,.1f} out a rollout)"
        )
        if answers := self.tokens.get("reasoning_answers"):
            tokens, chars = self.tokens.get("reasoning_tokens", 0), self.tokens.get("reasoning_chars", 0)
            thought = f"{counted(round(tokens), 'token')}, " if tokens else ""
            words += f"; thoughts in {counted(round(answers), 'answer')}: {thought}"
            words += counted(round(chars), "character")
        return words

    def _tools(self) -> str:
        if not self.tools:
            return ""
        calls, turns = round(self.tools["calls"]), round(self.tools["turns"])
        words = f"{counted(calls, 'call')} in {counted(turns, 'turn')}, "
        words += counted(round(self.tools.get("errors", 0)), "error")
        cut = round(self.tools.get("cut", 0))
        return f"{words}, {counted(cut, 'result')} cut" if cut else words

    def _time(self) -> str:
        seconds = self.run.get("seconds")
        parts = [] if seconds is None else [duration_in_words(seconds, tenths=True)]
        if self.latency_ms:
            parts.append(
                f"a rollout {self.latency_ms['p50']:,.0f} ms (median), {self.latency_ms['p99']:,.0f} ms (p99)"
            )
        return ", ".join(parts)


def _judge(name: str, use: Mapping[str, float]) -> str:
    words = f"{name}: {counted(round(use['requests']), 'request')}, {use['prompt_tokens']:,.0f} tokens in, "
    words += f"{use['completion_tokens']:,.0f} out"
    return words if "cost" not in use else f"{words}, cost {use['cost']:.4g}"


def load_summary(paths: RolloutPaths) -> Summary | None:
    """The stored summary of an output, ``None`` where none was written yet. Unknown keys are ignored.

    Raises `DataError` for a file that is damaged or of a newer schema.
    """
    try:
        found = json.loads(files.read_document(paths.coverage))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{paths.coverage}: it cannot be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{paths.coverage}: not JSON ({error}).") from error
    try:
        if found["schema_version"] > SCHEMA_VERSION:
            raise DataError(f"{paths.coverage}: written by a newer gym (schema {found['schema_version']}).")
        score = found["score"]
        return Summary(
            coverage=Coverage(**_known(Coverage, found)),
            score=None if score is None else Interval(**_known(Interval, score)),
            **{key: found[key] for key in ("key_metrics", "tokens", "latency_ms", "run")},
            notes=tuple(found["notes"]),
            judges=found.get("judges", {}),
            until=found.get("until"),
            tools=found.get("tools", {}),
            metrics={
                name: MeasuredMetric(**_known(MeasuredMetric, metric))
                for name, metric in found.get("metrics", {}).items()
            },
            groups=tuple(GroupScore(**_known(GroupScore, group)) for group in found.get("groups", ())),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{paths.coverage}: not a whole summary ({error}).") from error


def _known(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(cls)}
    return {key: value for key, value in values.items() if key in names}
