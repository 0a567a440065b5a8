"""Keeps a publisher from being led, by a redirect or a changed name, to what only this machine may ask."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from nemo_runs import addresses

HOSTS = "NEMO_TRACKER_HOSTS"
"""Variable with the hosts that may be asked though they lead there; without it all hosts may."""


def keep_out() -> None:
    """From now on, let no host that is not among `HOSTS`, nor a proxy, resolve to such an address."""
    given = os.environ.get(HOSTS)
    if given is None:
        return
    proxies = (
        urlsplit(value).hostname for name, value in os.environ.items() if name.lower().endswith("_proxy")
    )
    allowed = {*given.split(), *filter(None, proxies)}
    resolve = socket.getaddrinfo

    def checked(host: Any, *args: Any, **values: Any) -> Any:
        found = resolve(host, *args, **values)
        if host not in allowed and any(addresses.is_internal(str(entry[4][0])) for entry in found):
            raise OSError(f"{host} leads to an address that only this machine may ask")
        return found

    socket.getaddrinfo = checked
