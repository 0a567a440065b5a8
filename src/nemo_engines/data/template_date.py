"""The date that chat templates get: always the same one.

Some templates write today's date. Of the clock's day other rows would be made when a training goes on
tomorrow, on each of two machines around midnight, and each time that a training is repeated.
"""

from __future__ import annotations

import datetime as dt

from transformers.utils import chat_template_utils

DAY = dt.datetime(2024, 7, 26)  # noqa: DTZ001 - a calendar day, wherever the machine stands
"""The date that Llama's templates write when they get none."""


class _Clock:
    """What the library asks for the time."""

    @staticmethod
    def now() -> dt.datetime:
        return DAY


def fix_day() -> None:
    """Let every chat template of this process be written on `DAY`."""
    chat_template_utils.datetime = _Clock
