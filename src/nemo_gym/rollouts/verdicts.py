"""A verdict inside a result row: writing it, and taking it out again before the answer is graded anew."""

from __future__ import annotations

from typing import Final

from nemo_gym.types import Row, Verdict

VERDICT_FIELDS: Final = "_ng_verdict_fields"
"""Names of the fields that the verifier added to a row; absent where it added none.

A field of the task that a verifier writes over is not among them: it would be lost with the verdict.
"""


END_FIELD: Final = "_ng_end"
"""Field of a row whose answer did not end well; it says how it ended (`nemo_gym.types.AnswerEnd`)."""
NOT_GRADED_FIELD: Final = "_ng_not_graded"
"""Field of such a row that got reward 0 without being graded; it belongs to the verdict."""


def graded(row: Row, verdict: Verdict, reward: float) -> Row:
    """The row with a verdict; the fields of an earlier one are gone, those of task and agent stay."""
    fields = ungraded(row)
    added = sorted(verdict.fields.keys() - fields.keys())
    fields.update(verdict.fields)
    if added:
        fields[VERDICT_FIELDS] = added
    fields["reward"] = reward
    fields["extracted_answer"] = verdict.extracted_answer
    return fields


def ungraded(row: Row) -> Row:
    """The row without what a verifier said; a copy."""
    of_verdict = {VERDICT_FIELDS, *(row.get(VERDICT_FIELDS) or ())}
    return {key: value for key, value in row.items() if key not in of_verdict}
