"""Who may use a served model: everybody on this machine, or everybody who has the key."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from nemo_gym import errors
from nemo_runs.addresses import is_loopback

KEY_VARIABLE = "NEMO_GYM_SERVICE_API_KEY"
"""The one place a key is taken from: a command line can be read by every user of the machine."""


def service_key(host: str, environ: Mapping[str, str]) -> str | None:
    """The API key that clients must send, ``None`` for no check.

    Raises `ConfigError` for a host that others can reach while no key is set.
    """
    key = environ.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(host):
        message = (
            f"--host {host} can be reached from other machines, and no API key is set; "
            f"set {KEY_VARIABLE}, or serve on 127.0.0.1"
        )
        raise errors.ConfigError(message)
    return key


def check_port_free(host: str, port: int) -> None:
    """Raise `ConfigError` when nothing can listen on ``host:port``, saying why."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
        raise errors.ConfigError(message) from error
