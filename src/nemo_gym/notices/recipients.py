"""Who is notified, as a job reads it from the file that was sealed with it, without values of secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.errors import DataError
from nemo_runs.secret_refs import parse_reference


@dataclass(frozen=True, slots=True)
class WebhookRecipient:
    """An address that JSON is posted to."""

    url: str
    """The address, or ``host:VAR`` or ``runtime:VAR``: the variable that holds it in the job."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Values as of ``url``."""
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Recipients:
    """Who is notified of which events."""

    on: frozenset[str]
    command: str | None = None
    """Shell text; it gets the notice as JSON on its standard input."""
    webhook: WebhookRecipient | None = None

    @property
    def variables(self) -> list[str]:
        """The environment variables that hold an address or a header."""
        if self.webhook is None:
            return []
        found = (
            parse_reference(value, where="notify")
            for value in (self.webhook.url, *self.webhook.headers.values())
        )
        return [reference.text for reference in found if reference.kind != "lit"]


def recipients_of(config: Mapping[str, Any]) -> Recipients:
    """Read the ``notify`` mapping of a submit config. Raises `KeyError` or `TypeError` for anything else."""
    webhook = config.get("webhook")
    return Recipients(
        frozenset(config["on"]),
        config.get("command"),
        None if webhook is None else WebhookRecipient(**webhook),
    )


def load_recipients(path: Path) -> Recipients:
    """Read the file that was sealed with a job. Raises `DataError`."""
    try:
        return recipients_of(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: it does not say who is to be notified ({error}).") from error
