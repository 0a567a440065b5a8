import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.nemo_trainer.trainings import TIMEOUT, environment

from nemo_trainer.requests.signals import Flags


def python(program, *arguments, **options):
    argv = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE, text=True, **options)


def test_signals_only_set_flags_and_the_handlers_from_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    flags = Flags()
    flags.install()
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (flags.terminated, flags.nudged) == (False, True)
        os.kill(os.getpid(), signal.SIGTERM)
        assert flags.terminated
    finally:
        flags.restore()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == before


def test_outside_the_main_thread_nothing_is_installed():
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=Flags().install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


LOADER = """
import os, select, signal, sys, time
from nemo_trainer.requests.signals import Flags
flags = Flags()
flags.install()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(reader)
    time.sleep(0.01)
    os.write(writer, b"x")
    time.sleep(60)
    os._exit(0)
os.close(writer)
os.read(reader, 1)
print(child, flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    pass
print(flags.terminated, flags.nudged, os.waitpid(child, os.WNOHANG)[0], flush=True)
os.kill(child, signal.SIGKILL)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_a_signal_to_every_process_leaves_forked_loaders_alone(order):
    process = python(LOADER, stdin=subprocess.PIPE)
    child = int(process.stdout.readline())
    for _ in range(2):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            for pid in (process.pid, child)[::order]:
                os.kill(pid, number)
    time.sleep(2.2)  # longer than a loader waits to learn whom the signal was meant for
    out, _ = process.communicate("go\n", timeout=TIMEOUT)
    assert out.split() == ["True", "True", "0"]


@pytest.mark.slow
def test_a_pool_can_end_its_workers():
    program = (
        "import multiprocessing, time\n"
        "from nemo_trainer.requests.signals import Flags\n"
        "flags = Flags(); flags.install()\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(abs, [-1, 2]), flush=True)\n"
        "print(flags.terminated)\n"
    )
    process = python(program)
    out, _ = process.communicate(timeout=TIMEOUT)
    assert out.split("\n")[:2] == ["[1, 2]", "False"]


BUSY = """
import sys
from pathlib import Path
from nemo_trainer.contract import JobContext
from nemo_trainer.session import Session
folder = Path(sys.argv[1])
with Session.open(JobContext(trainer_path=folder, storage=folder)) as session:
    print("ready", flush=True)
    session.restore()
    step = 0
    while True:
        step += 1
        sorted(str(number) for number in range(200))
        session.metrics(step, {"loss": 1 / step})
        pausing = session.wanted() == "pause"
        if pausing or step % 50 == 0:
            write = lambda to: (to / "state").write_text(str(step))
            session.publish(write, step, "pause" if pausing else "periodic")
            session.prune()
        if pausing:
            session.paused()
"""


@pytest.mark.slow
def test_signals_at_random_moments_end_in_one_save_and_75(tmp_path):
    moments = random.Random(7)
    for number in range(12):
        process = python(BUSY, str(tmp_path / str(number)))
        assert process.stdout.readline() == "ready\n"
        time.sleep(moments.random() * 0.2)
        for which in moments.sample([signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1], 4):
            process.send_signal(which)
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 75
        newest = max(int(path.name) for path in (tmp_path / str(number) / "checkpoints").iterdir())
        state = (tmp_path / str(number) / "checkpoints" / str(newest) / "state").read_text()
        assert state == str(newest)
