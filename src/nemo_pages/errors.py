"""Errors of pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WayBack:
    """Where a person goes on from the page of an error."""

    path: str
    """Address without the root path."""
    title: str
    """What the link says: ``Back to job tune``."""


class PagesError(Exception):
    """A page cannot be made."""


class NoSuchPageError(PagesError):
    """Nothing has this address; the message says what is missing and where to look instead."""

    def __init__(self, message: str = "", back: WayBack | None = None) -> None:
        super().__init__(message)
        self.back = back


class ViewError(PagesError):
    """The address asks for a view that does not exist; the message names the part and what is allowed."""
