"""Programs and modules that tests need as they are: where CI is set, a test that lacks one fails."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any

import pytest


def needs_program(name: str) -> pytest.MarkDecorator:
    """Skip a test on a machine of a person that lacks a program."""
    missing = shutil.which(name) is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"needs the program {name}")


def needed_module(name: str) -> Any:
    """A module of an extra; without it the test is skipped on a machine of a person."""
    if os.environ.get("CI") == "true":
        return importlib.import_module(name)
    return pytest.importorskip(name)


needs_bwrap = needs_program("bwrap")
