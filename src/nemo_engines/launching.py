"""Several processes on one machine, through torch's own launcher, with the exit codes of the contract.

The launcher ends its workers on SIGTERM and kills them half a minute later, which may be in the middle of a
save.
Here SIGTERM is a request to pause: it is passed on to the workers, which stop on the same step.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError
from nemo_engines.spec import EngineSpec
from nemo_runs.processes.trees import descendants
from nemo_trainer.contract import EXIT_PAUSED


def launch(spec: EngineSpec, spec_file: Path, trainer_path: Path) -> int:
    """Run this training in ``devices.count`` processes, and return the exit code that they agree on."""
    if spec.devices.nodes > 1 and "MASTER_ADDR" not in os.environ:
        raise BadSpecError(
            "devices.nodes > 1 needs a launcher on every node that sets NODE_RANK, MASTER_ADDR and "
            "MASTER_PORT"
        )
    try:
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
        from torch.distributed.run import get_args_parser, run  # noqa: PLC0415
    except ImportError as error:
        raise EngineUnavailableError(f"torch cannot be loaded: {error}") from error
    # SIGTERM is left out: the launcher's own handling of it would end the workers
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGINT,SIGHUP,SIGQUIT"
    arguments = [
        *_meeting(spec.devices.nodes, os.environ),
        f"--nproc-per-node={spec.devices.count}",
        "--signals-to-handle=SIGINT,SIGHUP,SIGQUIT",
        "--module",
        "nemo_engines.run",
        f"--spec={spec_file}",
        f"--dir={trainer_path}",
    ]
    _pass_on_signals()
    try:
        run(get_args_parser().parse_args(arguments))
    except ChildFailedError as error:
        return exit_code([failure.exitcode for failure in error.failures.values()])
    return 0


def _meeting(nodes: int, environ: Mapping[str, str]) -> list[str]:
    """How the launchers of several nodes find each other; a single one needs nobody."""
    if nodes == 1:
        return ["--standalone"]
    return [
        f"--nnodes={nodes}",
        f"--node-rank={environ.get('NODE_RANK', '0')}",
        f"--master-addr={environ['MASTER_ADDR']}",
        f"--master-port={environ.get('MASTER_PORT', '29500')}",
    ]


def exit_code(codes: list[int]) -> int:
    """What several processes have ended with, as one: a reason goes before a signal, and a pause must be
    everyone's.

    Workers that the launcher ended because of another one's end have -15, which is nobody's reason.
    """
    reasons = [code for code in codes if code not in (0, -signal.SIGTERM)]
    if not reasons:
        return 1
    worst = [code for code in reasons if code != EXIT_PAUSED]
    chosen = worst[0] if worst else EXIT_PAUSED
    return chosen if chosen > 0 else 128 - chosen


def _pass_on_signals() -> None:
    def pass_on(number: int, _frame: FrameType | None) -> Any:
        sys.stderr.write(f"signal {number} is passed on to the processes of this training\n")
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGUSR1, pass_on)
