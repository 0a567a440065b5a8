"""Rows of the page Runs as tests and measurements show them."""

from __future__ import annotations

import math
import random

from nemo_pages.runs.rows import Measure, RunCost, RunKind, RunProgress, RunRow, StateGroup

NOW = 1_800_000_000.0
"""UTC seconds of the newest row."""


def some_rows() -> list[RunRow]:
    """One row of each kind of state, hostile text among them."""
    job_curve = tuple(2.4 * math.exp(-at / 18) + 0.31 + 0.05 * math.sin(at) for at in range(60))
    return [
        row(
            "arithmetic",
            StateGroup.RUNNING,
            "running",
            progress=RunProgress(done=612, total=1000, unit="rollouts", left_s=1260),
            measure=Measure(name="mean reward", value=0.712, low=0.676, high=0.746),
            cost=RunCost(amount=3.4, unit="GPU h"),
            values={"model": "Qwen/Qwen3-8B", "temperature": 0.7, "jobs": 3},
            tags=("team=eval", "nightly"),
        ),
        row(
            "gpqa",
            StateGroup.WAITING,
            "queued",
            reason="Priority: 41 jobs are before it; Slurm expects to start it at 16:40",
            progress=RunProgress(done=120, total=448, unit="rollouts", left_s=9300),
            measure=Measure(name="mean reward", value=0.425, low=0.337, high=0.513),
            values={"model": "Qwen/Qwen3-8B", "temperature": 0.7, "jobs": 2},
            tags=("team=eval",),
        ),
        row(
            "support-tone-dpo",
            StateGroup.RUNNING,
            "active",
            kind=RunKind.JOB,
            progress=RunProgress(done=840, total=1500, unit="steps", left_s=5400),
            measure=Measure(name="train loss", value=0.412),
            curve=job_curve,
            cost=RunCost(amount=11.25, unit="GPU h"),
            values={"learning_rate": 3e-5, "model": "meta/llama-3.2-1b"},
        ),
        row(
            "support-tone-sft",
            StateGroup.PAUSED,
            "paused",
            kind=RunKind.JOB,
            reason="Paused by ann at step 300; its checkpoint is verified and kept for 6 d",
            progress=RunProgress(done=300, total=1500, unit="steps"),
            measure=Measure(name="train loss", value=0.981),
            curve=job_curve[:20],
            values={"learning_rate": 1e-4, "model": "meta/llama-3.2-1b"},
        ),
        row(
            "humaneval",
            StateGroup.FAILED,
            "failed",
            reason="The model server ended three times in a row: CUDA out of memory; nothing follows it",
            progress=RunProgress(done=31, total=164, unit="rollouts"),
        ),
        row(
            "ifeval",
            StateGroup.UNKNOWN,
            "unknown",
            seen_at=NOW - 5400,
            silent="ssh: connect to host login2 port 22: Connection timed out",
            progress=RunProgress(done=200, total=541, unit="rollouts"),
        ),
        row(
            "math_500",
            StateGroup.SUCCEEDED,
            "succeeded",
            progress=RunProgress(done=500, total=500, unit="rollouts"),
            measure=Measure(name="mean reward", value=0.834, low=0.799, high=0.864),
            cost=RunCost(amount=0.62, unit="GPU h"),
            tags=("baseline",),
            values={"model": "Qwen/Qwen3-8B", "jobs": 1},
        ),
        row(
            '<script>alert("x")</script>\u202ecod.exe\x1b[31m',
            StateGroup.ENDED,
            "cancelled",
            reason="cancelled by <b>bob</b>" + " and a very long reason" * 40,
            note="a note with a tab\tand a bell\x07",
        ),
    ]


def row(
    name: str, group: StateGroup, state: str, kind: RunKind = RunKind.EVALUATION, **values: object
) -> RunRow:
    """A row with the parts that every row has."""
    number = sum(map(ord, name))
    run = (
        f"gym-job-20270115T0{number % 10}1500Z-{number:06x}"
        if kind is RunKind.EVALUATION
        else f"default/{name}"
    )
    path = f"/evaluations/{run}" if kind is RunKind.EVALUATION else f"/jobs/{run}"
    submitted = values.pop("submitted_at", NOW - 60 * (number % 4000))
    return RunRow(
        key=f"{kind}/{run}/{name}",
        kind=kind,
        name=name,
        path=path,
        run=run,
        state=state,
        group=group,
        submitted_at=submitted,  # type: ignore[arg-type]
        **values,  # type: ignore[arg-type]
    )


def many_rows(number: int) -> list[RunRow]:
    """Rows of all states with values, the same ones each time."""
    dice = random.Random(7)
    groups = list(StateGroup)
    return [
        row(
            f"job-{at:06}",
            (group := dice.choice(groups)),
            str(group),
            kind=RunKind.JOB if at % 3 else RunKind.EVALUATION,
            submitted_at=NOW - at * 37.0,
            reason="waits for a free GPU" if group is StateGroup.WAITING else "",
            progress=RunProgress(done=dice.randrange(1000), total=1000, unit="steps", left_s=600),
            measure=Measure(name="train loss", value=dice.random()),
            curve=tuple(dice.random() for _ in range(30)),
            cost=RunCost(amount=dice.random() * 20, unit="GPU h"),
            tags=(f"team={'abcdef'[at % 6]}",),
            values={"learning_rate": 10 ** -dice.uniform(3, 6), "model": f"model-{at % 17}"},
        )
        for at in range(number)
    ]
