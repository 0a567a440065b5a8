"""Requests that a server refuses: whether others would be refused alike, and what helps. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nemo_gym.rollouts.policy.errors import REDIRECTED, PolicyError

ROWS_ENOUGH = 5
"""So many different rows refused with the same words, and none answered, end a run."""
LONG_ROWS_ENOUGH = 64
"""The same where the words are about length: long rows may all be at the beginning."""

MOST_WORDINGS = 100
"""The number of different refusals that are kept apart."""

_OF_THE_REQUEST = frozenset({400, 404, 405, 409, 411, 413, 415, 422, 501}) | REDIRECTED
_PASSING = frozenset({404, 405, 409}) | REDIRECTED
"""Statuses that may be gone when the server has been started or set up again."""
_IDS = re.compile(r"[\w-]*\d[\w-]*")
"""Numbers, and whatever else holds a digit: ids of requests differ from row to row."""
_LENGTH = re.compile(
    r"context.{0,10}(?:length|window|size)|maximum (?:context|model)|max_model_len|too (?:long|many tokens)",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\.role\b|(?:system|developer|message) role|role.{0,20}(?:system|developer)|roles must alternate",
    re.IGNORECASE,
)
_NOT_TAKEN = re.compile(
    r"unsupported|not supported|not compatible|instead|unknown|unrecognized", re.IGNORECASE
)
_SETTINGS = (
    "temperature",
    "top_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "reasoning",
    "max_output_tokens",
)
_NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning",
}
_NEWER_LIMIT = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """A client error in what it shares with others of its kind."""

    words: str
    """What the server said, without numbers and ids."""
    message: str
    """What it said about this request, with its address and status."""
    remedy: str
    """What would help, as an order; empty when that is not known."""
    lasting: bool
    """Whether the same request will be refused again as long as server and settings are the same."""
    about_length: bool = False


@dataclass(slots=True)
class Refusals:
    """Which rows were refused alike, as long as no request has been answered."""

    rows: dict[str, set[int]] = field(default_factory=dict)
    verdict: str | None = None
    """Why the run stops, once it does."""
    lasting: bool = False
    """Whether it would stop for the same reason again."""
    _last: ServerRefusal | None = None

    def note(self, task_index: int, refusal: ServerRefusal) -> str | None:
        """Note one; the verdict when so many different rows were refused alike that all will be."""
        self._last = refusal
        if len(self.rows) > MOST_WORDINGS and refusal.words not in self.rows:
            return None
        rows = self.rows.setdefault(refusal.words, set())
        rows.add(task_index)
        enough = LONG_ROWS_ENOUGH if refusal.about_length else ROWS_ENOUGH
        return self.conclude() if len(rows) >= enough else None

    def conclude(self) -> str | None:
        """The verdict where every request was refused; ``None`` unless all were in the same words."""
        last = self._last
        if last is None or self.verdict is not None:
            return self.verdict
        rows = len(self.rows.get(last.words, ()))
        if len(self.rows) > 1 and rows < ROWS_ENOUGH:
            return None
        remedy = f"; {last.remedy}" if last.remedy else ""
        what = f"{rows:,} different rows were refused with the same client error"
        what = "the only row was refused" if rows == 1 else what
        self.verdict = (
            f"{what} and no request was answered, so no more are sent: {last.message.rstrip('.')}{remedy}."
        )
        self.lasting = last.lasting
        return self.verdict


def refusal_of(error: PolicyError) -> ServerRefusal | None:
    """The client error in a failed request, ``None`` for errors of any other kind."""
    if error.http_status not in _OF_THE_REQUEST or error.kind != "agent_run_error":
        return None
    said = error.said.message if error.said else error.body or ""
    words = f"{error.http_status} {_IDS.sub('#', said[:500])}"
    return ServerRefusal(
        words,
        str(error),
        remedy(error),
        error.http_status not in _PASSING,
        about_length=bool(_LENGTH.search(said)),
    )


def remedy(error: PolicyError) -> str:
    """What would help against a client error."""
    said = error.said.message if error.said else error.body or ""
    param = error.said.param if error.said else ""
    if error.http_status in REDIRECTED:
        return "set policy_base_url to the address of the API itself (https instead of http, no final slash)"
    if error.http_status in {404, 405}:
        return "check policy_base_url (it ends in /v1 for most servers), policy_api and policy_model_name"
    if _LENGTH.search(said):
        return "lower max_output_tokens, or serve the model with a longer context"
    if _ROLE.search(f"{param} {said}"):
        return "say how the server wants instructions: policy_system_role=system, developer or user"
    name = _setting(param) or next((name for name in (*_NAMES, *_SETTINGS) if f"'{name}'" in said), "")
    name = _NAMES.get(name, name)
    if name:
        alternative = "or put what it takes into extra_body"
        return f"leave it to the server (responses_create_params.{name}=null), {alternative}"
    return ""


def wants_newer_limit(error: PolicyError) -> bool:
    """Whether the server refuses ``max_tokens`` and asks for the newer name of the token limit."""
    if error.http_status not in {400, 422} or error.said is None:
        return False
    said = error.said
    about = said.param == "max_tokens" or "max_tokens" in said.message
    return about and _NEWER_LIMIT in said.message and _NOT_TAKEN.search(said.message) is not None


def _setting(param: str) -> str:
    name = param.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]
    return name if name in _SETTINGS or name in _NAMES else ""
