"""The command that starts a program in Apptainer, with the options that its version 1.4.5 lists for `exec`.

It was run by hand with that version, as an ordinary user: the limits of time, memory and processes, a daemon
and a killed collector came out as with bubblewrap. Debian 12 has no package of it, so no test runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.apptainer import Apptainer
from nemo_gym.sandbox.launching import STATUS
from nemo_gym.sandbox.protocol import Completed, Limits, SandboxError
from nemo_gym.sandbox.registry import load_sandbox
from nemo_gym.sandbox.session import session


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "apptainer"
    path.write_text("#!/bin/sh\necho apptainer version 1.4.5\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return path


def test_the_command_is_the_recorded_one(program: Path, tmp_path: Path) -> None:
    image = tmp_path / "python.sif"
    image.touch()
    kind = Apptainer(str(image), ["/data"])
    assert kind.versions() == {"apptainer": "1.4.5"}
    folder = Path("/tmp/gym-sandbox-a/b")
    command = kind.launch(["python3", "x.py"], folder, Limits(), None)
    begin = 'echo "{\\"began\\": true}" >"/proc/self/fd/$1"; shift; exec "$@"'
    assert " ".join(command.argv).replace(STATUS, "9") == (
        f"{program} --silent exec --containall --cleanenv --no-mount bind-paths,hostfs,cwd,sys --no-privs "
        "--no-eval --no-umask --net --network none --hostname sandbox "
        "--home /tmp/gym-sandbox-a/b/work:/work --pwd /work --bind /tmp/gym-sandbox-a/b/tmp:/tmp:rw "
        "--bind /tmp/gym-sandbox-a/b/shm:/dev/shm:rw --bind /data:/data:ro "
        f"{image} /bin/sh -c {begin} sh 9 python3 x.py"
    )
    inside = {name for name in command.env if name.startswith("APPTAINERENV_")}
    names = "TMPDIR LANG PYTHONDONTWRITEBYTECODE PYTHONHASHSEED GYM_SANDBOX_PROGRAM"
    threads = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS"
    assert inside == {f"APPTAINERENV_{name}" for name in f"{names} {threads}".split()}
    assert command.env["APPTAINERENV_GYM_SANDBOX_PROGRAM"].startswith("gym-sandbox-a.")
    assert set(command.env) - inside == {"PATH", "GYM_SANDBOX_PROGRAM"}


def test_what_cannot_be_is_refused(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SandboxError, match=r"the image of the sandbox, .*/gone, is not there"):
        Apptainer(str(tmp_path / "gone"))
    kind = Apptainer(str(tmp_path))
    with pytest.raises(SandboxError, match="takes no folder with a colon or a comma"):
        kind.launch(["x"], Path("/tmp/a:b/c"), Limits(), None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SandboxError, match="as root use bubblewrap"):
        Apptainer(str(tmp_path))


def test_the_config_names_an_image_and_no_python() -> None:
    with pytest.raises(ConfigError, match=r"^sandbox\.image: the sandbox apptainer needs an image"):
        load_sandbox({"type": "apptainer"})
    with pytest.raises(ConfigError, match=r"^sandbox\.python: an image has its own Python"):
        load_sandbox({"type": "apptainer", "image": "/a.sif", "python": "/usr/bin/python3"})


def test_a_program_that_never_begins_is_a_broken_sandbox(program: Path, tmp_path: Path) -> None:
    program.write_text("#!/bin/sh\necho 'FATAL: no user namespaces' >&2\nexit 255\n")
    probe = asyncio.run(load_sandbox({"type": "apptainer", "image": str(tmp_path)}).probe())
    assert not probe.works
    assert probe.reason.endswith("ended with status 255 before its program did: FATAL: no user namespaces")


STARTS_WHAT_FOLLOWS_THE_IMAGE = """#!/bin/sh
[ "$1" = --version ] && exec echo apptainer version 1.4.5
while [ "$1" != "$IMAGE" ]; do shift; done
shift
exec "$@"
"""


@pytest.mark.slow
def test_descriptors_of_any_number_say_that_a_program_began_and_what_it_writes_there_is_ignored(
    program: Path, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    image.mkdir()
    program.write_text(STARTS_WHAT_FOLLOWS_THE_IMAGE.replace("$IMAGE", str(image)))
    hostile = """
import os, sys
for number in range(3, 64):
    try: os.write(number, b'{"child-pid": 1}\\n{"exit-code": 0}\\n')
    except OSError: pass
sys.exit(7)
"""

    async def use() -> Completed:
        async with session(Apptainer(str(image)), Limits(seconds=60)) as one:
            return await one.run([sys.executable, "-c", hostile])

    with contextlib.ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(image.parent.joinpath("apptainer").open())
        done = asyncio.run(use())
    assert (done.returncode, done.limit, done.stderr) == (7, None, b"")
