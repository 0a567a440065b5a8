"""How jobs of this machine are started, looked at and ended, each under a detached supervisor of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import nemo_gym
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.orchestration.executors.base import JobRef, Queued
from nemo_gym.orchestration.executors.local_links import liveness_of, supervisor_of
from nemo_gym.orchestration.executors.local_numbers import claim_number
from nemo_gym.orchestration.executors.local_supervisor import (
    MARKER,
    Assignment,
    claim,
    waits_for,
    write_unstarted,
)
from nemo_gym.orchestration.plan.values import JobPlan
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes import supervise, trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity

_READY_WITHIN = 30.0
_STATES = {
    "COMPLETED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
}
_NEXT = "waiting for its turn"
_OF_ONE_RUN = (
    MARKER,
    *("NEMO_GYM_STEP", "NEMO_GYM_JOB_ID", "NEMO_GYM_RESTART", "NEMO_GYM_SUPERVISOR", "NEMO_GYM_DRAIN_FILE"),
    *("NEMO_GYM_CHAIN", "NEMO_GYM_LINK", "NEMO_GYM_COLLECTED", "NEMO_GYM_LOCAL_JOBS", "NEMO_GYM_BENCH_DIR"),
    *("NEMO_GYM_SERVICE_API_KEY", "NEMO_GYM_POLICY_API_KEY"),
)
"""Variables of a surrounding job that a job submitted from inside it must not inherit."""


def queue(plan: JobPlan, max_parallel: int, *, environ: Mapping[str, str] | None, grace: float) -> Queued:
    """Start the supervisor of one job; ``environ`` (this process's unless given) is inherited by the job.

    ``grace``: seconds between TERM and KILL when the job is ended.
    """
    try:
        if not JobPaths(plan.job_dir).script.is_file():
            return Queued(plan.benchmark, None, f"{JobPaths(plan.job_dir).script} is not there")
        number = claim_number(plan.gym_job_id, plan.benchmark, plan.job_dir)
        error = _start(_assignment(plan, number, max_parallel, grace), _environment(environ))
    except OSError as caught:
        where = f" ({caught.filename})" if caught.filename else ""
        return Queued(plan.benchmark, None, f"its supervisor could not be started: {caught.strerror}{where}")
    except GymError as caught:
        return Queued(plan.benchmark, None, str(caught).rstrip("."))
    if error is not None:
        return Queued(plan.benchmark, None, error)
    return Queued(plan.benchmark, f"local-{number}")


def _assignment(plan: JobPlan, number: int, max_parallel: int, grace: float) -> Assignment:
    return Assignment(
        job_dir=str(plan.job_dir),
        gym_job_id=plan.gym_job_id,
        benchmark=plan.benchmark,
        number=number,
        max_parallel=max_parallel,
        walltime=plan.walltime,
        grace=grace,
        gpus=sum(service.gpus for service in plan.services),
        slots=1 if plan.services else 0,
    )


def _start(assignment: Assignment, environ: dict[str, str]) -> str | None:
    """Start a supervisor and wait until it has queued the job; the sentence says why it has not."""
    output = JobPaths(Path(assignment.job_dir)).output(assignment.job_id)
    reader, writer = os.pipe()
    try:
        pid = _spawn(assignment, environ, output, writer)
    finally:
        os.close(writer)
    try:
        if _is_ready(reader):
            return None
    finally:
        os.close(reader)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"its supervisor did not start; see {output}"


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    environ = os.environ if given is None else given
    return {name: value for name, value in environ.items() if name not in _OF_ONE_RUN}


def _spawn(assignment: Assignment, environ: dict[str, str], output: Path, ready: int) -> int:
    """Start a supervisor in a session of its own; ``ready`` is its standard output."""
    # Its path is its own, whatever the shell's PYTHONPATH says; that is for the job's services and commands.
    start = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from nemo_gym.orchestration.executors.local_supervisor import main; sys.exit(main())"
    )
    own = str(Path(nemo_gym.__file__).parents[1])
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", start, own, json.dumps(asdict(assignment))],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, ready, 1),
            (os.POSIX_SPAWN_OPEN, 2, str(output), flags, 0o644),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE],
    )


def _is_ready(reader: int) -> bool:
    readable, _, _ = select.select([reader], [], [], _READY_WITHIN)
    return bool(readable) and os.read(reader, 64).startswith(b"ready")


def observe(job: JobRef) -> JobObservation:
    """Read a job's folder, and ask the kernel whether its supervisor lives."""
    link = JobPaths(job.job_dir).link(job.job_id)
    try:
        supervisor = supervisor_of(JobPaths(job.job_dir), job.job_id)
        alive = liveness_of(supervisor, link)
        # read after the process was looked at: an end that is written is written before its writer is gone
        ended = supervise.read_exit(link.exit)
    except (OSError, RunsError) as error:
        return JobObservation(JobState.UNKNOWN, f"its folder cannot be read: {error}")
    if ended is not None:
        return _ended(ended, link)
    started = _started(link)
    if alive is Liveness.ALIVE:
        state = JobState.QUEUED if started is None else JobState.RUNNING
        before = waits_for(link)
        waiting = f"waiting for the end of {before}" if before else _waits_for_what(link)
        return JobObservation(state, waiting if started is None else "", started_at=started)
    if alive is Liveness.DEAD:
        return _unkept(job, started)
    if supervisor is None:
        return JobObservation(JobState.UNKNOWN, f"there is no trace of {job.job_id} in {job.job_dir}")
    reason = f"its supervisor runs on {supervisor.host}, or in a container, and cannot be seen from here"
    return JobObservation(JobState.UNKNOWN, reason, started_at=started)


def _unkept(job: JobRef, started: float | None) -> JobObservation:
    """A job whose supervisor is dead: as long as anything of it runs, it runs."""
    left = trees.marked(MARKER, _run_of(job))
    if left:
        found = f"its supervisor was killed, and {len(left)} of its processes still run"
        return JobObservation(JobState.RUNNING, found, started_at=started)
    what = "before the job had started" if started is None else "and the job ended itself"
    reason = f"its supervisor was killed, or the machine was restarted, {what}"
    return JobObservation(JobState.FAILED, reason, started_at=started, word="NODE_FAIL")


def _ended(ended: supervise.Exit, link: LinkPaths) -> JobObservation:
    state = _STATES[ended.state]
    reason = ended.reason
    if ended.state == "FAILED":
        reason = _marker_sentence(link) or reason
    elif ended.state == "COMPLETED":
        reason = ""
    return JobObservation(state, reason, ended.exit_status, _started(link), ended.ended_at, word=ended.state)


def _marker_sentence(link: LinkPaths) -> str:
    """The sentence of the job script's end marker: its second line."""
    try:
        return link.end.read_text(encoding="utf-8", errors="replace").partition("\n")[2].strip()
    except FileNotFoundError:
        return ""


def _waits_for_what(link: LinkPaths) -> str:
    """The supervisor's sentence; without one the job waits for another of its submission."""
    try:
        return link.waiting.read_text(encoding="utf-8", errors="replace").strip() or _NEXT
    except FileNotFoundError:
        return _NEXT


def _started(link: LinkPaths) -> float | None:
    try:
        return float(link.started.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


def cancel(job: JobRef) -> bool:
    """Ask one job to end; false when it cannot be reached from here."""
    link = JobPaths(job.job_dir).link(job.job_id)
    try:
        supervisor = supervisor_of(JobPaths(job.job_dir), job.job_id)
        if supervisor is None or supervise.read_exit(link.exit) is not None:
            return True
    except (OSError, RunsError):
        return False
    if waits_for(link) and claim(link):
        try:
            write_unstarted(link, "cancelled before it had started")
        except DiskFullError:
            link.taken.unlink(missing_ok=True)  # nobody has decided about it: the next one can
            raise
        return True
    alive = trees.liveness(supervisor)
    if alive is Liveness.ALIVE:
        with contextlib.suppress(OSError):  # the signal says it too, where nothing can be written
            link.cancel.touch()
        _terminate(supervisor)
    elif alive is Liveness.DEAD:
        trees.end_tree(supervisor, grace=2.0, marker=(MARKER, _run_of(job)))
    return alive is not Liveness.ELSEWHERE


def _run_of(job: JobRef) -> str:
    """The value of `MARKER` in every process of a job."""
    return f"{job.job_dir.parent.name}/{job.job_dir.name}/{job.job_id}.0"


def _terminate(supervisor: ProcessIdentity) -> None:
    """SIGTERM to exactly this process, pinned by a descriptor before its start time is compared."""
    try:
        descriptor = os.pidfd_open(supervisor.pid)
    except ProcessLookupError:
        return
    try:
        if trees.liveness(supervisor) is Liveness.ALIVE:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)
