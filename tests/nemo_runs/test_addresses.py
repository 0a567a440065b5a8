"""Which addresses never leave this machine."""

import pytest

from nemo_runs.addresses import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "127.0.0.1", "127.8.7.6", "::1", "::1%lo", "::ffff:127.0.0.1"]
)
def test_what_is_this_machine_alone(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "localhost.example",
        "127.0.0.1.example",
        "[::1]",
    ],
)
def test_what_others_reach_or_is_no_address(host):
    assert not is_loopback(host)
