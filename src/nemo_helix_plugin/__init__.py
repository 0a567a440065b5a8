"""The `nemo` program, the Python SDK and the types that travel between client and service."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
