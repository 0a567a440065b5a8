"""A chain without a living service: an allocation queues the next one, which judges whether to run.

The successor waits with ``afternotok`` for the end of its predecessor. Its token follows from the
predecessor's, so a service that wakes up and starts the step again hands over the very same start, and finds
it queued, running or done. An allocation may live on after its node was given up, so it acts for its step
only while no later start has claimed it (`Fence`). Standard library, `nemo_runs` and `nemo_trainer` only:
this runs on the nodes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.storage import run_files
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import DiskFullError, RunsError
from nemo_trainer.contract import generations, names
from nemo_trainer.contract.generations import Generation

_COMMAND_TIMEOUT = 60.0
"""Seconds that a command of the scheduler may take."""
DISK_FULL = 28
"""Exit status of an allocation that ended since its storage is full; the number of the error ENOSPC."""
PLACE_TAKEN = {
    "TIMEOUT": "its walltime was over",
    "PREEMPTED": "it was preempted",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not boot",
    "DEADLINE": "its deadline was over",
    "REVOKED": "its allocation was revoked",
}
"""Ends of a job that say nothing of its command: another allocation may go on."""
NODE_FAILED = "NODE_FAIL"
_SAYS_WHY = frozenset(
    {
        names.EXIT_DONE,
        names.EXIT_BAD_SPEC,
        names.EXIT_ENGINE_UNAVAILABLE,
        names.EXIT_CHECKPOINT_UNUSABLE,
        names.EXIT_DIVERGED,
        names.EXIT_PAUSED,
    }
)
"""Exit statuses by which the contract of trainers says how it ended."""
_REQUEUED = "REQUEUED"
_GOES_ON = frozenset({*PLACE_TAKEN, _REQUEUED})


class LateStartError(RunsError):
    """A later start of the step has claimed it, so this one must not begin."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of a start to act for its step: to queue what follows, and to take that back."""

    trainer: Path
    number: int
    """The generation that it has claimed; 0: its step cannot go on, so nothing follows it."""

    def holds(self) -> bool:
        """Whether no later start has claimed the step, and its folder is still there."""
        if not self.number:
            return True
        mine = generations.claim_file(self.trainer, self.number)
        return os.path.lexists(mine) and generations.is_current(self.trainer, self.number)


def claim_generation(run: Path, order: Mapping[str, Any], by: str) -> Fence:
    """Claim the step for this start, so that processes of all earlier ones publish nothing more.

    Raises `LateStartError` when a start that was ordered later has claimed it, and `OSError` or
    `nemo_runs.errors.DiskFullError` when the claim cannot be written.
    """
    trainer = Path(order["trainer"])
    if not order["goes_on"]:
        return Fence(trainer, 0)

    def allowed(newest: Generation | None) -> None:
        if newest is None or newest.task == order["token"]:
            return
        later = start_number(run.parent / newest.task) if newest.task else 0
        if later and later >= start_number(run):
            raise LateStartError(f"{newest.task}, which was ordered later, has claimed the step already")

    attempt = str(order["environment"].get(names.ATTEMPT, ""))
    made = generations.claim(trainer, task=order["token"], attempt=attempt, by=by, allowed=allowed)
    return Fence(trainer, made.number)


def start_number(run: Path) -> int:
    """The place of a start in the order in which starts of its job were ordered; 0: it is not known."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((run / folders.ORDER).read_bytes())["start"])
    return 0


def next_start_number(run: Path) -> int:
    """The number of a start that is about to be ordered; the one that it has already."""
    known = start_number(run)
    return known or 1 + max((start_number(path) for path in run.parent.glob("task-*")), default=0)


@dataclass(frozen=True, slots=True)
class Predecessor:
    """What is known of the allocation before this one."""

    end: run_files.ExitRecord | None = None
    state: str = ""
    """The scheduler's word for its end; empty: it does not say."""
    pause_wanted: bool = False
    stop_asked: bool = False


def verdict(before: Predecessor, chain: Mapping[str, Any], newest: int) -> str | None:
    """Why this allocation must not run; `None`: it goes on. Pure.

    ``newest`` is the training step of the newest checkpoint now, ``chain["newest"]`` what it was when the
    predecessor began.
    """
    if before.stop_asked:
        return "it was stopped"
    if before.pause_wanted:
        return "its job is paused"
    if (why := _ended_for_good(before)) is not None:
        return why
    if newest <= chain["newest"] and chain["idle"] + 1 > chain["most_idle"]:
        return f"{chain['idle'] + 1} allocations in a row have brought no newer checkpoint"
    return None


