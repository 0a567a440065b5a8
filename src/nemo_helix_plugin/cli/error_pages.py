"""Which page of the documentation explains an error of `nemo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nemo_cli.docs_pages import topic_of

TOPICS: Final[Mapping[str, str]] = {
    "NemoTransportError": "connect",
    "InsecureTransportError": "connect",
    "CertificateError": "connect",
    "AuthenticationError": "connect",
    "PermissionDeniedError": "connect",
    "ContextFileError": "contexts",
    "NotInstalledError": "training-engines",
    "SecretReferenceError": "secrets",
    "ProxyError": "environment",
}
"""Classes of errors, and the topic of the page that explains each."""


def explaining(error: Exception, words: Sequence[str]) -> str | None:  # noqa: ARG001 - as `gym` has it
    """The topic that explains an error; ``None`` where a page would not help."""
    return topic_of(error, TOPICS)
