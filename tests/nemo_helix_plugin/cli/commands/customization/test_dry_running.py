"""What a dry run prints for people."""

from __future__ import annotations

from typing import Any

from nemo_helix_plugin.cli.commands.customization.dry_running import shown

ESTIMATE: dict[str, Any] = {
    "method": "dpo",
    "precision": "fp32",
    "processes": 2,
    "parameters": 1000,
    "trained_parameters": 10,
    "sizes": {"rows": 100, "mean_tokens": 20.4, "longest_tokens": 31, "rows_per_step": 8, "steps": 1300},
    "memory": {
        "weights": 4000,
        "gradients": 40,
        "optimizer": 80,
        "activations": 7000,
        "workspace": 500,
        "total": 11620,
        "lower_bound": 4120,
    },
    "seconds": {"shortest": 3600, "longest": 7260, "measured_on": 2},
    "saved": {"checkpoint": 120, "output": 40},
}
FOUND = {
    "engine": "trl",
    "device": "cpu",
    "findings": [{"verdict": "warning", "about": "memory", "text": "little"}],
}


def test_findings_come_first_and_numbers_have_units() -> None:
    assert list(shown({**FOUND, "estimate": ESTIMATE})) == [
        "warning  memory: little",
        "",
        "dpo with trl on cpu, fp32",
        "  model   10 of 1,000 parameters are trained",
        "  rows    100 rows, 20 tokens each on average, 31 at most",
        "  steps   1,300 steps of 8 rows",
        "  memory  about 11.6 kB on each device, at least 4.12 kB",
        "    weights         4 kB",
        "    gradients       40 B",
        "    optimizer       80 B",
        "    activations     7 kB",
        "    workspace      500 B",
        "  time    1 h to 2 h 1 min, by the speed of 2 earlier trainings",
        "  saved   120 B a checkpoint, 40 B at the end",
    ]


def test_what_nobody_has_measured_is_a_range_and_says_so() -> None:
    seconds = {"shortest": 60, "longest": 6000, "measured_on": 0}
    line = next(
        line for line in shown({**FOUND, "estimate": {**ESTIMATE, "seconds": seconds}}) if "time" in line
    )
    assert line == (
        "  time    1 min to 1 h 40 min: no training with this engine and device has been measured here yet"
    )


def test_without_numbers_there_are_findings_alone() -> None:
    assert list(shown({**FOUND, "estimate": None})) == ["warning  memory: little"]
