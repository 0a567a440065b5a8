"""Who is notified that a benchmark has ended, has failed, or makes no progress."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from nemo_gym.orchestration.config.values import Count, Text
from nemo_runs.errors import RunsError
from nemo_runs.secret_refs import looks_secret, parse_reference

NoticeEvent = Literal["end", "failure", "no_progress"]
_HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"


def _reference(value: str, where: str) -> str:
    try:
        return parse_reference(value, where=where).kind
    except RunsError as error:
        raise ValueError(str(error)) from error


def _checked_url(url: str) -> str:
    if _reference(url, "url") == "lit" and (
        urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname
    ):
        raise ValueError(
            "must be an address with http:// or https://, or host:VAR for the variable that has it"
        )
    return url


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(_HEADER, name):
            raise ValueError(f"'{name}' is not a name of a header")
        kind = _reference(value, name)
        if kind == "lit" and not value.startswith("lit:") and (name == "Authorization" or looks_secret(name)):
            raise ValueError(f"{name}: name the variable that holds it, as host:VAR, never the value itself")
        if "\n" in value or "\r" in value:
            raise ValueError(f"{name}: its value holds a line break")
    return headers


class NotifyWebhook(BaseModel):
    """An address that JSON is posted to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    url: Annotated[Text, AfterValidator(_checked_url)]
    """``host:VAR`` where the address itself is a secret."""
    headers: Annotated[dict[str, str], AfterValidator(_checked_headers)] = {}
    """``host:VAR``, ``runtime:VAR`` or a literal."""
    timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 10


class NotifyConfig(BaseModel):
    """A command, a webhook, or both."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    command: Text | None = None
    """Shell text that gets the JSON document on its standard input."""
    webhook: NotifyWebhook | None = None
    on: Annotated[list[NoticeEvent], Field(min_length=1)] = ["end", "failure", "no_progress"]
    no_progress_minutes: Count = 30
    """After so many minutes without a new result."""

    @model_validator(mode="after")
    def _tells_somebody(self) -> NotifyConfig:
        if self.command is None and self.webhook is None:
            raise ValueError("needs a command or a webhook")
        return self

    def values(self) -> dict[str, str]:
        """What may refer to the submitting shell, by dotted path."""
        if self.webhook is None:
            return {}
        named = {f"notify.webhook.headers.{name}": value for name, value in self.webhook.headers.items()}
        return {"notify.webhook.url": self.webhook.url, **named}
