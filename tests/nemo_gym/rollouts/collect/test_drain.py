import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from nemo_gym.rollouts.collect.drain import DRAIN_FILE_VARIABLE, Drain, StoppedEarly, StopReason


def never(_status):
    raise AssertionError("must not leave")


def drained(*numbers, leave=never, environ=None):
    """A drain whose loop runs and that got these signals one after the other."""

    async def run():
        drain = Drain(environ or {})
        drain.attach(asyncio.get_running_loop())
        for number in numbers:
            drain._signalled(number, leave=leave)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return drain

    return asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_sigterm_and_sigusr1_drain_however_often_they_come(number):
    drain = drained(number, number, number)
    assert (drain.reason, drain.asked_by, drain.at_once) == (StopReason.SIGNAL, number.name, False)


def test_the_first_interrupt_drains_the_second_drops_the_third_leaves():
    left = []
    assert not drained(signal.SIGINT).at_once
    assert drained(signal.SIGINT, signal.SIGINT).at_once
    drain = drained(signal.SIGINT, signal.SIGINT, signal.SIGINT, leave=left.append)
    assert left == [130]
    assert drain.reason is StopReason.INTERRUPT


def test_the_first_reason_stays():
    assert drained(signal.SIGTERM, signal.SIGINT).reason is StopReason.SIGNAL


def test_a_signal_outranks_a_failing_endpoint(tmp_path):
    path = tmp_path / "drain"
    drain = Drain({DRAIN_FILE_VARIABLE: str(path)})
    drain.ask(StopReason.ENDPOINT)
    assert drain.poll()
    assert drain.reason is StopReason.ENDPOINT
    path.touch()
    drain.poll()
    assert drain.reason is StopReason.FILE


def test_before_there_is_anything_to_drain_signals_raise():
    drain = Drain({})
    with pytest.raises(KeyboardInterrupt):
        drain._signalled(signal.SIGINT, leave=never)
    with pytest.raises(StoppedEarly, match="SIGTERM"):
        drain._signalled(signal.SIGTERM, leave=never)


def test_after_the_work_only_an_interrupt_still_counts():
    drain = drained()
    drain.detach()
    drain._signalled(signal.SIGTERM, leave=never)
    assert drain.reason is None
    with pytest.raises(KeyboardInterrupt):
        drain._signalled(signal.SIGINT, leave=never)


def test_the_drain_file_is_enough_and_says_who_asked(tmp_path):
    path = tmp_path / "drain"
    drain = Drain({DRAIN_FILE_VARIABLE: str(path)})
    assert not drain.poll()
    path.write_text("walltime\n")
    assert drain.poll()
    assert (drain.reason, drain.asked_by) == (StopReason.FILE, "walltime")


def test_a_pause_ends_early_when_somebody_asks_to_stop():
    async def run():
        drain = Drain({})
        loop = asyncio.get_running_loop()
        drain.attach(loop)
        assert not await drain.pause(0.001)
        loop.call_later(0.01, drain.ask, StopReason.SIGNAL)
        assert await drain.pause(3600)

    asyncio.run(run())


def test_a_real_signal_wakes_a_loop_that_sleeps():
    program = """
        import asyncio, sys
        from nemo_gym.rollouts.collect.drain import Drain
        drain = Drain()
        drain.install()
        async def main():
            drain.attach(asyncio.get_running_loop())
            print("ready", flush=True)
            return await drain.pause(3600)
        print(asyncio.run(main()), drain.asked_by)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGUSR1)
        assert process.communicate(timeout=60)[0] == "True SIGUSR1\n"


def test_nothing_heavy_is_imported_before_the_handlers_are_there():
    program = (
        "import sys; import nemo_gym.rollouts.collect.drain;"
        "print([m for m in ('asyncio', 'aiohttp', 'pydantic', 'omegaconf', 'orjson') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_old_handlers_come_back():
    before = signal.getsignal(signal.SIGUSR1)
    drain = Drain({})
    drain.install()
    assert signal.getsignal(signal.SIGUSR1) != before
    drain.restore()
    assert signal.getsignal(signal.SIGUSR1) == before