def _ended_for_good(before: Predecessor) -> str | None:
    end = before.end
    if end is None:
        taken = before.state.split()[0] if before.state else ""
        return None if taken in _GOES_ON else f"how the allocation before ended is not known ({taken})"
    if end.exit_status == 0:
        return "the allocation before has completed its work"
    if end.exit_status == names.EXIT_PAUSED or end.stopped:
        return None
    taken = before.state.split()[0] if before.state else ""
    if taken == NODE_FAILED and fails_unexplained(end):
        return None
    return None if end.signal and taken in _GOES_ON else f"its command {end.reason}"


def fails_unexplained(end: run_files.ExitRecord) -> bool:
    """Whether a command failed by itself, and nothing says why.

    When a node fails, what is left of a command on the other nodes fails, and so does the ``srun`` that
    started it on all of them.
    """
    ended = end.stopped or end.timed_out or end.signal != 0
    explained = end.out_of_memory or end.disk_full or end.exit_status in _SAYS_WHY
    return not ended and not explained


def queue(
    run: Path, order: Mapping[str, Any], newest: int, fence: Fence, environ: Mapping[str, str] = os.environ
) -> None:
    """Queue the successor of a start; that it cannot be queued is said, and ends nothing.

    At most one job comes of it: one that carries the successor's token already is taken.
    """
    chain = order.get("chain")
    if not chain or chain["left"] < 1 or not environ.get("SLURM_JOB_ID") or not fence.holds():
        return
    try:
        after = _prepared(run, order, newest)
        if (after / folders.QUEUED).exists() or (after / run_files.CLAIM).exists():
            return
        job = _job_of(after.name)
        if job is None:
            if not fence.holds():
                return
            job = _sbatch(after, environ)
        said = {"job_id": job, "by": environ["SLURM_JOB_ID"], "at": time.time()}
        replace_file(after / folders.QUEUED, json.dumps(said).encode() + b"\n", mode=0o600)
    except (OSError, RunsError, subprocess.SubprocessError, ValueError) as error:
        sys.stderr.write(f"its successor is not queued: {error}\n")


def _prepared(run: Path, order: Mapping[str, Any], newest: int) -> Path:
    """The folder of the next start with everything that it reads; fine when some of it is there."""
    token, after_token = order["token"], run_files.next_token(order["token"])
    after = run.parent / after_token
    if (after / folders.ORDER).exists():
        return after  # written last, here or by the service
    config = after / run_files.CONFIG_FOLDER
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    (run.parent.parent / "scratch" / after_token).mkdir(mode=0o700, parents=True, exist_ok=True)
    chain = order["chain"]
    idle = chain["idle"] + 1 if newest <= chain["newest"] and chain["number"] > 1 else 0
    # the token is 128 random bits: wherever it stands, the start itself is meant
    changed = json.loads(json.dumps(order).replace(token, after_token))
    numbers = {"left": chain["left"] - 1, "number": chain["number"] + 1, "idle": idle, "newest": newest}
    changed |= {"predecessor": token, "chain": {**chain, **numbers}, "start": next_start_number(after)}
    script = (run / folders.SCRIPT).read_text(encoding="utf-8").replace(token, after_token)
    script = script.replace(folders.name_mark(token), folders.name_mark(after_token))
    _write(after / folders.SCRIPT, script)
    with contextlib.suppress(FileNotFoundError):
        _write(after / folders.SECRETS, (run / folders.SECRETS).read_text(encoding="utf-8"))
    with contextlib.suppress(FileNotFoundError):
        data = (run / run_files.CONFIG_FOLDER / run_files.CONFIG_FILE).read_bytes()
        replace_file(config / run_files.CONFIG_FILE, data, mode=0o400)
    _write(after / folders.ORDER, json.dumps(changed))
    return after


def _write(path: Path, text: str) -> None:
    replace_file(path, text.encode(), mode=0o600)


