"""What the numbers of an engine mean where a job would train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_helix_server.customizer.dry_running import MachineCapacity, capacity_here, judged, machine_bytes

FOUND: dict[str, Any] = {
    "max_seq_length": 64,
    "processes": 2,
    "training": {"rows": 10, "shortened_lines": [], "left_out_lines": []},
    "sizes": {"rows": 10},
    "memory": {"total": 300, "lower_bound": 200},
    "saved": {"checkpoint": 100, "output": 50},
}


def verdicts(capacity: MachineCapacity, **changes: Any) -> list[tuple[str, str]]:
    return [(one.about, str(one.verdict)) for one in judged({**FOUND, **changes}, capacity, keep=2)]


@pytest.mark.parametrize(
    ("memory", "shared", "verdict"),
    [
        (600, True, "ok"),
        (599, True, "warning"),
        (400, True, "warning"),
        (399, True, "problem"),
        (300, False, "ok"),
        (299, False, "warning"),
        (199, False, "problem"),
        (None, False, "unknown"),
    ],
)
def test_only_what_cannot_fit_is_refused(memory: int | None, shared: bool, verdict: str) -> None:
    capacity = MachineCapacity(memory, shared=shared, disk=400)
    assert verdicts(capacity) == [("rows", "ok"), ("memory", verdict), ("disk", "ok")]


@pytest.mark.parametrize(("free", "verdict"), [(400, "ok"), (399, "problem"), (None, "unknown")])
def test_a_checkpoint_more_than_are_kept_and_the_model_twice_must_fit(free: int | None, verdict: str) -> None:
    assert verdicts(MachineCapacity(None, shared=False, disk=free))[-1] == ("disk", verdict)


def test_rows_that_are_cut_are_warned_of_and_none_at_all_is_a_problem() -> None:
    capacity = MachineCapacity(600, shared=True, disk=400)
    cut = {"rows": 10, "shortened_lines": [1, 2], "left_out_lines": [3]}
    assert verdicts(capacity, training=cut)[:2] == [("rows", "warning"), ("rows", "warning")]
    assert verdicts(capacity, sizes={"rows": 0})[0] == ("rows", "problem")


def test_of_several_gpus_the_smallest_counts(tmp_path: Any) -> None:
    assert capacity_here("cuda", tmp_path, [80, 40]).memory == 40
    assert capacity_here("cuda", tmp_path, []).memory is None
    here = capacity_here("cpu", tmp_path, [])
    assert here.shared
    assert (here.memory or 0) > 1 << 28
    assert (here.disk or 0) > 0


@pytest.mark.parametrize(
    ("name", "limit", "there"),
    [
        ("memory.max", "1073741824\n", 1 << 30),
        ("memory.max", "max\n", 8_000_000 * 1024),
        ("memory/memory.limit_in_bytes", "2147483648\n", 2 << 30),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", 8_000_000 * 1024),
        ("cpu.max", "100\n", 8_000_000 * 1024),
    ],
)
def test_a_container_has_the_memory_that_it_may_use(
    tmp_path: Path, name: str, limit: str, there: int
) -> None:
    memory, file = tmp_path / "meminfo", tmp_path / "groups" / name
    memory.write_text("MemTotal:        8000000 kB\nMemFree: 1 kB\n")
    file.parent.mkdir(parents=True)
    file.write_text(limit)
    assert machine_bytes(memory, tmp_path / "groups") == there


def test_memory_that_nobody_says_is_not_known(tmp_path: Path) -> None:
    assert machine_bytes(tmp_path / "meminfo") is None
