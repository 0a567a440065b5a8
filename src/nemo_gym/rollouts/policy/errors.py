"""Why a model gave no answer: a closed set of kinds, and the way from HTTP and transport errors to it."""

from __future__ import annotations

import email.utils
import os
import re
from typing import Literal

import aiohttp

from nemo_gym.rollouts.policy.provider_errors import ProviderError, of_body, page_title
from nemo_runs import proxies

Kind = Literal[
    "transport_unreachable",
    "transport_peer_drop",
    "transport_timeout",
    "transport_local_resource",
    "provider_unavailable",
    "provider_quota_exhausted",
    "agent_request_failed",
    "agent_run_error",
]

BODY_LIMIT = 2000
"""Characters of an error body that are kept."""

_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_ENCODING = re.compile(r"content-encoding: (?:\w+ \()?([\w.-]+)", re.IGNORECASE)
"""What the HTTP client says of a body that it cannot decode."""
_GATEWAY = frozenset({429, 502, 503, 504})
_TRY_AGAIN = frozenset({408, 425})
REJECTED = frozenset({401, 403})
"""Statuses of an answer that refuses the credentials."""

REDIRECTED = frozenset({301, 302, 303, 307, 308})
"""Statuses of an answer that points to another address."""

_NOT_THIS_REQUEST = frozenset({401, 403, 404})
_OUT_OF_QUOTA = "insufficient_quota"
_OUT_OF_FILES = frozenset({23, 24, 12, 99, 105})  # ENFILE EMFILE ENOMEM EADDRNOTAVAIL ENOBUFS


class PolicyError(Exception):
    """No answer could be had within the bounds; the message says what the last try met."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        http_status: int | None = None,
        body: str | None = None,
        retry_after: float | None = None,
        said: ProviderError | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.http_status = http_status
        """Of the answer; for an error inside an answer with status 200 what its code stands for."""
        self.body = body
        """The beginning of the server's answer, without the API key."""
        self.retry_after = retry_after
        """Seconds that the server asked to wait."""
        self.said = said
        """The server's own words, where they could be made out."""

    @property
    def of_endpoint(self) -> bool:
        """Whether the endpoint is at fault rather than this one request, so that others would fail too."""
        if self.kind == "agent_run_error":
            return self.http_status in _NOT_THIS_REQUEST
        return self.kind != "agent_request_failed"

    @property
    def worth_retrying(self) -> bool:
        """Whether the same request may fare better in a moment."""
        return self.kind != "agent_run_error" and _OUT_OF_QUOTA not in (self.body or "")

    @property
    def failure_class(self) -> str:
        """The class for the failures file.

        ``agent_request_failed``: no reply, or one that says to ask later (429, and what a gateway says in
        the place of the server: 502, 503, 504, …). ``agent_run_error``: the server's own answer.
        """
        if self.http_status is None or self.http_status in _GATEWAY or self.kind == "agent_request_failed":
            return "agent_request_failed"
        return "agent_run_error"


def of_status(
    where: str, status: int, body: str, retry_after: str | None, *, now: float, location: str | None = None
) -> PolicyError:
    """The error for an answer whose status is not 200; ``now`` (UTC seconds) reads a Retry-After date.

    ``location`` is where a redirect points to; none is followed, since a POST can become a GET on the way.
    """
    said = of_body(body)
    words = _one_line(body) or "no text"
    if said is None and (title := page_title(body)) is not None:
        words = f"an HTML page ({_one_line(title) or 'without a title'})"
    if status in REDIRECTED and location:
        words = f"it points to {_CREDENTIALS.sub('//', _one_line(re.split('[?#]', location)[0]))}"
    message = f"{where} answered {status}: {words}"
    wait = parse_retry_after(retry_after, now=now)
    return PolicyError(
        _kind_of(status), message, http_status=status, body=body[:BODY_LIMIT], retry_after=wait, said=said
    )


def of_inner_error(where: str, said: ProviderError, body: str) -> PolicyError:
    """The error for an answer with status 200 that holds an error; its code decides what kind it is."""
    status = said.status
    kind: Kind = "agent_request_failed" if status is None else _kind_of(status)
    message = f"{where} answered 200 with an error inside: {_one_line(said.words)}"
    return PolicyError(kind, message, http_status=status or 200, body=body[:BODY_LIMIT], said=said)


def _kind_of(status: int) -> Kind:
    if status == 429:
        return "provider_quota_exhausted"
    if status >= 500 or status in _TRY_AGAIN:
        return "provider_unavailable"
    return "agent_run_error"


def of_exception(where: str, error: Exception, *, timeout: float) -> PolicyError:
    """The error for an exception of the HTTP client; most specific first. ``timeout`` in seconds."""
    if isinstance(error, TimeoutError):
        return PolicyError("transport_timeout", f"{where} gave no answer within {timeout:g} s.")
    if isinstance(error, OSError) and error.errno in _OUT_OF_FILES:
        message = f"this machine cannot open another connection ({error.strerror}); lower --concurrency."
        return PolicyError("transport_local_resource", message)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return PolicyError("transport_unreachable", _unreachable(where, error))
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError) and (
        named := _ENCODING.search(str(error))
    ):
        return PolicyError("agent_request_failed", f"{where} {wrongly_encoded(named[1])}.")
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | ConnectionError):
        return PolicyError(
            "transport_peer_drop", f"{where} closed the connection before the answer was complete."
        )
    return PolicyError("agent_request_failed", f"{where}: {type(error).__name__}: {_error_text(error)}")


def wrongly_encoded(encoding: str) -> str:
    """What is said of a body that its header ``content-encoding`` is wrong about."""
    shown = _one_line(encoding, 40)
    return (
        f"sent an answer that cannot be decoded as its header content-encoding says ({shown}); "
        "the server, or a proxy before it, must send it as it says, or plain"
    )


def _error_text(error: Exception) -> str:
    """What an exception says, without addresses: that of a proxy may hold a password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {_one_line(error.message)}".rstrip()
    return _CREDENTIALS.sub("//", _one_line(str(error)))


def _unreachable(where: str, error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name of {where} cannot be resolved."
    if isinstance(error, aiohttp.ClientSSLError):
        return f"no secure connection to {where}: {_one_line(str(error))}"
    reason = _plain((error.os_error.strerror or str(error.os_error)).lower())
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        proxy = proxies.chosen(where, os.environ)
        named = f"of {proxy.variable}" if proxy else "that the environment names"
        return f"the proxy {named} for {where} cannot be reached ({reason})."
    return f"{where} cannot be reached ({reason})."


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """Seconds to wait from a Retry-After header, given as seconds or as a date; ``None`` if it is neither."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _plain(reason: str) -> str:
    """``connect call failed ('127.0.0.1', 1)`` is how asyncio words a refused connection."""
    return "connection refused" if "connect call failed" in reason else reason


def _one_line(text: str, limit: int = 300) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"
