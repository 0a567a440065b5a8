"""Which proxy the environment names for an address, read as curl and wget read it; pure.

``<scheme>_proxy`` goes before ``all_proxy``, small letters before capitals, and an empty value is none.
``no_proxy`` holds names, domains, addresses and networks, with or without a port, or ``*``. What stays on
this machine never goes through a proxy.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from nemo_runs.addresses import is_loopback
from nemo_runs.errors import RunsError

_USABLE = ("http", "https")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = frozenset({"localhost", "localhost6", "ip6-localhost", "ip6-loopback"})


class ProxyError(RunsError):
    """A variable names something that cannot be a proxy here; the message never holds its value."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy of the environment."""

    url: str
    """With its scheme; it may hold a password."""
    variable: str
    """Which variable names it."""


def chosen(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for an address. Raises `ProxyError` for one that cannot be used."""
    target = urlsplit(url)
    host = (target.hostname or "").rstrip(".")
    if is_this_machine(host) or _left_out(host, _port(target), environ):
        return None
    for variable in (f"{target.scheme}_proxy", "all_proxy"):
        if (found := _value(variable, environ)) is not None:
            name, text = found
            return Proxy(_usable(name, text), name) if text else None
    return None


def is_this_machine(host: str) -> bool:
    """Whether a host's name or address, without brackets, is this machine itself."""
    name = host.rstrip(".").lower()
    if not name or name in _THIS_MACHINE or name.endswith(".localhost"):
        return True
    if re.fullmatch(r"127(\.[0-9]{1,3}){0,3}", name):
        return True
    address = _address(name)
    if address is None:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return is_loopback(name) or mapped.is_unspecified


def _value(variable: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and value of a variable in small letters, else in capitals; ``None`` when neither is set."""
    for name in (variable, variable.upper()):
        # where a web server runs this program, HTTP_PROXY is a header that a stranger sent
        if name in environ and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):
            return name, environ[name].strip()
    return None


def _usable(variable: str, text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and not re.search(r"[\s\x00-\x1f\x7f]", url)
    except ValueError:
        whole = False
    if not whole:
        raise ProxyError(f"{variable}: this variable holds no address such as http://HOST:PORT")
    if parts.scheme.lower() not in _USABLE:
        raise ProxyError(
            f"{variable}: a proxy of the kind {parts.scheme}:// cannot be used here; set the variable to "
            "http://HOST:PORT, or name the server in no_proxy"
        )
    return url


def _left_out(host: str, port: int | None, environ: Mapping[str, str]) -> bool:
    found = _value("no_proxy", environ)
    return found is not None and any(_covers(entry, host, port) for entry in _entries(found[1]))


def _entries(text: str) -> Iterator[str]:
    return (entry for entry in re.split(r"[,\s]+", text.lower()) if entry)


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    name, wanted = _apart(entry)
    if wanted is not None and wanted != port:
        return False
    address, own = _address(name), _address(host)
    if own is not None:
        if address is not None:
            return address == own
        try:
            return own in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False
    name = name.removeprefix("*").strip(".")
    return bool(name) and (host.lower() == name or host.lower().endswith(f".{name}"))


def _apart(entry: str) -> tuple[str, int | None]:
    """Name and port of an entry; of an IPv6 address, a port only behind brackets."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::([0-9]{1,5}))?", entry)
    if bracketed:
        return bracketed[1], int(bracketed[2]) if bracketed[2] else None
    plain = re.fullmatch(r"([^:]*):([0-9]{1,5})", entry)
    return (plain[1], int(plain[2])) if plain else (entry, None)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _port(target: SplitResult) -> int | None:
    try:
        return target.port or _DEFAULT_PORTS.get(target.scheme)
    except ValueError:
        return None
