import asyncio
import os
import signal
import sys
import threading

import pytest

from nemo_gym.rollouts.collect import event_loop
from nemo_gym.rollouts.collect.drain import Drain, StopReason

WITH_UVLOOP = (
    sys.implementation.name == "cpython"
    and sys.version_info < (3, 15)
    and os.uname().machine in {"x86_64", "aarch64", "arm64"}
)


@pytest.fixture(params=["uvloop", "asyncio"])
def loops(request, monkeypatch):
    """Each of the two loops, the second as where there is no uvloop."""
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)  # importing it fails
    elif not WITH_UVLOOP:
        pytest.skip("there is no uvloop for this platform")
    return request.param


def test_the_collector_runs_on_uvloop_and_without_it_on_asyncio(loops):
    with event_loop.runner() as runner:
        assert type(runner.get_loop()).__module__.partition(".")[0] == loops


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT])
def test_a_signal_just_before_the_loop_runs_drains_and_is_not_lost(loops, number):
    before = signal.getsignal(number)
    if number == signal.SIGHUP:  # ignored under nohup, and then it asks for nothing
        signal.signal(number, signal.SIG_DFL)
    drain = Drain({})
    drain.install()
    try:
        with event_loop.runner() as runner:
            drain.attach(runner.get_loop())
            signal.raise_signal(number)
            assert runner.run(drain.pause(3600))
            drain.detach()
    finally:
        drain.restore()
        signal.signal(number, before)
    reason = StopReason.INTERRUPT if number == signal.SIGINT else StopReason.SIGNAL
    assert (drain.reason, drain.asked_by) == (reason, number.name)


def test_a_signal_wakes_a_loop_that_waits_and_the_handlers_are_given_back(loops):
    before = signal.getsignal(signal.SIGUSR1)
    drain = Drain({})
    drain.install()
    try:
        with event_loop.runner() as runner:
            drain.attach(runner.get_loop())
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            assert runner.run(drain.pause(3600))
            timer.join()
            drain.detach()
    finally:
        drain.restore()
    assert signal.getsignal(signal.SIGUSR1) is before
    assert signal.set_wakeup_fd(-1) == -1  # nor is a descriptor of the loop left to be written to


def test_programs_that_a_plug_in_starts_are_awaited(loops):
    async def run():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        return out, process.returncode

    with event_loop.runner() as runner:
        assert runner.run(run()) == (b"42\n", 0)
