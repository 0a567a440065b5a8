"""What becomes of the rows: the same fields in the input spec of every backend."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from nemo_helix_plugin.customization.types.parts import Reference
from nemo_helix_plugin.jobs.models import RequestModel

Weight = Annotated[float, Field(gt=0, le=1000)]
ChatTemplate = Annotated[str, StringConstraints(min_length=1, max_length=262_144)]


class RowsPolicy(RequestModel):
    """Rows that are too long, what is learned of conversations, and more data sets."""

    overlong: Literal["truncate", "drop", "error"] = "truncate"
    """Rows beyond the longest length lose their end, are left out, or keep the training from starting."""
    learned_turns: Literal["all", "assistant", "last"] | None = None
    """All of the text, the assistant's messages, or its last one; ``None`` = as is usual with the backend."""
    chat_template: ChatTemplate | None = None
    """The text of a Jinja template, in the place of the model's own."""
    weight: Weight = 1.0
    """How often each row of the data set comes in an epoch: 2 = twice; 0.5 = half of the rows."""
    beside: dict[Reference, Weight] | None = None
    """More data sets to learn from, each with its weight."""
