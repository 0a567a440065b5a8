"""What the fake cluster's ``squeue`` and ``sacct`` print, and how its programs read their arguments."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nemo_slurm.hosts import Completed
from nemo_slurm.testing.jobs import FakeJob, FakeRecord
from nemo_slurm.testing.model import ClusterModel

_WITH_VALUE: dict[str, str] = {
    "sbatch": "-J -p -t -o -e -D -d -A -N -n -c -w -q -G",
    "squeue": "-j -t -o -O -u -M -n -p --jobs --states --format --Format --user --name",
    "sacct": "-j -o -S -E -u -M -s --jobs --format --delimiter --starttime --user --state",
    "scancel": "-t -u -n -M --state --user --name",
    "scontrol": "-M",
    "sacctmgr": "",
}
"""Options that take the next word; what is not here is a flag or has its value behind ``=``."""
_LONG = {
    "-J": "job-name",
    "-p": "partition",
    "-t": "time",
    "-d": "dependency",
    "-D": "chdir",
    "-A": "account",
}


@dataclass(frozen=True)
class ProgramCall:
    """One call of a program."""

    program: str
    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str

    def parsed(self) -> tuple[dict[str, str], list[str]]:
        """Options by their long names, and the other words."""
        return parse(self.program, self.argv)


def parse(program: str, argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their names without dashes, and the words behind them."""
    found: dict[str, str] = {}
    words = list(argv)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, _, value = word.partition("=")
        if word in _WITH_VALUE[program].split() and words:
            value = words.pop(0)
        if program == "sbatch":
            name = _LONG.get(name, name)
        found[name.lstrip("-")] = value
    return found, words


def failed(program: str, text: str, *, head: str = "") -> Completed:
    """How a program complains."""
    return Completed(1, "", f"{head or f'{program}: '}error: {text}\n")


# ---------------------------------------------------------------- squeue


def squeue(model: ClusterModel, call: ProgramCall) -> Completed:
    """The controller's list."""
    options, _ = call.parsed()
    numbers = _numbers(options)
    jobs = [job for job in model.in_queue() if numbers is None or job.id in numbers]
    if numbers is not None and len(numbers) == 1 and not jobs:
        return failed("squeue", "Invalid job id specified", head="slurm_load_jobs ")
    if options.get("states", options.get("t", "")) != "all":
        jobs = [job for job in jobs if job.active]
    lines = [_queue_line(job, options) for job in jobs]
    return Completed(0, "".join(f"{line}\n" for line in lines), "")


def _queue_line(job: FakeJob, options: Mapping[str, str]) -> str:
    values = queue_values(job)
    wanted = options.get("O", options.get("Format"))
    if wanted:
        parts = [re.fullmatch(r"(\w+):?([0-9]*)(.*)", part, re.DOTALL) for part in wanted.split(",")]
        return "".join(
            f"{values[p[1].lower()][: int(p[2] or 20)]:<{int(p[2] or 20)}}{p[3]}" for p in parts if p
        )
    letters = {
        "i": "jobid",
        "A": "jobid",
        "T": "state",
        "r": "reason",
        "j": "name",
        "k": "comment",
        "E": "dependency",
        "u": "username",
        "a": "account",
        "V": "submittime",
    }
    layout = options.get("o", options.get("output", options.get("format", "%i %T %j %r")))
    return re.sub(r"%[-.0-9]*(\w)", lambda found: values[letters[found[1]]], layout)


def queue_values(job: FakeJob) -> dict[str, str]:
    """Fields of ``squeue -O`` by their names in small letters."""
    end = job.ended_at
    if job.state == "RUNNING" and job.started_at is not None:
        end = job.started_at + (job.limit or 31_536_000)
    return {
        "jobid": job.id,
        "state": job.state,
        "exit_code": str(job.status << 8 | job.signal),
        "restartcnt": str(job.restarts),
        "requeue": job.options["requeue"],
        "reason": job.reason,
        "submittime": _time(job.submitted_at),
        "eligibletime": _time(job.started_at if job.dependency else job.submitted_at),
        "starttime": _time(job.started_at),
        "endtime": _time(end),
        "dependency": job.dependency or "(null)",
        "partition": job.options["partition"],
        "name": job.name,
        "username": job.user,
        "account": job.options.get("account", "lab"),
        "userid": str(job.uid),
        "comment": job.comment or "(null)",
        "workdir": job.folder,
    }


