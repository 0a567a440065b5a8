"""The policy model behind an OpenAI-compatible server: bounded, retried, never silent.

aiohttp is used for its cost: about 0.15 ms of CPU a request at 256 in flight. It does not repeat a POST on a
keep-alive connection that the server had closed, so `HttpPolicy` does that itself, once and at no cost.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import aiohttp
import orjson
import yarl

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.policy import (
    apis,
    errors,
    event_stream,
    http_body,
    likelihoods,
    provider_errors,
    refusals,
)
from nemo_gym.rollouts.policy.answers import MalformedAnswerError, usage_of
from nemo_gym.rollouts.policy.backoff import RequestLimits, delay_before_retry
from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.instruction_roles import SystemRole
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.policy.rate_limit import RateLimit
from nemo_gym.rollouts.policy.replicas import Delivery, Turns
from nemo_gym.types import LogLikelihood, Policy, Row
from nemo_runs import proxies
from nemo_runs.secret_refs import SecretText, redact
from nemo_runs.sizes import size_in_words

__all__ = ["Endpoint", "HttpPolicy", "PolicyError", "open_session", "proxy_for"]

_CONNECT_TIMEOUT = 30.0
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
    replica_urls: tuple[str, ...] = ()
    """Base URLs of further servers of the same model; each request goes to the least busy one."""

    @property
    def each(self) -> list[Endpoint]:
        """One endpoint for each server."""
        urls = (self.base_url, *self.replica_urls)
        return [replace(self, base_url=url, replica_urls=()) for url in urls]

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


@dataclass(frozen=True, slots=True)
class _Place:
    """One route of a server."""

    url: yarl.URL
    shown: str
    """Without credentials and query."""

    @classmethod
    def each_of(cls, endpoint: Endpoint, path: str) -> list[_Place]:
        return [cls(one.url(path), one.shown.rstrip("/") + path) for one in endpoint.each]


@dataclass(slots=True)
class _Tries:
    """How often one request was sent, and what became of it."""

    attempt: int = 0
    timeouts: int = 0
    drops: int = 0


class _WithheldError(Exception):
    """A content filter withheld the answer."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


