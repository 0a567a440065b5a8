"""Which rows of the list a person may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RunVisibility:
    """Of whom a list is: each row belongs to a workspace, or to the whole service."""

    workspace: str | None = None
    """The only workspace whose rows are seen; `None`: those of all of them."""
    unassigned: bool = True
    """Whether rows that belong to no workspace are seen, too."""

    def includes(self, workspace: str) -> bool:
        """Whether rows of a workspace are seen; of none: an empty text."""
        if not workspace:
            return self.unassigned
        return self.workspace is None or self.workspace == workspace

    def condition(self) -> tuple[str, list[str]]:
        """What must hold of a row of the table, as SQL with its values."""
        if self.workspace is None:
            return ALL_ROWS if self.unassigned else "workspace <> ''", []
        or_none = " OR workspace = ''" if self.unassigned else ""
        return f"(workspace = ?{or_none})", [self.workspace]


ALL_ROWS: Final = "1"
"""The condition that every row meets."""
EVERYTHING: Final = RunVisibility()
"""Of who may see every row."""
