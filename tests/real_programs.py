"""Programs that tests need as they are: where CI is set, a test whose program is missing fails."""

from __future__ import annotations

import os
import shutil

import pytest


def needs_program(name: str) -> pytest.MarkDecorator:
    """Skip a test on a machine of a person that lacks a program."""
    missing = shutil.which(name) is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"needs the program {name}")


needs_bwrap = needs_program("bwrap")
