"""Runs trainings in forked children of a process that has loaded the libraries once; see ``forge.py``.

A request is one JSON line: ``number``, ``argv``, ``environ``, ``log`` and what is to go wrong. The answer
is its
number and its exit status. A child has trained nothing before, so it is as fresh as a new process, and 5 s
faster.
"""

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from nemo_engines import run, saving
from nemo_engines.evaluation import asking, evaluations
from nemo_engines.registry import ENGINES, load_driver
from nemo_trainer.contract import Control, write_control
from nemo_trainer.session import Session

with contextlib.redirect_stdout(sys.stderr):
    # with its libraries, for the children; some must be the first import
    load_driver(ENGINES[sys.argv[1]])
import torch
from transformers import PreTrainedTokenizerBase


def misfortune(request):
    """Pause or die after so many looks at the control file, that is steps; or in the middle of a save."""
    looks, wanted = 0, Session.wanted

    def counted(session):
        nonlocal looks
        looks += 1
        if looks == request.get("pause_after"):
            write_control(
                session.context.control_file, Control(int(time.time()), "pause", "test", time.time())
            )
        if looks == request.get("ask_after"):
            write_control(session.context.control_file, Control(1, "checkpoint", "test", time.time()))
        if looks == request.get("kill_after"):
            os.kill(os.getpid(), 9)
        return wanted(session)

    Session.wanted = counted
    saves, save = 0, torch.save

    def dying(value, file, *args, **options):
        nonlocal saves
        saves += isinstance(file, str | os.PathLike)
        save(value, file, *args, **options)
        if saves == request.get("kill_in_save") and isinstance(file, str | os.PathLike):
            os.truncate(file, os.path.getsize(file) // 2)
            os.kill(os.getpid(), 9)

    torch.save = dying

    def forked(folder):
        return Forked(folder, request)

    evaluations.begin_process = forked
    if "unsavable_tokenizer" in request:
        PreTrainedTokenizerBase.save_pretrained = unsavable
    if "free_bytes" in request:
        saving.disk = SimpleNamespace(free_bytes=lambda _: request["free_bytes"])
    if "file_limit" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], request["file_limit"]))


class Forked:
    """An evaluating process that need not load the libraries again; it may die after so many batches."""

    def __init__(self, folder, request):
        self.returncode = None
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._writing)
            os.dup2(reading, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            batches, sync = 0, asking.RowAppender.sync

            def counted(appender):
                nonlocal batches
                sync(appender)
                batches += 1
                if batches == request.get("training_dies_after_batches"):
                    os.kill(os.getppid(), 9)
                    time.sleep(60)  # until it has seen that nobody waits for it
                if batches == request.get("pause_after_batches"):
                    control = Path(os.environ["NEMO_JOB_CONTROL_FILE"])
                    write_control(control, Control(int(time.time()), "pause", "test", time.time()))
                    time.sleep(60)
                if batches == request.get("evaluation_dies_after_batches"):
                    os.kill(os.getpid(), 9)

            asking.RowAppender.sync = counted
            asking.main([str(folder / "order.json")])
        os.close(reading)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, _seconds):
        while self.poll() is None:
            time.sleep(0.01)


def unsavable(*_args, **_options):
    raise TypeError("Object of type dtype is not JSON serializable")


def child(request):
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["environ"])
    misfortune(request)
    run.main(request["argv"])


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main():
    answer({"ready": True})
    children = {}
    while True:
        readable, _, _ = select.select([0], [], [], 0.02 if children else 60)
        line = sys.stdin.buffer.raw.readline() if readable else b""
        if readable and not line:
            return
        if line:
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                try:
                    child(request)
                finally:
                    os._exit(99)
            children[pid] = request["number"]
        pid, status = os.waitpid(-1, os.WNOHANG) if children else (0, 0)
        if pid:
            answer({"number": children.pop(pid), "status": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
