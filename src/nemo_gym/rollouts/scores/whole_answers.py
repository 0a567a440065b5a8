"""Grading whole answers only: what did not end well gets reward 0 with its reason, unseen by the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import BaseModel

from nemo_gym.rollouts.output.result_rows import NOT_GRADED_FIELD
from nemo_gym.rollouts.policy.reasoning import with_thoughts, without_thoughts
from nemo_gym.types import Episode, Policy, Row, Task, Verdict, Verifier
from nemo_gym.verifiers.registry import (
    close_verifier,
    declared_metrics,
    function_verifier,
    grades_at_once,
    grades_stored_answers,
    load_verifier,
    start_verifier,
)

if TYPE_CHECKING:
    from nemo_gym.command_benchmark.verifier import CommandVerifier
    from nemo_gym.harness.verifier import HarnessVerifier
    from nemo_gym.rollouts.run_config.schema import BenchmarkConfig


class WholeAnswers:
    """A verifier that puts to another one only the answers that ended well.

    Also graded are those whose end is in ``also``, or in the other's own ``graded_ends``. With ``reasoning``
    the thoughts that were within the text are back in it.
    """

    Options: ClassVar[type[BaseModel]] = BaseModel
    """None of its own: the other verifier has been built."""

    def __init__(self, verifier: Verifier, also: Iterable[str] = (), *, reasoning: bool = False) -> None:
        self.grades_stored_answers = grades_stored_answers(verifier)
        self.grades_at_once = grades_at_once(verifier)
        self.inner = verifier
        self._graded = frozenset({"completed", *also, *getattr(verifier, "graded_ends", ())})
        self._reasoning = reasoning
        declared = declared_metrics(verifier).items()
        self._unseen = {name: info.unseen for name, info in declared if info.unseen is not None}

    def check_row(self, row: Row) -> str | None:
        """Ask the verifier."""
        return self.inner.check_row(row)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Grade an answer that ended well; reward 0 and the reason for any other."""
        end = episode.end
        if end not in self._graded:
            return Verdict(0.0, fields={NOT_GRADED_FIELD: end}, metrics=self._unseen)
        if self._reasoning:
            output = with_thoughts(episode.response.get("output") or ())
            episode = replace(episode, response={**episode.response, "output": output})
        return await self.inner.verify(task, episode)

    def start(self) -> None:
        """Let the verifier start what it will need."""
        start_verifier(self.inner)

    def close(self) -> None:
        """Let the verifier end what it started."""
        close_verifier(self.inner)


def text_answer(text: str, *, cut: bool) -> Row:
    """A Responses object for a text that no server sent, ``cut`` where the token limit ended it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "role": "assistant", "content": content}
    return {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": without_thoughts([message]),
    }


def load_grader(
    benchmark: BenchmarkConfig,
    *,
    repeats: int,
    judges: Mapping[str, Policy] | None = None,
    function: Callable[..., Any] | None = None,
) -> WholeAnswers:
    """The verifier of a benchmark, for answers that ended well and others that the benchmark wants graded.

    ``function`` is the one that a verifier of the type ``function`` describes. Raises
    `nemo_gym.errors.ConfigError`, naming the dotted path.
    """
    if function is not None:
        verifier = function_verifier(function, benchmark.verifier, judges or {})
    else:
        verifier = load_verifier(benchmark.verifier, judges)
    if benchmark.command is not None:
        cast("CommandVerifier", verifier.inner).bind(benchmark.command.results)
    if benchmark.lm_eval is not None:
        cast("HarnessVerifier", verifier.inner).bind(benchmark.lm_eval, repeats=repeats)
    return WholeAnswers(verifier, benchmark.graded_ends or (), reasoning=bool(benchmark.grade_reasoning))
