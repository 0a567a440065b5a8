"""One process with the libraries loaded serves all trainings of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.nemo_engines.forge import Forge


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()
