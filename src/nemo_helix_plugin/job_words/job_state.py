"""The state of a job, in words: progress, how long its storage is kept, reasons, warnings, what next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from nemo_helix_plugin.job_words import evaluating, times, trained_models
from nemo_helix_plugin.jobs.statuses import HelixJobStatus
from nemo_runs.durations import duration_in_words
from nemo_runs.sizes import size_in_words

Record = Mapping[str, Any]
_MINUTE = 60

_WITHOUT_WINDOW = frozenset(
    status for status in HelixJobStatus if status.is_final or status is HelixJobStatus.DELETION_PENDING
)
_FINAL = frozenset(status for status in HelixJobStatus if status.is_final)
_WITHOUT_PROGRESS = frozenset(
    status
    for status in HelixJobStatus
    if not status.reports_progress and status is not HelixJobStatus.RESUMING
)
_PLAIN = frozenset(status for status in HelixJobStatus if status.is_plain)
_WARNINGS = ("rerun_warning", "image_digest_warning", "image_digest_comparison_skipped")
TRACKERS: Mapping[str, str] = {"wandb": "W&B", "mlflow": "MLflow"}
_MOVES_FILES = frozenset({"downloading", "uploading"})
"""Phases whose progress is that of files; `progress_pct` is left from them afterwards."""
_REASONS = ("reason", "message", "error_message", "executor_problem", "queued_reason", "waiting_for")


def details(record: Record) -> Record:
    """The status details of a job, step or task; empty when there are none."""
    found = record.get("status_details")
    return found if isinstance(found, Mapping) else {}


def progress(found: Record) -> str:
    """``step 40 of 100 (40%), epoch 1 of 3``, or nothing when no progress is known."""
    moved = _of_files(found)
    if moved is not None:
        return f"{found['phase']} ({100 * moved:.0f}%)"
    parts = []
    step, last = found.get("step"), found.get("max_steps")
    if isinstance(step, int):
        parts.append(f"step {step} of {last}" if last else f"step {step}")
    percentage = fraction(found)
    if percentage is not None:
        text = f"{100 * percentage:.0f}%"
        parts = [f"{parts[0]} ({text})"] if parts else [text]
    epoch, epochs = found.get("epoch"), found.get("num_epochs")
    if isinstance(epoch, int | float) and isinstance(epochs, int | float) and epochs > 1:
        parts.append(f"epoch {epoch:.3g} of {epochs:.3g}")
    stops_at = found.get("stops_at")
    if isinstance(stops_at, int) and isinstance(step, int) and stops_at > step:
        parts.append(f"stops at step {stops_at}")
    return ", ".join(parts)


def fraction(found: Record) -> float | None:
    """How much is done, from 0 to 1; `None` when nobody said."""
    moved = _of_files(found)
    if moved is not None:
        return moved
    # of a training that has begun only its own progress counts
    keys = ("percentage_done",) if "step" in found else ("percentage_done", "progress_pct")
    for key in keys:
        value = _part(found.get(key))
        if value is not None:
            return value
    step, last = found.get("step"), found.get("max_steps")
    if isinstance(step, int) and isinstance(last, int) and last > 0:
        return min(1.0, max(0.0, step / last))
    return None


def _of_files(found: Record) -> float | None:
    """How much of its files a step has moved; `None` for one that does something else."""
    return _part(found.get("progress_pct")) if found.get("phase") in _MOVES_FILES else None


def _part(percentage: Any) -> float | None:
    if not isinstance(percentage, int | float) or isinstance(percentage, bool):
        return None
    return min(1.0, max(0.0, float(percentage) / 100))


def losses(found: Record) -> str:
    """The newest losses: ``train_loss 0.693, val_loss 0.701``."""
    named = [
        (name, value)
        for name, value in found.items()
        if name.endswith("_loss") and isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(named))


def speed(found: Record, *, going_on: bool = True) -> str:
    """``0.5 s a step, 1,200 tokens/s, lr 0.0001, 2.1 GB of memory, 5 min left``, as far as it is known.

    ``going_on``: whether the training runs, without which nothing is said of the time that is left.
    """
    step, left, tokens, rate, memory, limit = (
        _number(found.get(key))
        for key in (
            "step_seconds",
            "seconds_left",
            "tokens_per_second",
            "train_lr",
            "memory_bytes",
            "memory_limit_bytes",
        )
    )
    parts = []
    if step is not None:
        parts.append(f"{step:.3g} s a step" if step < _MINUTE else f"{duration_in_words(step)} a step")
    if tokens is not None:
        parts.append(f"{tokens:,.0f} tokens/s")
    if rate is not None:
        parts.append(f"lr {rate:.3g}")
    if memory is not None:
        of = f" of {size_in_words(limit)}" if limit is not None else " of memory"
        parts.append(f"{size_in_words(memory)}{of}")
    if left and going_on:
        parts.append(f"{duration_in_words(left)} left")
    return ", ".join(parts)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def goes_on(found: Record) -> str:
    """What a job does that has lost its place, or is about to leave it; nothing of any other."""
    waits, leaves = found.get("goes_on"), found.get("leaves_because")
    said = waits or (f"saves and leaves: {leaves}" if leaves else "")
    return " ".join(str(said).split())


_CHOSEN_BY = {
    "daly": "which costs least",
    "max_overhead": "the shortest that saves may have",
    "known_end": "in equal parts until its allocation ends",
}


def saves(found: Record) -> str:
    """How often a training saves that chooses that itself, and what it has chosen it from."""
    chosen = found.get("checkpoint_interval")
    if not isinstance(chosen, Mapping) or chosen.get("chosen_by") not in _CHOSEN_BY:
        return ""
    seconds, save, between = (
        _part_of(chosen.get(key)) for key in ("seconds", "save_seconds", "between_interruptions")
    )
    how = "measured" if chosen.get("save_measured") else "estimated"
    often = _measured(found) if chosen.get("interruptions_measured") else "presumed"
    return (
        f"every {seconds}, {_CHOSEN_BY[str(chosen['chosen_by'])]} (a save takes {save}, {how}; interrupted "
        f"every {between}, {often})"
    )


def _measured(found: Record) -> str:
    """What the time between interruptions was measured from, where the service has measured it."""
    expected = found.get("expected_interruptions")
    if not isinstance(expected, Mapping) or expected.get("basis") != "measured":
        return "measured"
    return (
        f"measured: {expected.get('interruptions_seen')} in {_part_of(expected.get('seconds_seen'))} "
        f"of {expected.get('place')}"
    )


def _part_of(seconds: Any) -> str:
    return duration_in_words(float(seconds)) if isinstance(seconds, int | float) else "?"


def kept(job: Record, now: datetime, *, brief: bool = False) -> str:
    """``kept until 2026-12-06 16:43 UTC, 6 d left``; nothing when no window runs."""
    reclaimed = times.parsed(details(job).get("storage_reclaimed_at") or job.get("storage_reclaimed_at"))
    if reclaimed:
        return "storage is gone" if brief else f"was deleted {times.minute(reclaimed)}"
    until = times.parsed(job.get("storage_expires_at"))
    if until is None:
        return ""
    left = (until - now).total_seconds()
    if left <= 0:
        return "storage is being deleted" if brief else f"kept until {times.minute(until)}; is being deleted"
    if brief:
        return f"kept {duration_in_words(left, units=1)} more"
    return f"kept until {times.minute(until)}, {duration_in_words(left)} left"


def windows(job: Record) -> str:
    """The windows that were set for this job and have not begun: ``14 d from a pause``."""
    found, status = job.get("control"), job.get("status")
    if not isinstance(found, Mapping) or status in _WITHOUT_WINDOW:
        return ""
    kinds = (("pause_ttl_seconds", "paused", "a pause"), ("failed_ttl_seconds", "error", "a failure"))
    return ", ".join(
        f"{duration_in_words(found[key])} from {event}"
        for key, running, event in kinds
        if isinstance(found.get(key), int) and not (status == running and job.get("storage_expires_at"))
    )


def failure(record: Record) -> str:
    """What went wrong, as the service or the workload said it; on one line."""
    found = record.get("error_details")
    if not isinstance(found, Mapping):
        return ""
    for key in ("message", "detail", "reason", "error", "type"):
        value = found.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())
    return ""


def last_log_line(record: Record) -> str:
    """The last line that the workload wrote before it failed, on one line."""
    found = record.get("error_details")
    value = found.get("detail") if isinstance(found, Mapping) and "message" in found else None
    return " ".join(value.split()) if isinstance(value, str) else ""


def advice(record: Record) -> str:
    """What to change, where the service knows it; a job whose storage is gone cannot be run again."""
    found = record.get("error_details")
    value = found.get("advice") if isinstance(found, Mapping) else None
    if not isinstance(value, str):
        return ""
    if is_reclaimed(record) and "`nemo jobs rerun" in value:
        return "its storage is deleted, so create a new job"
    return " ".join(value.split())


def is_reclaimed(job: Record) -> bool:
    """Whether its storage was deleted."""
    return bool(details(job).get("storage_reclaimed_at") or job.get("storage_reclaimed_at"))


def reason(record: Record) -> str:
    """Why it has its status, where somebody said; of a code such as ``pause_window_ended`` the words."""
    for source in (record, details(record)):
        for key in _REASONS:
            value = source.get(key)
            if isinstance(value, str) and value.strip():
                return " ".join(value.split() if " " in value else value.replace("_", " ").split())
    return ""


def warnings(record: Record) -> Iterator[str]:
    """Every warning in the status details that still matters, each on one line."""
    found, ended = details(record), record.get("status") in _FINAL
    for key in _WARNINGS:
        value = None if ended and key == "rerun_warning" else found.get(key)
        if isinstance(value, str) and value.strip():
            yield " ".join(value.split())
    for tracker, name in TRACKERS.items():
        value = found.get(f"{tracker}_warning")
        if isinstance(value, str) and value.strip():
            yield f"{name} is not updated: {' '.join(value.split())}"
    said = found.get("warnings")
    for one in said if isinstance(said, list | tuple) else ():
        yield " ".join(str(one).split())
    if failed := evaluating.failure(found):
        yield failed
    passed = found.get("passed_over")
    for one in passed if isinstance(passed, list | tuple) else ():
        yield f"a damaged checkpoint was passed over: {_damage(one)}"


def _damage(passed: Any) -> str:
    """What is wrong with a checkpoint: a sentence that names the file, or its parts."""
    if isinstance(passed, Mapping):
        return f"step {passed.get('step', '?')}: {passed.get('problem', '?')}"
    return " ".join(str(passed).split())


def runs(record: Record) -> Iterator[tuple[str, str]]:
    """The experiment trackers of a job, each with where its run is."""
    for tracker, name in TRACKERS.items():
        run = details(record).get(f"{tracker}_run")
        where = (run.get("url") or run.get("id")) if isinstance(run, Mapping) else None
        if isinstance(run, Mapping) and where:
            parts = [f"up to step {run['step']}"] if run.get("step") else []
            parts += [str(run["status"])] if run.get("status") else []
            yield name, f"{where} ({', '.join(parts)})" if parts else str(where)


def note(job: Record, now: datetime) -> str:
    """The one thing worth saying about a job in a list."""
    status = str(job.get("status"))
    if status == "error":
        return "; ".join(part for part in (failure(job) or reason(job), kept(job, now, brief=True)) if part)
    if status == "paused":
        return ", ".join(part for part in (kept(job, now, brief=True), progress(details(job))) if part)
    if status == "completed":
        return ""
    if status in _WITHOUT_PROGRESS:
        return reason(job)
    if waits := goes_on(details(job)):
        return waits
    return progress(details(job)) or reason(job)


def step_note(step: Record) -> str:
    """What is worth saying about a step beside its status."""
    said = goes_on(details(step)) or progress(_newest_task(step))
    if step.get("status") in _PLAIN:
        return ", ".join(part for part in (said, _place(step)) if part)
    return failure(step) or said or reason(step)


def _place(step: Record) -> str:
    """Where a step runs, such as ``job 4711 on n3``; empty on this machine, and once it has ended."""
    place = details(step).get("place")
    return str(place) if place and step.get("status") == "active" else ""


def _newest_task(step: Record) -> Record:
    """What the newest process of a step says of itself, beside what the step says."""
    tasks = step.get("tasks")
    newest = tasks[-1] if isinstance(tasks, list | tuple) and tasks else {}
    return {**details(newest), **details(step)}


def what_next(job: Record) -> str:
    """What the next command would do: a sentence's end such as ``goes on from its checkpoint of step 40``."""
    if job.get("status") != "error":
        return "resumes it"
    found = job.get("error_details")
    said = found.get("rerun") if isinstance(found, Mapping) else None
    return " ".join(said.split()) if isinstance(said, str) and said.strip() else "runs it again"