_Read = TypeVar("_Read")


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
        rate: RateLimit | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._limits = limits
        self._retries = retries
        self._pause = pause
        self._rate = rate
        self._uniform = uniform
        self._places = _Place.each_of(endpoint, apis.PATHS[endpoint.api])
        self._scoring_places = _Place.each_of(endpoint, likelihoods.PATH)
        shown = [one.shown for one in endpoint.each]
        self._delivery = Delivery(shown, retries=retries, monotonic=monotonic)
        self._limit_name = "max_tokens"

    def for_rollout(self) -> Policy:
        """A policy for the requests of one rollout: they go to the same server as long as it is well."""
        return self if len(self._places) == 1 else _RolloutPolicy(self)

    async def respond(self, params: Mapping[str, Any], turns: Turns | None = None) -> Row:
        """Answer one request; see `nemo_gym.types.Policy`. Raises `PolicyError`."""
        turns = turns or Turns()
        limit_name = self._limit_name
        body = self._body(params)
        tries = _Tries()
        while True:
            try:
                return await self._deliver(body, self._places, self._response, turns, tries)
            except _WithheldError as withheld:
                return apis.withheld(withheld.words)
            except PolicyError as error:
                if limit_name != _NEWER_LIMIT and self._takes_newer_limit(error, params):
                    limit_name, body = _NEWER_LIMIT, self._body(params)
                    continue
                await self._before_another(error, tries)

    async def score(
        self, context: Sequence[int], continuation: Sequence[int], turns: Turns | None = None
    ) -> LogLikelihood:
        """The likelihood of tokens after others; see `nemo_gym.types.Policy`. Raises `PolicyError`."""
        tokens = [*context, *continuation]
        body = orjson.dumps(likelihoods.request_body(self._endpoint.model, tokens))
        turns, tries = turns or Turns(), _Tries()

        def read(answer: Any) -> LogLikelihood:
            return likelihoods.read(answer, context=len(context), tokens=len(tokens))

        while True:
            try:
                return await self._deliver(body, self._scoring_places, read, turns, tries)
            except _WithheldError as withheld:
                shown = self._scoring_places[turns.replica or 0].shown
                message = f"{shown} withheld its answer: {withheld.words}"
                raise PolicyError("agent_request_failed", message) from withheld
            except PolicyError as error:
                await self._before_another(error, tries)

    async def _deliver(
        self,
        body: bytes,
        places: list[_Place],
        read: Callable[[Any], _Read],
        turns: Turns,
        tries: _Tries,
    ) -> _Read:
        return await self._delivery.deliver(
            places, lambda place: self._send(body, place, read), turns, dropped=tries.drops > 0
        )

    async def _before_another(self, error: PolicyError, tries: _Tries) -> None:
        """Wait before the same request is sent again; raises the error where it is not."""
        tries.attempt += 1
        tries.timeouts += error.kind == "transport_timeout"
        tries.drops += error.kind == "transport_peer_drop"
        if tries.drops == 1 and error.kind == "transport_peer_drop":
            tries.attempt -= 1  # most likely a keep-alive connection that the server had just closed
            self._retries.note(error.kind, str(error), 0.0)
            return
        delay = delay_before_retry(
            error,
            attempt=tries.attempt,
            timeouts=tries.timeouts,
            limits=self._limits,
            uniform=self._uniform,
        )
        if delay is None:
            raise error
        self._retries.note(error.kind, str(error), delay)
        if await self._pause(delay):
            raise error

    def _response(self, answer: Any) -> Row:
        return apis.to_response(self._endpoint.api, answer)

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
                f"{self._places[0].shown} does not take max_tokens: max_output_tokens is sent as "
                f"{_NEWER_LIMIT}."
            )
        return True

    async def _send(self, body: bytes, place: _Place, read: Callable[[Any], _Read]) -> _Read:
        """Post once, within the limits, and read the answer. Raises `PolicyError` and `_WithheldError`."""
        sent = None if self._rate is None else await self._rate.admit(len(body))
        try:
            async with self._session.post(place.url, data=body, allow_redirects=False) as answer:
                if answer.status != 200:
                    start = await http_body.read_start(answer, http_body.LONGEST_ERROR)
                    raise self._refusal(answer, start, place)
                content = await http_body.read_body(answer, http_body.LONGEST_ANSWER)
                encoding = answer.headers.get("content-encoding", "")
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise errors.of_exception(place.shown, error, timeout=self._limits.timeout) from error
        if content is None:
            longest = size_in_words(http_body.LONGEST_ANSWER, binary=True)
            raise PolicyError("agent_request_failed", f"{place.shown} sent an answer of more than {longest}.")
        found = self._parsed(content, encoding, place)
        if self._rate is not None and sent is not None and isinstance(found, dict):
            usage = usage_of(found.get("usage"))
            if usage is not None:
                self._rate.settle(sent, usage["total_tokens"])
        try:
            return read(found)
        except likelihoods.NoLikelihoodsError as error:
            raise PolicyError("agent_run_error", f"{place.shown}: {error}.", http_status=200) from error
        except MalformedAnswerError as error:
            raise self._malformed(str(error), content, place) from error

    def _refusal(self, answer: aiohttp.ClientResponse, content: bytes, place: _Place) -> Exception:
        """What an answer with another status than 200 means; a content filter may have one of its own."""
        text = self._without_key(content)
        error = errors.of_status(
            place.shown,
            answer.status,
            text,
            answer.headers.get("retry-after"),
            now=time.time(),
            location=answer.headers.get("location"),
        )
        if error.said is not None and error.said.withheld:
            return _WithheldError(error.said.words)
        return error

    def _parsed(self, content: bytes, encoding: str, place: _Place) -> Any:
        try:
            found = http_body.parsed_json(content)
        except ValueError as error:
            if encoding.lower() not in _DECODED:
                message = f"{place.shown} {errors.wrongly_encoded(encoding)}."
                raise PolicyError("agent_request_failed", message, http_status=200) from error
            found = self._read_stream(content, error, place)
        said = provider_errors.inside(found)
        if said is not None:
            said = replace(said, message=self._endpoint.without_key(said.message))
            if said.withheld:
                raise _WithheldError(said.words)
            raise errors.of_inner_error(place.shown, said, self._without_key(content[:_BODY_READ]))
        return found

    def _read_stream(self, content: bytes, error: ValueError, place: _Place) -> Any:
        """What an answer holds that is not JSON; raises `PolicyError` where that is not known."""
        text = content.decode(errors="replace")
        if event_stream.looks_like_stream(text):
            try:
                return event_stream.answer_of(text)
            except event_stream.NotAStreamError as problem:
                raise self._malformed(str(problem), content, place) from problem
        title = provider_errors.page_title(text)
        if title is not None:
            reason = (
                f"an HTML page ({title or 'without a title'}), no JSON; is policy_base_url the API's address"
            )
        else:
            reason = "no JSON" if content.strip() else "nothing at all"
        raise self._malformed(reason, content, place) from error

    def _malformed(self, reason: str, content: bytes, place: _Place) -> PolicyError:
        message = f"{place.shown} sent a malformed answer: {reason}."
        body = self._without_key(content[:_BODY_READ])[: errors.BODY_LIMIT]
        return PolicyError("agent_request_failed", message, http_status=200, body=body)

    def _without_key(self, content: bytes) -> str:
        return self._endpoint.without_key(content.decode(errors="replace"))


class _RolloutPolicy:
    """A `nemo_gym.types.Policy` for the requests of one rollout."""

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy
        self._turns = Turns()

    async def respond(self, params: Mapping[str, Any]) -> Row:
        """See `nemo_gym.types.Policy`."""
        return await self._policy.respond(params, self._turns)

    async def score(self, context: Sequence[int], continuation: Sequence[int]) -> LogLikelihood:
        """See `nemo_gym.types.Policy`."""
        return await self._policy.score(context, continuation, self._turns)
