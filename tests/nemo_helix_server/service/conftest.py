from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.nemo_helix_server.worlds import World, sqlite_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A service on a fresh database."""
    made = sqlite_world(tmp_path)
    yield made
    made.store.close()
