"""The errors of this package: sentences for the program `nemo`, which knows their base."""

from __future__ import annotations

from nemo_helix_plugin.errors import NemoError


class ModelsError(NemoError):
    """The model cannot be had, served, exported or pushed; the message says what would help."""
