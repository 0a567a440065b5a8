"""The connection to a service: builds requests, refuses to leak tokens, repeats, and makes errors ours."""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import tenacity
from pydantic import BaseModel

from nemo_helix_plugin import __version__
from nemo_helix_plugin.client import errors, failures, uploads
from nemo_helix_plugin.client.options import ClientOptions
from nemo_helix_plugin.client.request import Request
from nemo_helix_plugin.errors import ContextFileError
from nemo_runs import proxies
from nemo_runs.addresses import is_loopback

HTTP_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)


def prepared(
    client: httpx.Client | httpx.AsyncClient, options: ClientOptions, request: Request
) -> httpx.Request:
    """The request as it goes out; raises `InsecureTransportError`, and ValueError if it cannot be made."""
    url = options.url(request.filled(options.workspace))
    headers = {"User-Agent": f"nemo-baton/{__version__}", "Accept": "application/json", **options.headers}
    headers.update(request.headers)
    content: Any = None
    if request.file is not None:
        said, content = uploads.outgoing(request.file, asynchronous=isinstance(client, httpx.AsyncClient))
        headers.update(said)
    elif request.body is not None:
        headers["Content-Type"] = "application/json"
        content = encoded(request.body)
    token = options.token()
    if token and not any(name.lower() == "authorization" for name in headers):
        _refuse_unsendable(token, options.where)
        headers["Authorization"] = f"Bearer {token}"
    _refuse_cleartext(url, headers, options.where)
    return client.build_request(
        request.method,
        url,
        params=query(request.query) or None,
        headers=headers,
        content=content,
        timeout=httpx.Timeout(options.timeout),
    )


def encoded(body: Any) -> bytes:
    """A body as JSON; fields of a model that nobody set are left out."""
    if isinstance(body, BaseModel):
        return body.model_dump_json(exclude_unset=True, by_alias=True).encode()
    return orjson.dumps(body)


def query(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Query parameters as text; those that are None are left out, a filter tree becomes JSON."""
    return {name: _text(value) for name, value in parameters.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else str(value)


def _refuse_unsendable(token: str, where: str) -> None:
    """Said here, because lower layers would show the token in their message."""
    if not (token.isascii() and token.isprintable()):
        raise ContextFileError(
            f"the access token for {where} is not one line of plain ASCII text; set it again"
        )


def _refuse_cleartext(url: str, headers: Mapping[str, str], where: str) -> None:
    parts = urlsplit(url)
    named = parts.username is not None or any(name.lower() == "authorization" for name in headers)
    if named and parts.scheme != "https" and not is_loopback(parts.hostname):
        raise errors.InsecureTransportError(
            f"an access token is not sent to {where} unencrypted; use https://, or a tunnel to localhost"
        )


def tls_context(options: ClientOptions) -> ssl.SSLContext:
    """Whom to trust. Raises `CertificateError` when the authority's file cannot be used."""
    if not options.certificate_authority:
        return _environments_context(options)
    try:
        return ssl.create_default_context(cafile=options.certificate_authority)
    except (OSError, ssl.SSLError) as error:
        message = (
            f"the certificate authority {options.certificate_authority} of {options.where} cannot be read"
        )
        raise errors.CertificateError(f"{message} ({_reason(error)})", error, sent=False) from error


def _environments_context(options: ClientOptions) -> ssl.SSLContext:
    """Everybody whom this machine trusts, or SSL_CERT_FILE and SSL_CERT_DIR say."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    try:
        if not named or is_loopback(urlsplit(options.base_url).hostname):
            return _bundled_context()
        return httpx.create_ssl_context()
    except (OSError, ssl.SSLError) as error:
        message = f"SSL_CERT_FILE or SSL_CERT_DIR of this shell cannot be used ({_reason(error)})"
        raise errors.CertificateError(message, error, sent=False) from error


@functools.cache
def _bundled_context() -> ssl.SSLContext:
    """The authorities that come with httpx, read once in a process: that takes longer than most requests."""
    return httpx.create_ssl_context(trust_env=False)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it holds no certificate"


def connection(options: ClientOptions, *, direct: bool = False) -> dict[str, Any]:
    """Arguments of httpx's clients that every connection of ours has.

    ``direct`` asks no proxy, as a transport of the caller's needs it. Raises `ContextFileError` for a
    variable that names a proxy which cannot be used.
    """
    proxy = None if direct else chosen_proxy(options)
    # what the environment says was read already: httpx would raise its own errors for it
    return {
        "verify": tls_context(options),
        "trust_env": False,
        "proxy": proxy.url if proxy else None,
        "follow_redirects": False,
    }


def chosen_proxy(options: ClientOptions) -> proxies.Proxy | None:
    """The proxy for the service; none for one of this machine, whatever the environment says."""
    try:
        return proxies.chosen(options.base_url, os.environ)
    except proxies.ProxyError as error:
        raise ContextFileError(str(error)) from None


class ClientSession:
    """Sends requests and waits for the answers."""

    def __init__(self, http: httpx.Client, options: ClientOptions) -> None:
        self.http = http
        self.options = options

    def send(self, request: Request) -> httpx.Response:
        """The whole answer; raises `NemoClientError`."""
        policy = self.options.retry
        arguments = policy.arguments(repeatable=request.repeatable, sleep=self.options.runtime.sleep)
        return tenacity.Retrying(**arguments)(self._once, request)

    @contextlib.contextmanager
    def stream(self, request: Request) -> Iterator[httpx.Response]:
        """An answer whose body is read inside the block; raises `NemoClientError`, inside the block too."""
        with _our_errors(self.options):
            outgoing = prepared(self.http, self.options, request)
            answer = self.http.send(outgoing, stream=True)
            try:
                if not answer.is_success:
                    answer.read()
                    raise failures.from_answer(answer, self.options.where)
                yield answer
            finally:
                answer.close()

    def _once(self, request: Request) -> httpx.Response:
        outgoing = prepared(self.http, self.options, request)
        with _our_errors(self.options):
            answer = self.http.send(outgoing)
        if not answer.is_success:
            raise failures.from_answer(answer, self.options.where)
        return answer


class AsyncSession:
    """The same with ``await``."""

    def __init__(self, http: httpx.AsyncClient, options: ClientOptions) -> None:
        self.http = http
        self.options = options

    async def send(self, request: Request) -> httpx.Response:
        """The whole answer; raises `NemoClientError`."""
        policy = self.options.retry
        arguments = policy.arguments(repeatable=request.repeatable, sleep=self.options.runtime.async_sleep)
        return await tenacity.AsyncRetrying(**arguments)(self._once, request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx.Response]:
        """An answer whose body is read inside the block; raises `NemoClientError`, inside the block too."""
        with _our_errors(self.options):
            outgoing = prepared(self.http, self.options, request)
            answer = await self.http.send(outgoing, stream=True)
            try:
                if not answer.is_success:
                    await answer.aread()
                    raise failures.from_answer(answer, self.options.where)
                yield answer
            finally:
                await answer.aclose()

    async def _once(self, request: Request) -> httpx.Response:
        outgoing = prepared(self.http, self.options, request)
        with _our_errors(self.options):
            answer = await self.http.send(outgoing)
        if not answer.is_success:
            raise failures.from_answer(answer, self.options.where)
        return answer


@contextlib.contextmanager
def _our_errors(options: ClientOptions) -> Iterator[None]:
    try:
        yield
    except HTTP_FAILURES as error:
        proxy = chosen_proxy(options)
        via = proxy.variable if proxy else ""
        raise failures.from_transport(error, options.where, options.timeout, via=via) from error
