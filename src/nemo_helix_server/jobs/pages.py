"""Pages of lists, as they go over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def page_of(data: Sequence[dict[str, Any]], *, number: int, size: int, total: int) -> dict[str, Any]:
    """The envelope of a page."""
    return {
        "data": list(data),
        "pagination": {
            "page": number,
            "page_size": size,
            "current_page_size": len(data),
            "total_pages": -(-total // size),
            "total_results": total,
        },
    }