def _may_help(job: Record) -> bool:
    """Whether a rerun may get further with nothing changed before; older services do not say."""
    found = job.get("error_details")
    if not isinstance(found, Mapping):
        return True
    return found.get("rerun", "") is not None and not found.get("rerun_after_change")


def next_command(job: Record) -> str:
    """The command that a person would most likely give next; nothing when there is none."""
    verb = {
        "paused": "resume",
        "error": "rerun",
        "active": "watch",
        "queued": "watch",
        "pending": "watch",
    }.get(str(job.get("status")))
    if (
        verb is None
        or (is_reclaimed(job) and verb in {"resume", "rerun"})
        or (verb == "rerun" and not _may_help(job))
    ):
        return ""
    return _command(job, verb)


def _command(job: Record, verb: str) -> str:
    return f"nemo jobs {verb} {job.get('name') or ''} --workspace {job.get('workspace') or ''}"


def how_it_goes_on(job: Record) -> str:
    """What goes on with a job that has ended, and from where: a clause; nothing where nothing does."""
    command = next_command(job)
    if command:
        return f"`{command}` {what_next(job)}"
    if commands := trained_models.model_commands(job):
        return f"`{commands[0]}` talks to its model"
    helps = "" if is_reclaimed(job) else advice(job)
    # an advice to name a checkpoint has another command, which does not go on from the newest one
    return f"{helps}; the rerun {what_next(job)}" if f"`{_command(job, 'rerun')}`" in helps else helps
