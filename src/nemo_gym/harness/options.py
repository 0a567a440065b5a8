"""What a benchmark of lm-evaluation-harness may set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Shots = Annotated[int, Field(ge=0, strict=True)]


class HarnessOptions(BaseModel):
    """One task, group or tag of lm-eval, and how it is asked; names and defaults are lm-eval's."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    task: Annotated[str, Field(min_length=1)]
    """Its name, or that of a group or tag."""
    include_path: list[Path] = []
    """Folders with definitions of one's own; they come before lm-eval's."""
    num_fewshot: Shots | None = None
    """Examples before each question, in place of the task's own number; tasks that say 0 keep it."""
    fewshot_seed: int | None = 1234
    apply_chat_template: bool | None = None
    """Ask with messages (a system prompt, few-shot examples as turns); null: where the API takes messages."""
    fewshot_as_multiturn: bool = True
    """With messages: each example is a turn of its own."""
    system_instruction: str | None = None
    gen_kwargs: dict[str, Any] = {}
    """Laid over the ``generation_kwargs`` of each task."""
    max_length: Annotated[int, Field(ge=8)] = 2048
    """Tokens of the longest text whose likelihood is asked for; contexts are cut from the left."""
    score: str | None = None
    """The metric that is the reward, as ``metric,filter``; null: the first one that is a number in [0, 1]."""
    bootstrap_iters: Annotated[int, Field(ge=0)] = 100_000
    """Resamples behind the standard errors of metrics that have no formula for it; 0: no standard errors."""
    definition: dict[str, Any] | None = None
    """Filled in before the first request: version of lm-eval, and digests of the task's files."""
