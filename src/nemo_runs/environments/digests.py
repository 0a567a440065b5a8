"""What names the software of a run: the digest of its environment, and of our sources where it ran with them.

Standard library only: the nodes of a cluster load it.
"""

from __future__ import annotations

_SOURCES = "+sources:"


def with_sources(environment: str, sources: str) -> str:
    """The digest of an environment together with that of the sources that were brought to it."""
    return f"{environment}{_SOURCES}{sources}"


def same_software(one: str, other: str) -> bool:
    """Whether two digests name the same software, as far as both say it.

    Sources are named only where they were brought, so one digest that names none is compared without them.
    """
    environment, _, sources = one.partition(_SOURCES)
    other_environment, _, other_sources = other.partition(_SOURCES)
    if environment != other_environment:
        return False
    return sources == other_sources or not sources or not other_sources
