"""How verifiers show a value of a row in a message."""

from __future__ import annotations


def shortened(value: object) -> str:
    """A value as Python writes it, the middle left out where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:28]} … {text[-28:]}"
