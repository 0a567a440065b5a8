"""Errors of pages."""

from __future__ import annotations


class PagesError(Exception):
    """A page cannot be made."""


class NoSuchPageError(PagesError):
    """Nothing has this address; the message says what is missing and where to look instead."""


class ViewError(PagesError):
    """The address asks for a view that does not exist; the message names the part and what is allowed."""
