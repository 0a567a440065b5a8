"""A job tried without a job: what the engine says of it, and whether this machine has what it takes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_runs import findings
from nemo_runs.counts import counted
from nemo_runs.durable import disk
from nemo_runs.findings import Finding
from nemo_runs.sizes import size_in_words

Document = dict[str, Any]
SPEEDS: Final = 10
"""So many of the newest trainings with a known speed are enough."""
_MEMORY: Final = Path("/proc/meminfo")
_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")
"""Of the container or the service's unit, below ``/sys/fs/cgroup``: version 2 of control groups, and 1."""


@dataclass(frozen=True, slots=True)
class MachineCapacity:
    """What there is where a training will run; `None` where that is not known from here."""

    memory: int | None
    """Bytes of the device: of the smallest GPU, or of the whole machine."""
    shared: bool
    """Whether all processes of the training share that memory."""
    disk: int | None
    """Free bytes where jobs keep their files."""


def capacity_here(device: str, folder: Path, gpu_bytes: Sequence[int]) -> MachineCapacity:
    """The capacity of the service's own machine."""
    free = disk.free_bytes(folder)
    if device == "cuda":
        return MachineCapacity(min(gpu_bytes, default=None), shared=False, disk=free)
    return MachineCapacity(machine_bytes(), shared=True, disk=free)


def judged(found: Mapping[str, Any], capacity: MachineCapacity, keep: int) -> Iterator[Finding]:
    """What the numbers of an engine mean for a capacity: only what cannot be is a problem."""
    yield from _of_rows(found)
    yield from _of_memory(found, capacity)
    yield _of_disk(found, capacity, keep)


def _of_rows(found: Mapping[str, Any]) -> Iterator[Finding]:
    sets, overlong = [found["training"], *found.get("beside", ())], found.get("overlong", "truncate")
    if not found["sizes"]["rows"]:
        rows = counted(sum(facts["rows"] for facts in sets), "row")
        yield findings.problem("rows", f"nothing is learned of any of {rows}; `preview` shows why")
        return
    for facts in sets:
        yield from _of_file(facts, found["max_seq_length"], overlong, several=len(sets) > 1)


def _of_file(facts: Mapping[str, Any], longest: int, overlong: str, *, several: bool) -> Iterator[Finding]:
    where = f"{facts['file']}: " if several else ""
    rows, shortened, left_out = facts["rows"], facts["shortened_lines"], facts["left_out_lines"]
    if overlong == "error" and (shortened or left_out):
        text = f"{len(shortened) + len(left_out)} of {counted(rows, 'row')} are longer than max_seq_length"
        yield findings.problem("rows", f"{where}{text} {longest}, and overlong is 'error'")
        return
    dropped = "are left out" if overlong == "drop" else "are left out, with nothing to learn"
    for lines, what in ((shortened, "lose their end"), (left_out, dropped)):
        if lines:
            text = f"{where}{len(lines)} of {counted(rows, 'row')} {what} at max_seq_length"
            yield findings.warning("rows", f"{text} {longest}")
    if not shortened and not left_out:
        yield findings.ok("rows", f"{where}{counted(rows, 'row')}, none of them cut")


def _of_memory(found: Mapping[str, Any], capacity: MachineCapacity) -> Iterator[Finding]:
    processes = found["processes"] if capacity.shared else 1
    total, least = found["memory"]["total"] * processes, found["memory"]["lower_bound"] * processes
    what = "the machine" if capacity.shared else "a GPU"
    if capacity.memory is None:
        yield findings.unknown(
            "memory", f"about {size_in_words(total)} are needed; what there is is not known"
        )
        return
    there = size_in_words(capacity.memory)
    remedy = "train adapters (LoRA), a smaller model or with fewer processes"
    if least > capacity.memory:
        text = (
            f"at least {size_in_words(least)} are needed, whatever the rows, and {what} has {there}: {remedy}"
        )
        yield findings.problem("memory", text)
    elif total > capacity.memory:
        text = (
            f"about {size_in_words(total)} are needed, and {what} has {there}: shorten max_seq_length or the"
        )
        yield findings.warning("memory", f"{text} micro-batch, or switch activation checkpointing on")
    else:
        yield findings.ok("memory", f"about {size_in_words(total)} of the {there} that {what} has")


def _of_disk(found: Mapping[str, Any], capacity: MachineCapacity, keep: int) -> Finding:
    saved = found["saved"]
    # one more checkpoint is written before the oldest goes; the model is in the job's folder and uploaded
    needed = saved["checkpoint"] * (keep + 1) + 2 * saved["output"]
    words = f"{size_in_words(needed)} for {counted(keep + 1, 'checkpoint')} and the trained model"
    if capacity.disk is None:
        return findings.unknown("disk", f"{words}; what is free where it trains is not known")
    if needed > capacity.disk:
        return findings.problem("disk", f"{words}, and {size_in_words(capacity.disk)} are free")
    return findings.ok("disk", f"{words} of {size_in_words(capacity.disk)} that are free")


def machine_bytes(memory: Path = _MEMORY, groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of memory that processes of this machine may use: all of it, or less in a container."""
    try:
        lines = memory.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal")]
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int((groups / name).read_text(encoding="ascii")))
    return min(found, default=None)
