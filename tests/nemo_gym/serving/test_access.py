"""Who may use a served model."""

import socket

import pytest

from nemo_gym import errors
from nemo_gym.serving import access


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_a_host_only_this_machine_reaches_needs_no_key(host):
    assert access.service_key(host, {}) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "node7", "127.0.0.1.example"])
def test_a_host_that_others_reach_is_refused_without_a_key(host):
    with pytest.raises(errors.ConfigError, match="set NEMO_GYM_SERVICE_API_KEY, or serve on"):
        access.service_key(host, {"NEMO_GYM_SERVICE_API_KEY": ""})


def test_the_key_comes_from_the_environment():
    assert access.service_key("0.0.0.0", {"NEMO_GYM_SERVICE_API_KEY": "s3cret"}) == "s3cret"


def test_a_taken_port_is_refused_with_its_reason():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            errors.ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already"
        ):
            access.check_port_free("127.0.0.1", port)


def test_a_free_port_passes():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    access.check_port_free("127.0.0.1", port)
