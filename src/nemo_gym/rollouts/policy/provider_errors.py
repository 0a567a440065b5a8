"""What a model server says when it gives no answer: its words, code and parameter, in many shapes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.rollouts.policy.answers import FAILED_ENDS
from nemo_gym.types import Row

_FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed"}
)
_STATUS_OF_WORDS = (
    (("insufficient_quota", "rate_limit", "too_many_requests", "resource_exhausted"), 429),
    (("invalid_api_key", "authentication", "unauthorized", "unauthenticated"), 401),
    (("permission",), 403),
    (("not_found",), 404),
    (("context_length", "invalid", "unsupported", "bad_request", "badrequest"), 400),
    (("server", "unavailable", "overload", "internal", "timeout", "provider", "network", "bad_gateway"), 502),
)
_FAILED_STATUS = frozenset({"failed", "cancelled"})
_UNFINISHED_STATUS = frozenset({"queued", "in_progress"})
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error as a server words it."""

    message: str
    code: str = ""
    """Its code, else its type; empty when it has neither."""
    param: str = ""
    """The parameter that it is about."""

    @property
    def status(self) -> int | None:
        """The HTTP status that the code stands for, ``None`` when that is not known."""
        if self.code.isascii() and self.code.isdigit():
            return int(self.code) if 400 <= int(self.code) <= 599 else None
        word = self.code.lower()
        return next(
            (status for parts, status in _STATUS_OF_WORDS if any(part in word for part in parts)), None
        )

    @property
    def withheld(self) -> bool:
        """Whether a content filter refused the request, which it will do again."""
        word = self.code.lower()
        return word in _FILTER_CODES or (word == "invalid_prompt" and "flagged" in self.message)

    @property
    def words(self) -> str:
        """Code and message."""
        return f"{self.code}: {self.message}" if self.code and self.code not in self.message else self.message


def of_body(text: str) -> ProviderError | None:
    """The error that the body of a refusal holds, ``None`` when it is not JSON or holds none."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(body, list):  # some wrap the one error in a list
        body = body[0] if body else None
    if not isinstance(body, dict):
        return None
    return _of(body.get("error")) or _loose(body)


def inside(answer: Any) -> ProviderError | None:
    """The error that an answer with status 200 holds in place of, or beside, what it should hold."""
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if not isinstance(answer, dict):
        return None
    if answer.get("error"):
        return _of(answer["error"])
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _of_choice(choices[0])
    status = answer.get("status")
    status = status if isinstance(status, str) else None
    if status in _FAILED_STATUS:
        return ProviderError(f"the answer's status is {status}, without a reason", "server_error")
    if status in _UNFINISHED_STATUS and "output" in answer:
        return ProviderError(
            f"the answer is not there yet, its status is {status}; background must not be set"
        )
    whole = "output" in answer or choices or _is_turn(answer.get("message"))
    return None if whole else _loose(answer)


def _is_turn(message: Any) -> bool:
    """Whether this is what a model said, in an answer of another API."""
    return isinstance(message, dict) and "role" in message


def page_title(text: str) -> str | None:
    """The title of an HTML page, an empty text for a page without one, ``None`` for what is not a page."""
    start = text.lstrip("\ufeff \t\r\n")[:200].lower()
    if not start.startswith(("<!doctype", "<html", "<head")):
        return None
    found = _TITLE.search(text)
    return " ".join(found[1].split()) if found else ""


def _of_choice(choice: Row) -> ProviderError | None:
    if choice.get("error"):
        return _of(choice["error"])
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and finish.lower() in FAILED_ENDS:
        return ProviderError(f"the answer ended with finish_reason {finish!r}", "server_error")
    return None


def _of(error: Any) -> ProviderError | None:
    if isinstance(error, str) and error.strip():
        return ProviderError(error)
    if not isinstance(error, Mapping) or not error:
        return None
    message = error.get("message") or error.get("msg") or error.get("detail") or ""
    metadata = error["metadata"] if isinstance(error.get("metadata"), Mapping) else {}
    if "flagged_input" in metadata:  # a router's moderation, with the status of a wrong key
        return ProviderError(str(message), "content_filter")
    raw = metadata.get("raw")
    if isinstance(raw, str) and raw not in str(message):
        message = f"{message} ({raw[:500]})"
    inner = error.get("innererror")
    code = (inner.get("code") if isinstance(inner, Mapping) else None) or _code(error)
    return ProviderError(str(message) or json.dumps(dict(error))[:500], code, str(error.get("param") or ""))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _code(error: Mapping[str, Any]) -> str:
    return next((str(error[key]) for key in ("code", "type", "status") if error.get(key)), "")


def _loose(body: Mapping[str, Any]) -> ProviderError | None:
    """An error that is not wrapped in an object of that name."""
    detail = body.get("detail")
    if (
        isinstance(detail, list) and detail and isinstance(detail[0], Mapping)
    ):  # pydantic's, one entry a value
        where = [str(part) for part in _list(detail[0].get("loc")) if part != "body"]
        words = f"{'.'.join(where)}: {detail[0].get('msg', '')}" if where else str(detail[0].get("msg", ""))
        return ProviderError(words, str(detail[0].get("type") or ""), where[0] if where else "")
    for key in ("detail", "message", "msg", "errors"):
        value = body.get(key)
        if isinstance(value, Mapping):
            return _of(value)
        if isinstance(value, list) and value:
            return _of(value[0])
        if isinstance(value, str) and value.strip():
            return ProviderError(value, _code(body), str(body.get("param") or ""))
    return None
