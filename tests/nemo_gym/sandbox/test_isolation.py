"""What hostile code can reach and how much it can take, in real sandboxes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.real_programs import needs_bwrap

from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.bubblewrap import Bubblewrap
from nemo_gym.sandbox.interpreter import SandboxPython, describe, own_python
from nemo_gym.sandbox.launching import SandboxCommand, SandboxKind
from nemo_gym.sandbox.protocol import Completed, Limits
from nemo_gym.sandbox.session import FolderSession, session
from nemo_runs.processes import process_table

MIB = 1024**2
LIMITS = Limits(seconds=60, memory_bytes=200 * MIB, processes=20, output_bytes=MIB, disk_bytes=20 * MIB)
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

pytestmark = [
    pytest.mark.slow,
    needs_bwrap,
]


class AsNobody(Bubblewrap):
    """The sandbox of an ordinary user, started by root."""

    def __init__(self, interpreter: SandboxPython) -> None:
        super().__init__(interpreter, as_root=False)

    def owner(self) -> int | None:
        return NOBODY

    def launch(self, argv: list[str], folder: Path, limits: Limits, owner: int | None) -> SandboxCommand:  # type: ignore[override]
        for above in (folder, folder.parent):
            above.chmod(0o711)
        launch = super().launch(argv, folder, limits, None)
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
        return replace(launch, argv=[*user, *launch.argv])


def as_root() -> SandboxKind:
    return Bubblewrap(describe(own_python()))


def as_user() -> SandboxKind:
    python = describe(SYSTEM_PYTHON if os.geteuid() == 0 else own_python())
    return AsNobody(python) if os.geteuid() == 0 else Bubblewrap(python)


KINDS = [
    pytest.param(as_root, id="root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="is for root")),
    pytest.param(
        as_user,
        id="user",
        marks=pytest.mark.skipif(
            os.geteuid() == 0 and not Path(SYSTEM_PYTHON).exists(), reason="needs a Python for everybody"
        ),
    ),
]
in_each = pytest.mark.parametrize("kind", KINDS)


def within(kind: Callable[[], SandboxKind], use: Callable[[FolderSession], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with session(kind(), LIMITS) as one:
            await use(one)

    asyncio.run(opened())


async def python(one: FolderSession, code: str, **limits: float) -> Completed:
    return await one.run(["python3", "-c", code], limits=replace(LIMITS, **limits))  # type: ignore[arg-type]


REACH = """
import os, socket, subprocess
def tried(name, action):
    try: print(name, action())
    except BaseException as error: print(name, type(error).__name__)
tried("user", lambda: os.getuid() != 0 and os.geteuid() != 0)
caps = [line.split() for line in open("/proc/self/status") if line.startswith("Cap")]
tried("capabilities", lambda: sum(int(found, 16) for _, found in caps))
tried("home", lambda: os.listdir("HOME"))
tried("keys", lambda: os.listdir("HOME/.ssh"))
tried("accounts", lambda: open("/etc/shadow").read())
tried("first", lambda: print(end=str("SECRET" in open("/proc/1/environ").read()) + " "))
tried("environment", lambda: "SECRET" in str(os.environ))
tried("processes", lambda: len([name for name in os.listdir("/proc") if name.isdigit()]) < 6)
tried("loopback", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=5))
tried("outside", lambda: os.kill(PID, 0))
tried("system", lambda: open("/usr/x", "w"))
tried("root", lambda: open("/x", "w"))
tried("devices", lambda: open("/dev/x", "w"))
tried("kernel", lambda: open("/proc/sys/kernel/core_pattern", "w").write("|/x"))
tried("own folder", lambda: open("x", "w").write("ab"))
tried("temporary", lambda: open("/tmp/x", "w").write("ab"))
tried("shared memory", lambda: open("/dev/shm/x", "w").write("ab"))
tried("namespace", lambda: subprocess.run(["unshare", "-U", "true"], stderr=-3).returncode)
"""
OUT_OF_REACH = """\
user True
capabilities 0
home FileNotFoundError
keys FileNotFoundError
accounts FileNotFoundError
{first}
environment False
processes True
loopback ConnectionRefusedError
outside ProcessLookupError
system OSError
root OSError
devices OSError
kernel PermissionError
own folder 2
temporary 2
shared memory 2
namespace 1
"""


@in_each
def test_code_reaches_nothing_of_the_user_and_nothing_of_the_machine(
    kind: Callable[[], SandboxKind], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET", "1")
    (tmp_path / ".ssh").mkdir()

    async def use(one: FolderSession) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = REACH.replace("HOME", str(tmp_path))
            code = code.replace("PORT", str(server.getsockname()[1])).replace("PID", str(os.getpid()))
            done = await python(one, code)
        first = "first PermissionError" if kind is as_root else "False first None"
        assert (done.stdout.decode(), done.stderr) == (OUT_OF_REACH.format(first=first), b"")

    within(kind, use)


TOO_MUCH = {
    "time": ("seconds", "import time; time.sleep(600)"),
    "memory": ("memory", "x = []\nwhile True: x.append(bytearray(b'x') * 2**24)"),
    "forks": ("processes", "import os\nwhile True:\n try: os.fork()\n except OSError: pass"),
    "output": ("output", "import sys\nfor _ in range(1024): sys.stdout.buffer.write(bytes(2**20))"),
    "errors": ("output", "import sys\nfor _ in range(1024): sys.stderr.buffer.write(bytes(2**20))"),
    "files": ("disk", "n = 0\nwhile True:\n n += 1; open(f'{n}', 'wb').write(bytes(2**20))"),
    "empty files": ("disk", "n = 0\nwhile True:\n n += 1; open(f'/tmp/{n}', 'wb').close()"),
    "depth": ("disk", "import os\nwhile True: os.mkdir('d'); os.chdir('d')"),
    "nameless": (
        "disk",
        "import os\nk = []\nwhile True: k.append(open('x', 'wb')); os.unlink('x'); k[-1].write(bytes(2**19))",
    ),
    "in memory": ("disk", "import os\nwhile True: os.write(os.memfd_create('x'), bytes(2**19))"),
    "mapped": ("disk", """
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
while True:
    fd = os.open("x", os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(2**19))
    libc.mmap(None, 2**19, 3, 1, fd, 0)
    os.close(fd)
    os.unlink("x")