def _job_of(token: str) -> str | None:
    """The number of the job that carries a token: it was queued, and its reply was lost."""
    done = _call(["squeue", "-h", "--me", "-o", "%i %j %k"])
    if done.returncode:
        raise ValueError(f"squeue ended with status {done.returncode}: {' '.join(done.stderr.split())}")
    rows = (line.split() for line in done.stdout.splitlines())
    return next((row[0] for row in rows if row and row[0].isdecimal() and _is_of(token, row[1:])), None)


def _is_of(token: str, words: list[str]) -> bool:
    """Whether a job's name or comment is that of a start; a site may have written over the comment."""
    return token in words or words[0].endswith(f"-{folders.name_mark(token)}")


def _call(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT)


def _sbatch(after: Path, environ: Mapping[str, str]) -> str:
    words = ["sbatch", "--parsable", f"--comment={after.name}"]
    words += [f"--dependency=afternotok:{environ['SLURM_JOB_ID']}", "--", str(after / folders.SCRIPT)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMMAND_TIMEOUT,
        env=_clean(environ),
        cwd=after,
    )
    if done.returncode:
        raise ValueError(f"sbatch ended with status {done.returncode}: {' '.join(done.stderr.split())}")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    numbers = {line.partition(";")[0] for line in lines if line.partition(";")[0].isdecimal()}
    if len(numbers) != 1:
        raise ValueError(f"sbatch did not print exactly one number: {done.stdout.strip()[:200]!r}")
    return numbers.pop()


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what this job's own allocation has set: a successor would take it for its own."""
    return {
        name: value
        for name, value in environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SBATCH_"))
    }


def judge(run: Path, order: Mapping[str, Any], newest: int) -> str | None:
    """Why a successor must not run; `None`: it goes on, or nothing came before it."""
    token = order.get("predecessor")
    if not token:
        return None
    before = run.parent / token
    end = None
    with contextlib.suppress(RunsError):
        end = run_files.read_end(before)
    found = Predecessor(
        end=end,
        state=_state(before),
        pause_wanted=_wants_pause(before),
        stop_asked=run_files.read_stop(before) is not None,
    )
    return verdict(found, order["chain"], newest)


def is_final(end: run_files.ExitRecord, run: Path, nodes: int = 1) -> bool:
    """Whether a start's end needs no further allocation: it is done, has failed, or was asked to end.

    Whether one of several nodes has failed is not known yet: the next allocation finds it out.
    """
    if _wants_pause(run) or run_files.read_stop(run) is not None:
        return True
    with_a_node = nodes > 1 and fails_unexplained(end)
    return not (end.exit_status == names.EXIT_PAUSED or end.stopped or with_a_node)


def give_up_successor(run: Path, order: Mapping[str, Any], fence: Fence) -> None:
    """The step needs no further allocation: the next start is claimed for nobody, and its job cancelled."""
    after = run.parent / run_files.next_token(order["token"])
    with contextlib.suppress(OSError, RunsError):
        if not (after / folders.ORDER).exists() or not fence.holds():
            return
        (after / folders.SECRETS).unlink(missing_ok=True)
        mine = True
        with contextlib.suppress(DiskFullError):  # should it begin meanwhile, it reads how this one ended
            mine = run_files.make_claim(after, run_files.RunClaim(None, time.time()))
        if mine:
            job = str(json.loads((after / folders.QUEUED).read_bytes())["job_id"])
            _cancel(job, after.name)


def _cancel(job: str, token: str) -> None:
    """Cancel a job that carries the token, and no other one that may have its number."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = _call(["squeue", "-h", "--me", "-j", job, "-o", "%j %k"]).stdout.split()
        if words and _is_of(token, words):
            _call(["scancel", job])


def _state(before: Path) -> str:
    """What the controller says of the job of a start."""
    with contextlib.suppress(OSError, ValueError, KeyError, subprocess.SubprocessError):
        job = str(json.loads((before / folders.NODE).read_bytes())["job_id"])
        done = _call(["scontrol", "-o", "show", "job", job])
        words = dict(word.partition("=")[::2] for word in done.stdout.split())
        # a job that was put back into the queue found its start made: that it then failed says nothing
        return _REQUEUED if words.get("Restarts", "0") != "0" else words.get("JobState", "")
    return ""


def _wants_pause(before: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return bool(json.loads((before / run_files.CONTROL).read_bytes())["want"] in {"pause", "stop"})
    return False
