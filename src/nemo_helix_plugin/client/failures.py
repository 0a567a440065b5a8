"""From what httpx raises and the service answers to our errors, each with one sentence."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from nemo_helix_plugin.client import errors

Model = TypeVar("Model", bound=BaseModel)

LONGEST_SHOWN = 300
"""Characters of a foreign body that a message may hold."""


_ROWS: tuple[tuple[tuple[type[Exception], ...], type[errors.NemoTransportError], bool, str], ...] = (
    (
        (httpx.ConnectTimeout, httpx.PoolTimeout),
        errors.NemoTimeoutError,
        False,
        "the service at {where} cannot be reached within {seconds}",
    ),
    (
        (httpx.TimeoutException,),
        errors.NemoTimeoutError,
        True,
        "the service at {where} gave no answer within {seconds}",
    ),
    (
        (httpx.ProxyError,),
        errors.NemoTransportError,
        False,
        "the proxy in front of {where} does not let the request through ({reason})",
    ),
    (
        (httpx.ConnectError,),
        errors.NemoTransportError,
        False,
        "no service answers at {where} ({reason}); is it running ('nemo services run')?",
    ),
    (
        (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError),
        errors.NemoTransportError,
        False,
        "the request to {where} cannot be sent ({reason})",
    ),
    (
        (httpx.DecodingError,),
        errors.NemoTransportError,
        True,
        "the answer of {where} cannot be decoded ({reason})",
    ),
)
"""Most specific first: classes, ours, whether the service may have seen the request, the sentence."""


def from_transport(
    error: Exception, where: str, timeout: float | None, *, via: str = ""
) -> errors.NemoTransportError:
    """The error for a request that got no answer; ``via`` is the variable that names the proxy on the way."""
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    if tls is not None:
        return errors.CertificateError(_tls_message(tls, where), error, sent=False)
    text = f"the service at {where} hung up before its answer was complete ({_plain(error)})"
    kind, sent = errors.NemoTransportError, True
    for classes, row_kind, row_sent, sentence in _ROWS:
        if isinstance(error, classes):
            kind, sent = row_kind, row_sent
            values = {"where": where, "seconds": _seconds(timeout), "reason": _reason(error)}
            text = sentence.format(**values)
            if via and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
                text = f"the proxy of {via} for {where} cannot be used ({_reason(error)})"
            break
    return kind(text, error, sent=sent)


def from_answer(answer: httpx.Response, where: str) -> errors.NemoHTTPError:
    """The error for an answer that says no."""
    body = _body(answer)
    detail = _detail(body) or _foreign_detail(answer)
    status = answer.status_code
    return errors.for_status(status)(
        _http_message(status, detail, where),
        status_code=status,
        detail=detail,
        body=body,
        request=f"{answer.request.method} {answer.request.url.copy_with(userinfo=b'')}",
        should_retry={"true": True, "false": False}.get(answer.headers.get("x-should-retry", "").lower()),
        retry_after=_retry_after(answer),
    )


def validated(answer: httpx.Response, model: type[Model], where: str) -> Model:
    """The body as ``model``; raises `NemoResponseValidationError` naming what does not fit."""
    body = _body(answer)
    asked = f"{answer.request.method} {answer.request.url.path}"
    if not isinstance(body, dict | list):
        kind = answer.headers.get("content-type", "").partition(";")[0] or "no content type"
        message = (
            f"{where} answered {asked} with {kind} instead of JSON; is this base URL the Jobs service, "
            "and does no proxy answer for it?"
        )
        raise errors.NemoResponseValidationError(message, body)
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        message = (
            f"{where} answered {asked} with something that this version cannot read: {place}: {first['msg']}"
        )
        raise errors.NemoResponseValidationError(message, body) from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _tls_message(error: ssl.SSLError, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not trusted ({error.verify_message.rstrip('.')}); "
            "give the authority that signed it with 'nemo config set --certificate-authority FILE'"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{where} does not speak TLS as it should ({reason}); does its address begin with http:// instead?"


def _reason(error: Exception) -> str:
    """The system's own words where there are any: ``Connection refused`` says more than httpx's text."""
    causes = [cause for cause in _causes(error) if isinstance(cause, OSError)]
    return next((cause.strerror for cause in reversed(causes) if cause.strerror), None) or _plain(error)


def _plain(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def _seconds(timeout: float | None) -> str:
    return "the time allowed" if timeout is None else f"{timeout:g} seconds"


def _body(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    try:
        return json.loads(answer.content)
    except ValueError:
        return answer.text


def _detail(body: Any) -> str:
    """The service's own sentence: ``detail``, or ``message`` where ``detail`` is a list of problems."""
    if not isinstance(body, dict):
        return ""
    detail, message = body.get("detail"), body.get("message")
    if isinstance(detail, str):
        return detail.strip().rstrip(".")
    if isinstance(message, str):
        return message.strip().rstrip(".")
    if isinstance(detail, list):
        return "; ".join(_problem(problem) for problem in detail)
    return json.dumps(detail)[:LONGEST_SHOWN] if detail else ""


def _problem(problem: Any) -> str:
    if not isinstance(problem, dict):
        return str(problem)
    place = ".".join(str(part) for part in problem.get("loc", ()) if part != "body")
    text = str(problem.get("msg", "not valid")).removeprefix("Value error, ")
    return f"{place}: {text}" if place else text


def _foreign_detail(answer: httpx.Response) -> str:
    """What to say of an answer that is not the service's own."""
    if answer.is_redirect:
        return f"it points to {answer.headers.get('location', 'nowhere')} instead of answering"
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == "text/plain" and answer.text.strip():
        return " ".join(answer.text.split())[:LONGEST_SHOWN]
    reason = answer.reason_phrase or "no reason"
    return f"{reason} ({kind or 'no body'}, not the Jobs service's own answer)"


def _http_message(status: int, detail: str, where: str) -> str:
    if status == 401:
        remedy = "set NHX_ACCESS_TOKEN or 'nemo config set --access-token -' to a valid token"
        return f"{where} does not accept the access token, or wants one: {detail}; {remedy}"
    if status == 403:
        return f"{where} does not allow this: {detail}"
    if status == 429:
        return f"{where} is asked too much at once: {detail}"
    if status in {400, 404, 409, 422}:
        return f"{detail} [{status}, {where}]"
    return f"{where} answered {status}: {detail}"


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return _until(text)


def _until(text: str) -> float | None:
    """Seconds to a moment in the form of HTTP dates."""
    import email.utils
    from datetime import UTC, datetime

    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
