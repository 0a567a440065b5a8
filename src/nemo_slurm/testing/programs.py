"""What the fake cluster's programs answer: argument lists in, text out, in the words of the real ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nemo_runs.durations import parse_duration
from nemo_slurm.hosts import Completed
from nemo_slurm.testing.jobs import FakeJob
from nemo_slurm.testing.listings import ProgramCall, failed, parse, queue_values, sacct, squeue
from nemo_slurm.testing.model import ClusterModel

_UNREACHABLE = "Unable to contact slurm controller (connect failure)"
_TIMED_OUT = "Batch job submission failed: Socket timed out on send/recv operation"


def answer(model: ClusterModel, call: ProgramCall) -> Completed:
    """Run one program against the cluster."""
    model.calls[call.program] = model.calls.get(call.program, 0) + 1
    if model.faults.controller_down and call.program not in {"sacct", "sacctmgr"}:
        said = f"Batch job submission failed: {_UNREACHABLE}" if call.program == "sbatch" else _UNREACHABLE
        return Completed(1, model.faults.banner, f"{call.program}: error: {said}\n")
    done = _PROGRAMS[call.program](model, call)
    return Completed(done.status, model.faults.banner + done.stdout, done.stderr)


# ---------------------------------------------------------------- sbatch


def _sbatch(model: ClusterModel, call: ProgramCall) -> Completed:
    options, words = call.parsed()
    script = Path(call.folder, words[0]) if words else None
    if script is None or not script.is_file():
        return failed("sbatch", f"Unable to open file {script}")
    text = script.read_text(encoding="utf-8", errors="surrogateescape")
    options = _directives(text) | options
    if said := _refusal(model, call, options):
        return failed("sbatch", said)
    if "test-only" in options:
        return Completed(0, "", f"sbatch: Job {model.next_id} to start at 2027-01-15T08:00:00\n")
    return _accepted(model, _job(model, call, options, words, text), parsable="parsable" in options)


def _accepted(model: ClusterModel, job: FakeJob, *, parsable: bool) -> Completed:
    if model.faults.lost_requests > 0:
        model.faults.lost_requests -= 1
        return failed("sbatch", _TIMED_OUT)
    model.accept(job)
    if model.faults.lost_replies > 0:
        model.faults.lost_replies -= 1
        return failed("sbatch", _TIMED_OUT)
    suffix = f";{model.faults.cluster_name}" if model.faults.cluster_name else ""
    return Completed(0, f"{'' if parsable else 'Submitted batch job '}{job.id}{suffix}\n", "")


def _directives(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH "):
            found |= parse("sbatch", line.split()[1:])[0]
    return found


def _refusal(model: ClusterModel, call: ProgramCall, options: Mapping[str, str]) -> str:
    faults = model.faults
    missing = [n for n in re.findall(r"[0-9]+", options.get("dependency", "")) if n not in model.jobs]
    if faults.refuses_kill_option and "kill-on-invalid-dep" in options:
        return "unrecognized option '--kill-on-invalid-dep=yes'"
    if faults.refuses_in_jobs and "SLURMD_NODENAME" in call.env:
        return "Batch job submission failed: Access/permission denied"
    if faults.submit_limit is not None and model.queued() >= faults.submit_limit:
        return (
            "AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS "
            "policy (job submit limit, user's size and/or time limits)"
        )
    if faults.unknown_dependency == "refused" and missing:
        return "Batch job submission failed: Job dependency problem"
    if options.get("partition") not in {None, "main", "low", "lowq", "high"}:
        return "Batch job submission failed: Invalid partition name specified"
    return ""


def _job(
    model: ClusterModel, call: ProgramCall, options: Mapping[str, str], words: Sequence[str], text: str
) -> FakeJob:
    kept = {"partition": options.get("partition", "main"), "dependency": options.get("dependency", "")}
    if "time" in options:
        kept["limit"] = str(parse_duration(options["time"], where="--time"))
    if "kill-on-invalid-dep" in options:
        kept["kill_invalid"] = options["kill-on-invalid-dep"]
    if "account" in options:
        kept["account"] = options["account"]
    kept["requeue"] = "1" if "requeue" in options else "0"
    if "output" in options:
        kept["output"] = options["output"]
    return FakeJob(
        id=str(model.next_id),
        name=options.get("job-name", Path(words[0]).name),
        comment=options.get("comment", ""),
        text=text,
        arguments=list(words[1:]),
        folder=str(Path(call.folder, options.get("chdir", "."))),
        environment={name: value for name, value in call.env.items() if name != "BASH_ENV"},
        options=kept,
        submitted_at=model.now,
    )


# ---------------------------------------------------------------- scancel, scontrol, sacctmgr


def _scancel(model: ClusterModel, call: ProgramCall) -> Completed:
    options, words = call.parsed()
    wanted = options.get("state", options.get("states"))
    for number in words:
        job = model.jobs.get(number)
        if job and job.active and wanted in {None, job.state}:
            model.end(number, "CANCELLED", author=job.uid)
    return Completed(0, "", "")


def _scontrol(model: ClusterModel, call: ProgramCall) -> Completed:
    _, words = call.parsed()
    match words:
        case ["show", "job", number]:
            text = next((_show(job, model.now) for job in model.in_queue() if job.id == number), None)
            if text is None:
                return failed("scontrol", "Invalid job id specified", head="slurm_load_jobs ")
        case ["show", "partition" | "partitions"]:
            rest = "Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=UNLIMITED State=UP"
            text = f"PartitionName=main AllowAccounts=ALL {rest} TotalNodes=4"
        case ["show", "hostnames", *names]:
            text = "\n".join(name for part in names for name in part.split(","))
        case ["requeue", number]:
            model.requeue(number)
            text = ""
        case _:
            return failed("scontrol", f"the fake cluster cannot {' '.join(words)}")
    return Completed(0, f"{text}\n" if text else "", "")


def _show(job: FakeJob, now: float) -> str:
    values = queue_values(job)
    running = dataclasses.replace(job, ended_at=now if job.active else job.ended_at)
    days, rest = divmod(running.as_run().elapsed, 86_400)
    run_time = f"{f'{days}-' if days else ''}{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    fields = {
        "JobId": job.id, "JobName": job.name, "UserId": f"{job.user}({job.uid})",
        "JobState": job.state, "Reason": job.reason,
        "Dependency": values["dependency"], "Requeue": values["requeue"], "Restarts": job.restarts,
        "RunTime": run_time,
        "ExitCode": f"{job.status}:{job.signal}", "SubmitTime": values["submittime"],
        "StartTime": values["starttime"], "EndTime": values["endtime"], "Partition": values["partition"],
        "WorkDir": job.folder, "Comment": job.comment,
    }  # fmt: skip
    return " ".join(f"{key}={value}" for key, value in fields.items())


def _sacctmgr(model: ClusterModel, call: ProgramCall) -> Completed:
    del call
    if model.faults.accounting != "on":
        return failed("sacctmgr", "Problem talking to the database")
    return Completed(0, "lab|||\n", "")


_PROGRAMS: dict[str, Callable[[ClusterModel, ProgramCall], Completed]] = {
    "sbatch": _sbatch,
    "squeue": squeue,
    "sacct": sacct,
    "scancel": _scancel,
    "scontrol": _scontrol,
    "sacctmgr": _sacctmgr,
}
PROGRAMS = tuple(_PROGRAMS)
