"""Metrics of a job as a table, in sentences, and as charts."""

from __future__ import annotations

import pytest

from nemo_helix_plugin.job_words import charts, curves, text_chart
from nemo_helix_plugin.job_words.curves import Break, Curve

TRAIN = Curve("train_loss", (1, 2, 3, 4), (2.0, 1.0, 3.0, 1.5))
EVAL = Curve("val_loss", (2, 4), (2.5, 1.25))
RATE = Curve("learning_rate", (1, 2, 3, 4), (4e-4, 3e-4, 2e-4, 1e-4))


def job(**metrics: object) -> dict[str, object]:
    return {"status": "active", "status_details": {"metrics": metrics}}


def points(*values: object) -> list[dict[str, object]]:
    return [{"step": number, "epoch": 0.5, "value": value} for number, value in enumerate(values, start=1)]


def test_curves_have_their_numbers_in_the_order_of_steps_and_losses_come_first() -> None:
    late = [{"step": 3, "value": 1}, {"step": 1, "value": 2.5}]
    found = curves.curves_of(job(accuracy=points(0.5), train_loss=late, val_loss=[]))
    assert found == [Curve("train_loss", (1, 3), (2.5, 1.0)), Curve("accuracy", (1,), (0.5,))]


@pytest.mark.parametrize("value", [None, "0.5", True, [1], float("nan"), float("inf")])
def test_a_point_without_a_number_is_left_out(value: object) -> None:
    assert curves.curves_of(job(loss=points(1.0, value, 2.0))) == [Curve("loss", (1, 3), (1.0, 2.0))]


@pytest.mark.parametrize("metrics", [None, [], "x", {"loss": [None, 3, {"step": "one", "value": 1}]}])
def test_metrics_of_another_shape_are_no_curves(metrics: object) -> None:
    assert curves.curves_of({"status_details": {"metrics": metrics}}) == []
    assert curves.curves_of({"status_details": None}) == []


def test_a_pattern_chooses_metrics() -> None:
    whole = job(train_loss=points(1), val_loss=points(1), learning_rate=points(1))
    assert [curve.name for curve in curves.curves_of(whole, ["*rate", "val*"])] == [
        "val_loss",
        "learning_rate",
    ]


def test_a_row_has_every_metric_of_its_step() -> None:
    assert curves.rows([TRAIN, EVAL])[:2] == [
        {"step": 1, "train_loss": 2.0, "val_loss": None},
        {"step": 2, "train_loss": 1.0, "val_loss": 2.5},
    ]


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        (
            TRAIN,
            "train_loss fell from 2 at step 1 to 1.5 at step 4; lowest 1 at step 2, highest 3 at step 3.",
        ),
        (
            RATE,
            (
                "learning_rate fell from 0.0004 at step 1 to 0.0001 at step 4; lowest 0.0001 at step 4, "
                "highest 0.0004 at step 1."
            ),
        ),
        (Curve("x", (7,), (0.5,)), "x is 0.5 at step 7, its only point."),
    ],
)
def test_a_sentence_says_where_a_curve_began_its_extremes_and_where_it_is(curve: Curve, said: str) -> None:
    assert curve.sentence() == said


def start(
    attempt: int = 0, first: int | None = 0, last: int | None = None, end: str | None = None, **more: object
) -> dict[str, object]:
    line: dict[str, object] = {
        "attempt": attempt,
        "step": "training",
        "first_step": first,
        "last_step": last,
        "end": end,
    }
    return {**line, "kept_step": last, "began_at": "b", "ended_at": "e", "cause": None, **more}


def kinds(*lines: dict[str, object]) -> list[tuple[str, int, int]]:
    return [(mark.kind, mark.step, mark.attempt) for mark in curves.marks_of({"allocations": list(lines)})]


def test_each_stop_and_each_start_after_it_is_marked() -> None:
    assert kinds(
        start(last=40, end="paused"),
        start(first=40, last=70, end="interrupted", kept_step=60, cause="it was preempted"),
        start(first=60, last=75, end="failed", kept_step=70),
        start(attempt=1, first=70, last=100, end="completed"),
    ) == [
        ("paused", 40, 0),
        ("resumed", 40, 0),
        ("interrupted", 70, 0),
        ("went on", 60, 0),
        ("failed", 75, 0),
        ("rerun", 70, 1),
        ("completed", 100, 1),
    ]


