"""The program of a batch job: it runs one start of a step, as the shim does on the service's machine.

``python -P -m nemo_helix_server.executors.slurm.on_cluster.allocation RUN_FOLDER``; all that it needs lies in
that folder. It ends with the command's exit status, so that the scheduler's record says the same. A second
job of the same start, and one that was given up, starts nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.executors import shim
from nemo_helix_server.executors.slurm.on_cluster import companion, folders, software, succession
from nemo_helix_server.storage import run_files
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes.supervise import patiently
from nemo_trainer.contract import names
from nemo_trainer.contract.allocation import FILE, read_allocation

NOT_STARTED = 127
"""Exit status of a job that found its start made or given up."""
_OURS = frozenset({"PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"})
"""Variables of this program, which its command is not given."""
_COMPANION = "nemo_helix_server.executors.slurm.on_cluster.companion"
_CODE = Path(__file__).parents[3]
"""The folder of our sources, named by their digest."""
_LAST_NODES_SECONDS = 120
"""How long other nodes may go on when the command of one has ended; then they are ended."""
_LAST_LOOK = 10.0
"""Seconds that the scheduler may take to say why a command has left."""
_FULL_DISK_SECONDS = 20.0
"""How long an allocation waits for space on a full disk: it is paid for."""
_FIRST_PORT, _PORTS = 20_000, 20_000


def main(argv: list[str] | None = None) -> int:
    """Run the start whose folder is named."""
    (name,) = sys.argv[1:] if argv is None else argv
    run = Path(name)
    order = json.loads((run / folders.ORDER).read_bytes())
    why_not = succession.judge(run, order, companion.newest_step(order))
    if why_not is not None:
        sys.stderr.write(f"this allocation runs nothing: {why_not}\n")
        with contextlib.suppress(DiskFullError):
            run_files.make_claim(run, run_files.RunClaim(None, time.time()))
        (run / folders.SECRETS).unlink(missing_ok=True)
        return 0
    secrets = _secrets(run)
    environment = {
        **_environ(),
        **order["environment"],
        **rendezvous(order["nodes"], order["gpus"], {**os.environ, **order["environment"]}),
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1))
    try:
        fence = _run(order, run, environment, secrets)
    except succession.LateStartError as error:
        return _ends_unused(run, str(error))
    except DiskFullError as error:
        return _ends_full(run, error)
    if fence is None:
        sys.stderr.write(f"{order['token']} was started or given up before; this job starts nothing\n")
        return NOT_STARTED
    (run / folders.SECRETS).unlink(missing_ok=True)
    end = run_files.read_end(run)
    if end is None or succession.is_final(end, run, order["nodes"]):
        succession.give_up_successor(run, order, fence)
    return end.exit_status if end is not None else 1


def _ends_unused(run: Path, why: str) -> int:
    """End without having run anything: it is as if this start had never been."""
    sys.stderr.write(f"this allocation runs nothing: {why}\n")
    now = time.time()
    end = run_files.ExitRecord(NOT_STARTED, 0, now, now, False, False, False, why, never_started=True)
    with contextlib.suppress(DiskFullError):
        patiently(lambda: run_files.write_end(run, end), seconds=_FULL_DISK_SECONDS)
    (run / folders.SECRETS).unlink(missing_ok=True)
    return 0


def _ends_full(run: Path, error: DiskFullError) -> int:
    """Give the allocation back: what it needs is space, and its exit status says so where no file can."""
    sys.stderr.write(f"this allocation ends: {error}\n")
    (run / folders.SECRETS).unlink(missing_ok=True)
    with contextlib.suppress(RunsError, OSError):
        if run_files.read_end(run) is None:
            now = time.time()
            why = "no space is left on the storage of its cluster"
            end = run_files.ExitRecord(
                succession.DISK_FULL, 0, now, now, False, False, False, why, disk_full=True
            )
            run_files.write_end(run, end)
    return succession.DISK_FULL


def _run(
    order: Mapping[str, Any], run: Path, environment: dict[str, str], secrets: dict[str, str]
) -> succession.Fence | None:
    """Run the command to its end; `None`: this start was made or given up before.

    The step is claimed between the claim of the start and its command: a second job of the same start, as an
    administrator makes it by a requeue, must not fence off the first one.
    """
    found: list[succession.Fence] = []

    def claimed(mine: bool) -> None:
        if not mine:
            return
        patiently(
            lambda: _note(run, 0, {}), seconds=_FULL_DISK_SECONDS
        )  # first: by this it is known which job has the start
        by = f"Slurm job {os.environ.get('SLURM_JOB_ID', '')} on {os.uname().nodename}"
        fence = patiently(lambda: succession.claim_generation(run, order, by), seconds=_FULL_DISK_SECONDS)
        found.append(fence)
        if fence.number:
            environment[names.GENERATION] = str(fence.number)
        found_there = software.software(order, environment, _CODE.name, _known_images(run))
        _note(run, fence.number, found_there)
        _start_companion(run, fence)

    shim.run(
        shim.ShimOrder(
            token=order["token"],
            folder=run,
            argv=command(order),
            environment=environment,
            secrets=secrets,
            working_directory=order["working_directory"],
            memory_bytes=None,  # the scheduler keeps it
            time_limit_seconds=order["time_limit_seconds"],
            grace_seconds=order["grace_seconds"],
            log_bytes=order["log_bytes"],
            fifo=None,
            leases=None,
            file_access=None,
            full_disk_seconds=_FULL_DISK_SECONDS,
        ),
        claimed,
        lambda end: _note_notice(run, end),
    )
    return found[0] if found else None


def _note_notice(run: Path, end: run_files.ExitRecord) -> None:
    """Find out whether a command that left by itself did so since it was preempted.

    Processes of a job step get the signal of it, and may be gone before the companion's next look.
    """
    job, known = os.environ.get("SLURM_JOB_ID"), read_allocation(run / FILE)
    if job and end.exit_status == names.EXIT_PAUSED and not (known and known.kind):
        companion.note(run, companion.look(job, timeout=_LAST_LOOK), known)


def _start_companion(run: Path, fence: succession.Fence) -> None:
    """What runs beside the command; it ends with this process, and nothing waits for it."""
    if os.environ.get("SLURM_JOB_ID"):
        with contextlib.suppress(OSError):
            subprocess.Popen(
                [sys.executable, "-P", "-m", _COMPANION, str(run), str(fence.number), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )


def command(order: Mapping[str, Any]) -> list[str]:
    """The words that are run on the first node: the command itself, or ``srun`` that starts it everywhere."""
    words = list(order["argv"])
    container = order["container"]
    several = order["nodes"] > 1
    if several:
        words = [*order["rank"], "--", *words]
    if container and container["runtime"] == "apptainer":
        binds = [word for mount in container["mounts"] for word in ("--bind", mount)]
        words = [
            "apptainer",
            "exec",
            *(["--nv"] if order["gpus"] else []),
            *binds,
            container["image"],
            *words,
        ]
    if not several and not (container and container["runtime"] == "pyxis"):
        return words
    launcher = ["srun", f"--nodes={order['nodes']}", f"--ntasks={order['nodes']}", "--ntasks-per-node=1"]
    if order.get("cpus"):  # since Slurm 22.05 steps do not inherit it
        launcher.append(f"--cpus-per-task={order['cpus']}")
    # ranks leave a pause one after the other: the first that is gone must not end the one that still saves
    launcher += [
        "--kill-on-bad-exit=0",
        f"--wait={_LAST_NODES_SECONDS}",
        "--export=ALL",
        f"--chdir={order['working_directory']}",
    ]
    if container and container["runtime"] == "pyxis":
        launcher += [f"--container-image={container['image']}", "--no-container-mount-home"]
        launcher += [f"--container-mounts={','.join(container['mounts'])}"]
        launcher += [f"--container-workdir={order['working_directory']}"]
    return [*launcher, *words]


def rendezvous(nodes: int, gpus: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Where the nodes of one training meet, in the variables of torchrun (``PET_*``) and of torch itself.

    What setup lines or variables of the step say of the address and port counts: some sites have another
    name of a node for its fast network. The number of a node is added on it by
    ``rank.sh``.
    """
    # the batch script runs on the first node; Slurm's own name of it need not be one that resolves
    address = environ.get("MASTER_ADDR") or (socket.gethostname() if nodes > 1 else "127.0.0.1")
    # two jobs on one node must not meet each other
    port = (
        environ.get("MASTER_PORT") or _FIRST_PORT + int(environ.get("SLURM_JOB_ID") or os.getpid()) % _PORTS
    )
    workers = max(gpus, 1)
    shared = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    if nodes == 1:
        return shared
    return {
        **shared,
        "NNODES": str(nodes),
        "NPROC_PER_NODE": str(workers),
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(workers),
        "PET_MASTER_ADDR": shared["MASTER_ADDR"],
        "PET_MASTER_PORT": shared["MASTER_PORT"],
    }


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def _secrets(run: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((run / folders.SECRETS).read_bytes())
    except FileNotFoundError:
        return {}
    return found


def _known_images(run: Path) -> Path:
    """Where digests of image files are kept, below the root of the service's folders."""
    return run.parents[3] / "images"


def _note(run: Path, generation: int, runs_in: Mapping[str, str | None]) -> None:
    """Say which allocation has this start, and what it runs in."""
    said = {
        "generation": generation,
        "job_id": os.environ.get("SLURM_JOB_ID", ""),
        "nodes": os.environ.get("SLURM_JOB_NODELIST", ""),
        "node": os.environ.get("SLURMD_NODENAME", ""),
        "host": os.uname().nodename,
        "at": time.time(),
        "restarts": os.environ.get("SLURM_RESTART_COUNT", "0"),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "software": dict(runs_in),
    }
    replace_file(run / folders.NODE, json.dumps(said).encode() + b"\n", mode=0o600)


if __name__ == "__main__":
    sys.exit(main())
