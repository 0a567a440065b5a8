"""The detached process that keeps one job of the `local` executor: its turn, its walltime, its successors.

Started by `nemo_gym.orchestration.executors.local` as ``python -m`` in its own session. It says ``ready`` on
its standard output once the job is queued, waits for the job's turn, runs ``job.sh`` and writes ``exit.json``
last. The job script watches it, and ends by itself when it is gone. When a job that has queued a successor
ends otherwise than COMPLETED, the same supervisor keeps the successor, in the same turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym import events, job_paths
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, LinkPaths, RunPaths
from nemo_gym.orchestration.config.drain_lead import drain_lead
from nemo_gym.orchestration.executors.local_links import make_link
from nemo_gym.orchestration.executors.local_successors import queue_owed, reserve_space
from nemo_gym.reports import to_stderr
from nemo_runs.durable.files import create_file, replace_file
from nemo_runs.durable.journal import Journal
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes import supervise, trees

if TYPE_CHECKING:
    from nemo_gym.orchestration.executors.local_queue import MachineShare

_LOOK = 0.2
"""Seconds between two looks whether it is this job's turn."""
MARKER = "NEMO_GYM_RUN"
"""The variable that marks every process of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The input of a supervisor, as one JSON argument."""

    job_dir: str
    gym_job_id: str
    benchmark: str
    number: int
    """The job's number; its id is ``local-<number>``."""
    max_parallel: int
    walltime: int | None
    """Seconds."""
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    gpus: int = 0
    """GPUs that its services fill, as far as this machine has them."""
    slots: int = 0
    """CPU slots that it takes: none when it only sends requests to somebody else's model."""

    @property
    def job_id(self) -> str:
        """The id under which the job is recorded."""
        return f"local-{self.number}"

    def run_of(self, job_id: str) -> str:
        """The value of `MARKER` in everything that belongs to one job of this chain."""
        return f"{self.gym_job_id}/{self.benchmark}/{job_id}.0"


def main() -> int:
    """Keep one job to its end."""
    from nemo_gym.orchestration.executors.local_queue import QueueTurn

    cancelled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: cancelled.append(received))
    for number in (signal.SIGHUP, signal.SIGUSR1):
        # handled, not ignored: what is ignored stays so in the job's programs
        signal.signal(number, lambda _number, _frame: None)
    assignment = Assignment(**json.loads(sys.argv[1]))
    os.chdir(assignment.job_dir)
    paths = JobPaths(Path(assignment.job_dir))
    link = make_link(paths, assignment.job_id, reserve_space)
    share = _share(assignment)
    turn = QueueTurn(RunPaths(paths.job_dir.parent).slots, assignment.number, assignment.max_parallel)
    events.record(Journal(paths.events), "queued", job_id=assignment.job_id, restart=0)
    os.write(1, b"ready\n")
    os.dup2(2, 1)
    while not cancelled and not (turn.take() and share.take()):
        _report_wait(link, share.reason)
        time.sleep(_LOOK)
    if cancelled:
        end_unstarted(link, "cancelled before it had started")
    else:
        last = _run_chain(assignment, paths, cancelled, share)
        link = paths.link(last)
    share.leave()
    turn.leave()
    _send_end_notice(paths, link)
    for its in sorted(paths.job_dir.parent.glob(f"{paths.job_dir.name}.*")):
        shared = JobPaths(its).link(link.folder.name.rpartition(".")[0])
        if shared.started.exists():
            _send_end_notice(JobPaths(its), shared, link)
    return 0


def _share(assignment: Assignment) -> MachineShare:
    """What the job needs of the machine."""
    from nemo_gym.orchestration.executors.local_queue import MachineShare

    name = f"{assignment.gym_job_id}/{assignment.benchmark}/{assignment.job_id}"
    return MachineShare(name, gpus=assignment.gpus, slots=assignment.slots, environ=os.environ)


def _report_wait(link: LinkPaths, reason: str) -> None:
    """For `gym job status`; a disk that is full now changes nothing."""
    with contextlib.suppress(OSError, DiskFullError):
        if reason and (
            not link.waiting.exists() or link.waiting.read_text(encoding="utf-8") != f"{reason}\n"
        ):
            replace_file(link.waiting, f"{reason}\n".encode())


def end_unstarted(link: LinkPaths, reason: str) -> None:
    """Write the end of a job that never ran, however long its disk is full."""
    supervise.patiently(lambda: write_unstarted(link, reason))


