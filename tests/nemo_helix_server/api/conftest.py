"""A real service without its controller."""

import pytest
from tests.nemo_helix_server.api.service_bench import Bench


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def guarded(tmp_path):
    """The same where every request needs a token."""
    made = Bench(tmp_path / "data", tokens_required=True)
    yield made
    made.close()
