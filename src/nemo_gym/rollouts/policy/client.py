"""The policy model behind an OpenAI-compatible server: bounded, retried, never silent.

aiohttp is used for its cost: about 0.15 ms of CPU a request at 256 in flight. It does not repeat a POST on a
keep-alive connection that the server had closed, so `HttpPolicy` does that itself, once and at no cost.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson
import yarl

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.policy import apis, errors, event_stream, http_body, provider_errors, refusals
from nemo_gym.rollouts.policy.backoff import RequestLimits, delay_before_retry
from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.instruction_roles import SystemRole
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.types import Row
from nemo_runs import proxies
from nemo_runs.secret_refs import SecretText, redact
from nemo_runs.sizes import size_in_words

__all__ = ["Endpoint", "HttpPolicy", "PolicyError", "open_session", "proxy_for"]

_CONNECT_TIMEOUT = 30.0
_INTEGER_DIGITS = 18
_BODY_READ = 8000
"""Bytes of a malformed answer that are looked at for the failures file."""
_NEWER_LIMIT = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server and the model that is asked for there."""

    base_url: str
    """Up to and including ``/v1``."""
    model: str
    api: apis.Api = "chat"
    api_key: SecretText | None = field(default=None, repr=False)
    system_role: SystemRole | None = None
    """How the server wants instructions; ``None``: as the request has them."""

    def url(self, path: str) -> yarl.URL:
        """The address of ``path`` below the base URL."""
        return yarl.URL(self.base_url.rstrip("/") + path)

    @property
    def shown(self) -> str:
        """The base URL as it may be printed: without credentials and query."""
        return str(yarl.URL(self.base_url).with_user(None).with_query(None))

    def without_key(self, text: str) -> str:
        """The text with the API key blotted out: servers like to repeat it."""
        return redact(text, [self.api_key.reveal()]) if self.api_key else text


