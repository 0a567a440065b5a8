"""Addresses that lead to this machine itself, or to what only this machine may ask."""

from __future__ import annotations

import ipaddress
import socket

_METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"))
)
"""Where clouds give a machine its own keys."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address, without brackets, is this machine: nothing leaves it."""
    name = (host or "").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def internal(host: str) -> str | None:
    """The first address of a host, given in any notation, that `is_internal`.

    `None` where there is no such address, also for a name that is not known.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return next((str(entry[4][0]) for entry in found if is_internal(str(entry[4][0]))), None)


def is_internal(address: str) -> bool:
    """Whether an address is loopback, link-local, a cloud's metadata, or that of no single machine."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour
        if within is None and found in _TRANSLATED:
            within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if within is not None:
            return is_internal(str(within))
    special = is_loopback(str(found)) or found.is_link_local or found.is_unspecified or found.is_multicast
    return special or found in _METADATA
