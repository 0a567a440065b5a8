import os

import pytest
from click.testing import CliRunner

from nemo_gym.cli.step import health, port
from nemo_gym.errors import UsageError
from nemo_gym.services.health import ServiceDiedError


def test_a_port_is_printed_for_each_service_in_order():
    done = CliRunner().invoke(port, ["policy=0", "a=b=0"], standalone_mode=False, catch_exceptions=False)
    chosen = [int(line) for line in done.stdout.splitlines()]
    assert len(set(chosen)) == 2


@pytest.mark.parametrize("words", [["policy"], ["policy=x"], ["=1"], ["policy=70000"], ["a=0", "a=0"]])
def test_what_names_no_port_is_refused(words):
    with pytest.raises(UsageError):
        CliRunner().invoke(port, words, standalone_mode=False, catch_exceptions=False)


def test_a_service_that_is_gone_ends_the_wait_at_once():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    words = f"--name policy --pid {child} --marker A=b --port 1 --timeout 60 --log here.log".split()
    with pytest.raises(ServiceDiedError, match="'policy' ended before it was healthy; see here"):
        CliRunner().invoke(health, words, standalone_mode=False, catch_exceptions=False)