"""),
    "memory without a first thread": ("memory", """
import ctypes, threading, time
def grow():
    time.sleep(0.1)
    x = []
    while True: x.append(bytearray(b"x") * 2**24)
threading.Thread(target=grow).start()
ctypes.CDLL(None).pthread_exit(None)
"""),
    "files without a first thread": ("disk", """
import ctypes, os, threading, time
def grow():
    time.sleep(0.1)
    k = []
    while True: k.append(open("x", "wb", 0)); os.unlink("x"); k[-1].write(bytes(2**19))
threading.Thread(target=grow).start()
ctypes.CDLL(None).pthread_exit(None)
"""),
}  # fmt: skip


@in_each
@pytest.mark.parametrize("name", TOO_MUCH)
def test_code_that_takes_too_much_is_ended_by_the_name_of_the_limit(
    kind: Callable[[], SandboxKind], name: str
) -> None:
    limit, code = TOO_MUCH[name]

    async def use(one: FolderSession) -> None:
        done = await python(one, code, seconds=0.3 if name == "time" else 60, disk_bytes=MIB)
        assert (done.limit, done.truncated) == (limit, limit == "output"), done.stderr[-300:]
        assert len(done.stdout) <= MIB
        assert len(done.stderr) <= MIB

    within(kind, use)


SHARED = """
import os, time
with open("x", "wb", 0) as file:
    os.unlink("x")
    file.write(bytes(2**19))
    for _ in range(8):
        if not os.fork():
            time.sleep(0.4)
            os._exit(0)
    for _ in range(8): os.wait()
"""


@in_each
def test_a_file_without_a_name_that_many_processes_have_counts_once(kind: Callable[[], SandboxKind]) -> None:
    async def use(one: FolderSession) -> None:
        done = await python(one, SHARED, disk_bytes=MIB)
        assert (done.returncode, done.limit, done.stderr) == (0, None, b"")

    within(kind, use)


DAEMON = """
import os, sys, time
if os.fork(): sys.exit(5)
os.setsid()
if os.fork(): os._exit(0)
for fd in range(3): os.close(fd)
time.sleep(NUMBER)
"""


def sleepers(number: int) -> list[int]:
    found = []
    for pid in process_table.read_all():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if f"time.sleep({number})".encode() in command:
            found.append(pid)
    return found


@in_each
def test_nothing_that_a_program_has_left_behind_goes_on(kind: Callable[[], SandboxKind]) -> None:
    number = 86_400 + os.getpid()

    async def use(one: FolderSession) -> None:
        done = await python(one, DAEMON.replace("NUMBER", str(number)))
        assert (done.returncode, done.limit) == (5, None)
        assert sleepers(number) == []

    within(kind, use)


def test_without_isolation_what_a_program_leaves_behind_is_ended_all_the_same() -> None:
    number = 186_400 + os.getpid()

    async def use(one: FolderSession) -> None:
        done = await python(one, DAEMON.replace("NUMBER", str(number)))
        assert (done.returncode, done.limit) == (5, None)
        assert sleepers(number) == []

    within(lambda: Bare(describe(own_python())), use)
