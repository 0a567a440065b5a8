"""What a benchmark may say of its prompts: templates, examples, conversations, images and tools of rows."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from nemo_gym.rollouts.run_config.prompts import Syntax, template
from nemo_gym.rollouts.run_config.values import Count, Index, Strict
from nemo_runs import strict_json

Split = Literal["benchmark", "validation", "train"]


class ExamplesConfig(Strict):
    """Solved examples that each question is put after (few-shot)."""

    rows: list[dict[str, Any]] | None = None
    """The examples themselves, with the fields that the prompt uses."""
    split: Split | None = None
    """The data set of the benchmark that they are taken from, in place of ``rows``."""
    count: Count | None = None
    """How many; null: all of ``rows``."""
    draw: Literal["first", "once", "each_task"] = "first"
    """``first``: the first ones; ``once``: drawn by chance, the same for all tasks; ``each_task``: drawn
    for each task. A task is never shown its own row."""
    seed: Index = 0
    """What the drawing begins with."""
    answer: str | None = None
    """How the assistant answers an example, in the prompt's syntax; null: the field ``expected_answer``."""
    in_one_message: bool = False
    """Put examples and question into one message of the user, for models without chat."""

    @model_validator(mode="after")
    def _come_from_one_place(self) -> Self:
        if (self.rows is None) == (self.split is None):
            raise ValueError("needs rows (the examples themselves) or split (a data set), one of them")
        if self.split is not None and self.count is None:
            raise ValueError("needs count, the number of examples to take from the split")
        if self.rows is not None:
            if not self.rows or (self.count or 0) > len(self.rows):
                raise ValueError(f"has {len(self.rows)} rows, fewer than it takes")
            strict_json.checked(self.rows)
        return self

    def answer_template(self, syntax: Syntax | None) -> str:
        """The template of an example's answer."""
        return self.answer or ("{{ expected_answer }}" if syntax == "jinja2" else "{expected_answer}")


class PromptConfig(Strict):
    """How a row becomes messages; ``{field}`` stands for the row's field, ``{{`` and ``}}`` for braces."""

    syntax: Syntax | None = None
    """``jinja2``: all templates of this prompt are Jinja2; null: ``{field}``."""
    user: str | None = None
    """What the user says."""
    conversation: str | None = None
    """In place of ``user``: the field that holds the messages so far."""
    ends_with_answer: bool | None = None
    """Whether each conversation ends with the expected answer of the assistant, as those for training do: it
    is left out of what is asked, and becomes ``expected_answer`` where the row has none."""
    turns: str | None = None
    """In place of ``user``: the field that holds what the user says, a list of texts; each is said once the
    one before is answered."""
    system: str | None = None
    """Instructions."""
    examples: ExamplesConfig | None = None
    images: list[str] | None = Field(default=None, min_length=1)
    """Fields that hold an image or a list of them, put before the text of the user; of a conversation, where
    it has a place for an image (a part ``{"type": "image"}``, or ``<image>`` in a text)."""
    images_in_text: bool | None = None
    """Whether images are put where the text of the user has ``<image>``, one after the other, or
    ``<image 1>``; those without such a place come before the text."""
    tools: str | None = None
    """The field that holds the tools of the row."""

    @field_validator("user", "system")
    @classmethod
    def _is_template(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            template(value, info.data.get("syntax"))
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if [self.user, self.conversation, self.turns].count(None) != 2:
            raise ValueError(
                "needs user (a template), conversation (a field with messages) or turns (a field with what "
                "the user says one after the other), one of them"
            )
        if self.user is None and self.examples is not None:
            what = "turns" if self.conversation is None else "a conversation"
            raise ValueError(f"has {what}, to which examples cannot be added; use user")
        if self.ends_with_answer is not None and self.conversation is None:
            raise ValueError("ends_with_answer is for a conversation")
        if self.turns is not None and self.images is not None:
            raise ValueError("has turns, to which images cannot be added; use conversation or user")
        if self.images_in_text is not None and (self.images is None or self.user is None):
            raise ValueError("images_in_text is for images beside the text of the user")
        if self.examples is not None:
            try:
                template(self.examples.answer_template(self.syntax), self.syntax)
            except ValueError as error:
                raise ValueError(f"examples.answer: {error}") from None
        return self
