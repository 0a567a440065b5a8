"""What a role may do, and where: pure decisions, each refusal one sentence."""

from __future__ import annotations

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.errors import ForbiddenError
from nemo_helix_server.jobs.model import Caller

EVERYWHERE = "-"
"""In place of a workspace in a path: all of them."""


_ORDER = tuple(Role)


def check_role(caller: Caller, needed: Role) -> None:
    """Raise `ForbiddenError` unless the caller's role allows what needs ``needed``."""
    if _ORDER.index(Role(caller.role)) < _ORDER.index(needed):
        raise ForbiddenError(
            f"the token '{caller.name}' has the role '{caller.role}', this needs '{needed}'; "
            f"use a token with that role"
        )


def check_workspace(caller: Caller, workspace: str) -> None:
    """Raise `ForbiddenError` unless the caller may see this workspace (``-``: all of them)."""
    if caller.workspace is None or caller.workspace == workspace:
        return
    asked = "all workspaces" if workspace == EVERYWHERE else f"'{workspace}'"
    raise ForbiddenError(
        f"the token '{caller.name}' is for the workspace '{caller.workspace}', not for {asked}; "
        f"use that workspace or another token"
    )


def check_unconfined(caller: Caller) -> None:
    """Raise `ForbiddenError` for a token of a single workspace: what is asked concerns all of them."""
    check_workspace(caller, EVERYWHERE)