# ---------------------------------------------------------------- sacct


def sacct(model: ClusterModel, call: ProgramCall) -> Completed:
    """Accounting's list."""
    if model.faults.accounting == "off":
        return Completed(1, "", "Slurm accounting storage is disabled\n")
    if model.faults.accounting == "down":
        said = (
            "slurm_persist_conn_open_without_init: failed to open persistent connection: Connection refused"
        )
        return Completed(1, "", f"sacct: error: {said}\nsacct: error: Problem talking to the database\n")
    options, _ = call.parsed()
    break_ = options.get("delimiter", "|")

    def line(number: str, run: FakeRecord, names: Sequence[str], shown: str = "") -> str:
        return break_.join(_record(model, number, run, name, call.env, shown) for name in names)

    names = (options.get("format") or options.get("o") or "JobID,JobName,State,ExitCode").split(",")
    lines = []
    for number in _numbers(options) or sorted(model.jobs):
        records = model.records(number)
        for run in records if "D" in options else records[-1:]:
            lines.append(line(number, run, names))
            if "X" not in options and run.started_at is not None:
                step = FakeRecord("COMPLETED", 0, 0, run.submitted_at, run.started_at, run.ended_at)
                lines.append(line(f"{number}.batch", step, names))
        parts = model.jobs[number].components if number in model.jobs else []
        lines += [
            line(str(int(number) + at), part, names, f"{number}+{at}") for at, part in enumerate(parts, 1)
        ]
    if "n" not in options and "noheader" not in options:
        lines.insert(0, break_.join(names))
    return Completed(0, "".join(f"{line}\n" for line in lines), "")


def _record(
    model: ClusterModel, number: str, run: FakeRecord, name: str, env: Mapping[str, str], shown: str = ""
) -> str:
    """One field; ``shown`` is the number as people see it, where that is another."""
    job = model.jobs.get((shown or number).partition(".")[0].partition("+")[0])
    own = run.name if run.name is not None else job.name if job else "old"
    comment = run.comment if run.comment is not None else job.comment if job else ""
    uid = run.uid if run.uid is not None else job.uid if job else 0
    active = run.state in {"PENDING", "RUNNING"}
    state = f"{run.state} by {run.author}" if run.author is not None else run.state
    if model.faults.cuts_states and len(state) > 10:
        state = f"{state[:9]}+"
    form = env.get("SLURM_TIME_FORMAT", "")
    values: dict[str, Callable[[], str]] = {
        "jobid": lambda: shown or number,
        "jobidraw": lambda: number,
        "state": lambda: state,
        "exitcode": lambda: f"{run.status}:{run.signal}",
        "elapsedraw": lambda: str(run.elapsed),
        "elapsed": lambda: str(dt.timedelta(seconds=run.elapsed)),
        "submit": lambda: _time(run.submitted_at, form),
        "eligible": lambda: "Unknown",  # 22.05, measured
        "start": lambda: _time(run.started_at, form),
        "end": lambda: "Unknown" if active or run.half_written else _time(run.ended_at, form),
        "nnodes": lambda: "1",
        "jobname": lambda: own,
        "user": lambda: job.user if job and uid == job.uid else f"user{uid}",
        "uid": lambda: str(uid),
        "comment": lambda: comment if model.faults.keeps_comments else "",
        "workdir": lambda: job.folder if job else "",
    }
    return values[name.lower()]()


def _numbers(options: Mapping[str, str]) -> list[str] | None:
    text = options.get("j", options.get("jobs", options.get("job")))
    return None if text is None else text.split(",")


def _time(seconds: float | None, form: str = "%s") -> str:
    if seconds is None:
        return "Unknown" if form != "%s" else "0"
    if form == "%s":
        return str(int(seconds))
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