def write_unstarted(link: LinkPaths, reason: str) -> None:
    """Write the end of a job that never ran. Raises `DiskFullError`."""
    now = time.time()
    end = supervise.Exit("CANCELLED", 0, 0, now, now, reason)
    replace_file(link.exit, json.dumps(asdict(end)).encode() + b"\n")


def _send_end_notice(paths: JobPaths, link: LinkPaths, job: LinkPaths | None = None) -> None:
    """Send the notice of the end that a job which was killed could not send; none is sent twice.

    ``job`` is where the supervisor wrote the end: elsewhere where the job is shared.
    """
    from nemo_gym.notices import content, sending
    from nemo_gym.notices.recipients import load_recipients

    sealed = sending.sealed_recipients(paths)
    if sealed is None:
        return

    with contextlib.suppress(GymError, OSError, RunsError):
        ended = supervise.read_exit((job or link).exit)
        killed = "" if ended is None else f"{ended.state}: {ended.reason or 'its job was killed'}"
        notice = content.end_notice(paths, link, killed=killed)
        if notice is not None:
            sending.tell(notice, load_recipients(sealed), paths, link, sending.own_context(to_stderr))


def _run_chain(assignment: Assignment, paths: JobPaths, cancelled: list[int], share: MachineShare) -> str:
    """Run the job and, one after the other, the successors that are queued when one has not COMPLETED.

    Gives the id of the last one.
    """
    job_id, before = assignment.job_id, ""
    while job_id:
        share.mark((MARKER, assignment.run_of(job_id)))
        ended = _run(assignment, job_id, before, paths, cancelled, share.environment)
        if not paths.link(job_id).next.exists():
            queue_owed(paths, job_id, assignment.gym_job_id, unwanted=lambda: bool(cancelled))
        job_id, before = _successor(paths, job_id, ended, cancelled), job_id
    return before


def _successor(paths: JobPaths, job_id: str, ended: supervise.Exit, cancelled: list[int]) -> str:
    """The id of the job that starts now, or an empty text; one that does not start has its end written."""
    link = paths.link(job_id)
    try:
        following = link.next.read_text(encoding="ascii").strip()
        claimed = bool(following) and supervise.patiently(lambda: claim(paths.link(following)))
    except FileNotFoundError:
        return ""
    if not claimed:
        return ""
    if ended.state == "COMPLETED":
        end_unstarted(paths.link(following), f"{job_id} was completed, so nothing was left to do")
        return ""
    if ended.state == "CANCELLED" or cancelled or link.cancel.exists():
        end_unstarted(paths.link(following), f"{job_id} was cancelled")
        return ""
    return following


def waits_for(link: LinkPaths) -> str:
    """The job that a successor waits for, under the same supervisor; empty when this job waits for none."""
    try:
        before = link.predecessor.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    return "" if link.taken.exists() else before


def claim(link: LinkPaths) -> bool:
    """Decide about a waiting successor: true for exactly one who wants to start it or take it back."""
    try:
        create_file(link.taken, f"{os.getpid()}\n".encode())
    except FileExistsError:
        return False
    return True


def _run(
    assignment: Assignment,
    job_id: str,
    before: str,
    paths: JobPaths,
    cancelled: list[int],
    environment: Mapping[str, str],
) -> supervise.Exit:
    """Run one job to its end; ``before`` is the id of the one that it follows, if there is one."""
    me, link = trees.identify(), paths.link(job_id)
    env = {**os.environ, **environment} | {
        "NEMO_GYM_JOB_ID": job_id,
        "NEMO_GYM_RESTART": "0",
        "NEMO_GYM_SUPERVISOR": f"{me.pid}:{me.start_time}",
        "NEMO_GYM_LOCAL_JOBS": str(job_paths.local_jobs()),
    }
    walltime = assignment.walltime
    return supervise.supervise(
        ["bash", str(paths.script), *([before] if before else [])],
        cwd=paths.job_dir,
        env=env,
        output=paths.output(job_id),
        exit_file=link.exit,
        identity_file=link.supervisor,
        drain_file=link.drain,
        limits=supervise.TimeLimits(walltime, drain_lead(walltime), assignment.grace),
        marker=(MARKER, assignment.run_of(job_id)),
        # a cancellation in the moment before the signals were the supervision's own
        on_start=lambda: os.kill(os.getpid(), signal.SIGTERM) if cancelled else None,
        adopted=True,
    )


if __name__ == "__main__":
    sys.exit(main())
