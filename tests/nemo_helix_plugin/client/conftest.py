from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.nemo_helix_plugin.client.scripted import Scripted, scripted


@pytest.fixture
def service() -> Iterator[Scripted]:
    with scripted() as state:
        yield state
