"""What can go wrong with a call to the service.

::

    NemoClientError                     any of them
    ├── InsecureTransportError          a token would have been sent in the clear
    ├── FileChangedError                a file was written to while it was sent
    ├── NemoTransportError              no answer; `.error` is the httpx exception
    │   ├── NemoTimeoutError            none in time
    │   └── CertificateError            the other side's certificate is not trusted
    ├── NemoResponseValidationError     an answer that is not what was asked for
    └── NemoHTTPError                   an answer that says no; `.status_code`, `.detail`, `.body`
        ├── BadRequestError             400
        ├── AuthenticationError         401
        ├── PermissionDeniedError       403
        ├── NotFoundError               404
        ├── ConflictError               409
        ├── UnprocessableEntityError    422
        ├── RateLimitError              429
        └── InternalServerError         5xx

A message is one sentence that names the base URL and the context. It never holds a token.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nemo_helix_plugin import errors


class NemoClientError(errors.NemoError):
    """The service could not be asked, or did not do what was asked."""

    exit_status: ClassVar[int] = errors.EXIT_REMOTE


class InsecureTransportError(NemoClientError):
    """A credential would have left this machine in the clear; nothing was sent."""

    exit_status: ClassVar[int] = errors.EXIT_LOCAL


class FileChangedError(NemoClientError):
    """A file was written to while it was sent; the service has not kept it."""

    exit_status: ClassVar[int] = errors.EXIT_LOCAL


class NemoTransportError(NemoClientError):
    """No answer came."""

    def __init__(self, message: str, error: Exception | None = None, *, sent: bool = True) -> None:
        super().__init__(message)
        self.error = error
        """What httpx raised."""
        self.sent = sent
        """Whether the service may have seen the request."""


class NemoTimeoutError(NemoTransportError):
    """No answer came in time."""


class CertificateError(NemoTransportError):
    """The certificate of the other side is not trusted, or it does not speak TLS as asked."""


class NemoResponseValidationError(NemoClientError):
    """An answer came, but it is not what the service would say."""

    def __init__(self, message: str, body: Any = None) -> None:
        super().__init__(message)
        self.body = body


class NemoHTTPError(NemoClientError):
    """The service said no."""

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        detail: str = "",
        body: Any = None,
        request: str = "",
        should_retry: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.detail = detail
        """The service's own sentence."""
        self.body = body
        """The whole answer, parsed if it was JSON."""
        self.request = request
        """Method and address, such as ``GET http://localhost:8080/apis/…``."""
        self.should_retry = should_retry
        """What the header ``x-should-retry`` says; None when it is not there."""
        self.retry_after = retry_after
        """Seconds that the header ``retry-after`` asks for."""


class BadRequestError(NemoHTTPError):
    """400: the request cannot be understood."""


class AuthenticationError(NemoHTTPError):
    """401: the service does not know who asks."""


class PermissionDeniedError(NemoHTTPError):
    """403: the service knows who asks, and that this is not allowed."""


class NotFoundError(NemoHTTPError):
    """404: there is no such thing."""


class ConflictError(NemoHTTPError):
    """409: not in the state that this needs."""


class UnprocessableEntityError(NemoHTTPError):
    """422: understood, but not valid."""


class RateLimitError(NemoHTTPError):
    """429: too many requests."""


class InternalServerError(NemoHTTPError):
    """5xx: the service, or something in front of it, failed."""


BY_STATUS: dict[int, type[NemoHTTPError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: UnprocessableEntityError,
    429: RateLimitError,
}


def for_status(status: int) -> type[NemoHTTPError]:
    """The class of an answer that says no."""
    return InternalServerError if status >= 500 else BY_STATUS.get(status, NemoHTTPError)