def open_session(endpoint: Endpoint, limits: RequestLimits) -> aiohttp.ClientSession:
    """A client session for the endpoint. Concurrency is bounded by the callers, so the pool is not."""
    headers = {"content-type": "application/json", "accept": "application/json"}
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key.reveal()}"
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        timeout=aiohttp.ClientTimeout(
            total=limits.timeout, sock_connect=min(_CONNECT_TIMEOUT, limits.timeout)
        ),
        proxy=proxy_for(endpoint.base_url),
    )


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address, looked up once and not for every request.

    Raises `ConfigError` when it cannot be one.
    """
    try:
        found = proxies.chosen(url, os.environ)
    except proxies.ProxyError as error:
        raise ConfigError(f"{error}.") from None
    return found.url if found else None


_DECODED = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
"""Values of the header content-encoding that the HTTP client undoes, or refuses."""


class HttpPolicy:
    """A `nemo_gym.types.Policy` over HTTP.

    ``pause(seconds)`` waits between tries and returns ``True`` if the wait was cut short because the run is
    being drained: then the last error is raised rather than another request started.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        limits: RequestLimits,
        *,
        retries: Retries,
        pause: Callable[[float], Awaitable[bool]],
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._limits = limits
        self._retries = retries
        self._pause = pause
        self._uniform = uniform
        self._url = endpoint.url(apis.PATHS[endpoint.api])
        self._where = endpoint.shown.rstrip("/") + apis.PATHS[endpoint.api]
        self._limit_name = "max_tokens"

    async def respond(self, params: Mapping[str, Any]) -> Row:
        """Answer one request; see `nemo_gym.types.Policy`. Raises `PolicyError`."""
        limit_name = self._limit_name
        body = self._body(params)
        attempt = timeouts = drops = 0
        while True:
            attempt += 1
            try:
                return await self._send(body)
            except PolicyError as error:
                if limit_name != _NEWER_LIMIT and self._takes_newer_limit(error, params):
                    limit_name, body = _NEWER_LIMIT, self._body(params)
                    attempt -= 1
                    continue
                timeouts += error.kind == "transport_timeout"
                drops += error.kind == "transport_peer_drop"
                if drops == 1 and error.kind == "transport_peer_drop":
                    attempt -= 1  # most likely a keep-alive connection that the server had just closed
                    self._retries.note(error.kind, str(error), 0.0)
                    continue
                delay = delay_before_retry(
                    error, attempt=attempt, timeouts=timeouts, limits=self._limits, uniform=self._uniform
                )
                if delay is None:
                    raise
                self._retries.note(error.kind, str(error), delay)
                if await self._pause(delay):
                    raise

    def _body(self, params: Mapping[str, Any]) -> bytes:
        endpoint = self._endpoint
        body = apis.request_body(
            endpoint.api,
            endpoint.model,
            params,
            system_role=endpoint.system_role,
            limit_name=self._limit_name,
        )
        return orjson.dumps(body)

    def _takes_newer_limit(self, error: PolicyError, params: Mapping[str, Any]) -> bool:
        """Whether the server asks for the newer name of the token limit; from then on all requests use it."""
        limited = self._endpoint.api == "chat" and params.get("max_output_tokens") is not None
        if not limited or not refusals.wants_newer_limit(error):
            return False
        if self._limit_name != _NEWER_LIMIT:
            self._limit_name = _NEWER_LIMIT
            self._retries.report(
                f"{self._where} does not take max_tokens: max_output_tokens is sent as {_NEWER_LIMIT}."
            )
        return True

    async def _send(self, body: bytes) -> Row:
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as answer:
                if answer.status != 200:
                    start = await http_body.read_start(answer, http_body.LONGEST_ERROR)
                    return self._refused(answer, start)
                content = await http_body.read_body(answer, http_body.LONGEST_ANSWER)
                encoding = answer.headers.get("content-encoding", "")
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise errors.of_exception(self._where, error, timeout=self._limits.timeout) from error
        if content is None:
            longest = size_in_words(http_body.LONGEST_ANSWER, binary=True)
            raise PolicyError("agent_request_failed", f"{self._where} sent an answer of more than {longest}.")
        return self._parsed(content, encoding)

    def _refused(self, answer: aiohttp.ClientResponse, content: bytes) -> Row:
        """The answer of a content filter that has a status of its own; raises `PolicyError` for any other."""
        text = self._without_key(content)
        error = errors.of_status(
            self._where,
            answer.status,
            text,
            answer.headers.get("retry-after"),
            now=time.time(),
            location=answer.headers.get("location"),
        )
        if error.said is not None and error.said.withheld:
            return apis.withheld(error.said.words)
        raise error

    def _parsed(self, content: bytes, encoding: str) -> Row:
        try:
            found = parsed_json(content)
        except ValueError as error:
            if encoding.lower() not in _DECODED:
                message = f"{self._where} {errors.wrongly_encoded(encoding)}."
                raise PolicyError("agent_request_failed", message, http_status=200) from error
            found = self._read_stream(content, error)
        said = provider_errors.inside(found)
        if said is not None:
            said = replace(said, message=self._endpoint.without_key(said.message))
            if said.withheld:
                return apis.withheld(said.words)
            raise errors.of_inner_error(self._where, said, self._without_key(content[:_BODY_READ]))
        try:
            return apis.to_response(self._endpoint.api, found)
        except apis.MalformedAnswerError as error:
            raise self._malformed(str(error), content) from error

    def _read_stream(self, content: bytes, error: ValueError) -> Any:
        """What an answer holds that is not JSON; raises `PolicyError` where that is not known."""
        text = content.decode(errors="replace")
        if event_stream.looks_like_stream(text):
            try:
                return event_stream.answer_of(text)
            except event_stream.NotAStreamError as problem:
                raise self._malformed(str(problem), content) from problem
        title = provider_errors.page_title(text)
        if title is not None:
            reason = (
                f"an HTML page ({title or 'without a title'}), no JSON; is policy_base_url the API's address"
            )
        else:
            reason = "no JSON" if content.strip() else "nothing at all"
        raise self._malformed(reason, content) from error

    def _malformed(self, reason: str, content: bytes) -> PolicyError:
        message = f"{self._where} sent a malformed answer: {reason}."
        body = self._without_key(content[:_BODY_READ])[: errors.BODY_LIMIT]
        return PolicyError("agent_request_failed", message, http_status=200, body=body)

    def _without_key(self, content: bytes) -> str:
        return self._endpoint.without_key(content.decode(errors="replace"))


def parsed_json(content: bytes) -> Any:
    """Parsed JSON; raises ``ValueError``.

    Servers written in Python also send ``NaN`` and boundless numbers (read as null here) and halves of
    surrogate pairs (read as ``?``), which a strict reader refuses and no result row could hold.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        text = content.decode("utf-8-sig", errors="replace")
    try:
        loose = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_bounded)
        return orjson.loads(json.dumps(loose, ensure_ascii=False).encode(errors="replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _bounded(text: str) -> int | float | None:
    return int(text) if len(text) <= _INTEGER_DIGITS else _finite(text)