def test_a_start_that_runs_goes_on_from_what_the_one_before_kept() -> None:
    running = start(first=None, end=None)
    assert kinds(start(last=40, end="paused"), running)[-1] == ("resumed", 40, 0)
    assert kinds(start(first=None, step="download", end="completed"), running) == []


def test_breaks_are_where_another_start_went_on_and_why() -> None:
    bill = {
        "allocations": [
            start(first=None, step="download", end="completed"),
            start(last=80, end="paused"),
            start(first=80, last=130, end="interrupted", cause="it was preempted"),
            start(first=120, last=140, end="failed", kept_step=100),
            start(attempt=1, first=100),
        ]
    }
    assert curves.breaks_of(bill) == [
        Break(80, "resumed after a pause"),
        Break(120, "went on after an interruption: it was preempted"),
        Break(100, "rerun as attempt 2"),
    ]


def test_of_a_step_only_its_last_value_counts() -> None:
    assert curves.curve_of("loss", [{"step": 2, "value": 1}, {"step": 2, "value": 4}]) == Curve(
        "loss", (2,), (4.0,)
    )


def text(*found: Curve, breaks: tuple[Break, ...] = (), **options: object) -> list[str]:
    chosen = {"width": 80, "height": 8, "color": False, **options}
    return list(text_chart.charts({"mine": found}, {"mine": breaks}, **chosen))  # type: ignore[arg-type]


def test_each_chart_is_followed_by_what_it_shows_and_the_breaks_come_last() -> None:
    first, second, third, last = text(TRAIN, EVAL, RATE, breaks=(Break(2, "resumed after a pause"),))
    assert "(loss)" in first
    assert first.endswith(f"\n\n{TRAIN.sentence()}")
    assert second.endswith(EVAL.sentence())
    assert "(learning_rate)" in third
    assert last == "at step 2: resumed after a pause"


def test_a_break_is_a_line_from_top_to_bottom() -> None:
    flat = Curve("loss", tuple(range(1, 101)), (1.0,) * 100)
    without, broken = (text(flat, breaks=ends)[0] for ends in ((), (Break(50, "resumed after a pause"),)))
    assert [drawn(chart) for chart in (without, broken)] == [1, 8]


def drawn(chart: str) -> int:
    """How many lines of a chart have any dot of Braille."""
    return sum(any("\u2800" < character <= "\u28ff" for character in line) for line in chart.splitlines())


def test_with_colours_curves_of_one_quantity_share_a_chart() -> None:
    losses, rates = text(TRAIN, EVAL, RATE, color=True)
    assert "train_loss" in losses
    assert losses.endswith(f"{TRAIN.sentence()}\n{EVAL.sentence()}")
    assert rates.endswith(RATE.sentence())


def test_several_jobs_share_a_chart_and_are_named() -> None:
    found = {"one": [TRAIN], "other": [EVAL]}
    breaks = {"other": [Break(2, "rerun as attempt 2")]}
    chart, ends = text_chart.charts(found, breaks, width=90, height=8, color=True)
    assert f"one: {TRAIN.sentence()}\nother: {EVAL.sentence()}" in chart
    assert ends == "other: at step 2: rerun as attempt 2"


@pytest.mark.parametrize("options", [{"unicode": False}, {"width": 40}])
def test_a_terminal_that_cannot_show_a_chart_gets_the_sentences(options: dict[str, object]) -> None:
    assert text(TRAIN, **options) == [TRAIN.sentence()]


@pytest.mark.parametrize(
    "curve",
    [Curve("loss", (5,), (1.0,)), Curve("loss", (1, 2), (0.0, 0.0)), Curve("loss", (1, 2), (1e300, -1e300))],
)
def test_one_point_a_flat_curve_and_huge_values_can_be_drawn(curve: Curve) -> None:
    assert curve.sentence() in text(curve)[0]


@pytest.mark.slow
def test_a_figure_has_a_chart_for_each_quantity_with_its_breaks() -> None:
    made = charts.figure("mine", [RATE, TRAIN, EVAL], [Break(2, "x")], width=7, height=2)
    losses, rates = made.axes
    assert [axis.get_ylabel() for axis in made.axes] == ["loss", "learning_rate"]
    assert [line.get_label() for line in losses.lines[:2]] == ["train_loss", "val_loss"]
    assert list(rates.lines[0].get_ydata()) == list(RATE.values)
    assert list(losses.lines[2].get_xdata()) == [2, 2]
    made.canvas.draw()
