"""What the holder of a token may do."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What the holder of a token may do; each may also do what the ones before it may."""

    READ = "read"
    """Look at everything but secret values."""
    OPERATE = "operate"
    """Submit through customization, pause, resume, rerun, cancel, delete; set secrets."""
    ADMIN = "admin"
    """Run any command as the service's user; manage tokens and workspaces."""
