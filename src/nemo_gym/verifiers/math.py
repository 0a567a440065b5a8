"""Whether two mathematical expressions are equal, by the package ``math-verify``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.types import Episode, Policy, Row, Task, Verdict
from nemo_gym.verifiers.expected import lacks_texts, right_answers
from nemo_gym.verifiers.grading_processes import GradingProcesses
from nemo_gym.verifiers.libraries import require

_SPARE = 2.0
"""Seconds between the library's own limit of time and the end of the process."""


class MathOptions(BaseModel):
    """Options of the math verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer_field: str = "expected_answer"
    """The field of the row that holds the right answer, or a list of right answers: LaTeX with or without
    ``$`` and ``\\boxed``, or a plain expression."""
    precision: int = Field(6, ge=1, le=50)
    """Decimal places to which numbers are compared."""
    strict: bool = True
    """Do not take a set for an interval, nor ``x = 1`` for a list of solutions."""
    timeout_seconds: float = Field(10, ge=1, le=600)
    """How long one answer may take; what is not decided then is a failed grading."""
    processes: int = Field(2, ge=1, le=64)
    """How many answers are graded at once, each in a process of its own."""


class MathVerifier:
    """Reward 1 when the last expression of the answer equals (one of) the right answers, else 0."""

    Options: ClassVar[type[BaseModel]] = MathOptions

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("MathOptions", options)
        require("math_verify", "math-verify", "math")
        limit = self.options.timeout_seconds
        arguments = {
            "precision": self.options.precision,
            "strict": self.options.strict,
            "seconds": int(limit),
        }
        self._processes = GradingProcesses(
            "nemo_gym.verifiers.math:grader",
            arguments,
            time_limit=limit + _SPARE,
            count=self.options.processes,
        )

    def check_row(self, row: Row) -> str | None:
        """The row needs right answers that are texts or numbers."""
        return lacks_texts(row, self.options.answer_field)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare with each right answer."""
        right = [str(one) for one in right_answers(task.row, self.options.answer_field)]
        found = await self._processes.call(answer=episode.text, right=right)
        return Verdict(found["reward"], found["extracted_answer"])


def grader(precision: int, *, strict: bool, seconds: int) -> Callable[..., dict[str, Any]]:
    """In a grading process: whether an answer equals one of the right ones.

    The library sets alarms, which work in the main thread alone: here it has one. Both of its steps share
    the time.
    """
    from math_verify import parse, verify
    from math_verify.errors import TimeoutException
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    kinds = (LatexExtractionConfig(), ExprExtractionConfig())
    each = max(1, seconds // 2)

    def expressions(text: str) -> list[Any]:
        try:
            return list(parse(text, kinds, parsing_timeout=each, raise_on_error=True))
        except TimeoutException:  # it is no Exception
            raise TimeoutError(f"math-verify needs more than {each} s") from None
        except Exception:  # noqa: BLE001 - its parser raises anything on texts that are not mathematics
            return []

    def equal(known: list[Any], given: list[Any]) -> bool:
        try:
            found: bool = verify(
                known,
                given,
                float_rounding=precision,
                strict=strict,
                timeout_seconds=each,
                raise_on_error=True,
            )
        except TimeoutException:
            raise TimeoutError(f"math-verify needs more than {each} s") from None
        except Exception:  # noqa: BLE001 - expressions that cannot be compared are not equal
            return False
        return found

    def grade(answer: str, right: Sequence[str]) -> dict[str, Any]:
        given = expressions(answer)
        wanted = []
        for text in right:
            known = expressions(text) or expressions(f"${text}$")
            if not known:
                raise ValueError(f"math-verify cannot read the right answer {text!r}")
            wanted.append(known)
        right_one = any(equal(known, given) for known in wanted)
        return {"reward": float(right_one), "extracted_answer": str(given[0]) if given else None}

    return grade
