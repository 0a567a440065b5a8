"""Which checkpoint is the best, and when a training ends early: the same through any pause."""

from __future__ import annotations

import random

import pytest

from nemo_engines.metric_watch import MetricWatch
from nemo_engines.sections import EarlyEnd, Save

LOSSES = (3.0, 2.0, 1.995, 1.99, 2.5, 1.5, 1.6, 1.7, 1.8, 1.9)


def watch(**stopping: object) -> MetricWatch:
    return MetricWatch(
        Save(best_metric="val_loss", output="best"),
        EarlyEnd(metric="val_loss", **stopping),  # type: ignore[arg-type]
    )


def ended(watched: MetricWatch, losses: tuple[float, ...]) -> int | None:
    for number, loss in enumerate(losses, start=1):
        if watched.observe(10 * number, {"val_loss": loss}, saved=True):
            return 10 * number
    return None


@pytest.mark.parametrize(
    ("patience", "min_change", "stops", "best"),
    [(1, 0.0, 50, 40), (2, 0.0, 80, 60), (3, 0.0, 90, 60), (3, 0.01, 50, 40), (10, 0.0, None, 60)],
)
def test_it_ends_after_so_many_evaluations_that_are_not_better_by_enough(
    patience: int, min_change: float, stops: int | None, best: int
) -> None:
    watched = watch(patience=patience, min_change=min_change)
    assert ended(watched, LOSSES) == stops
    assert (watched.stopped_at, watched.best_step) == (stops, best)


def test_many_small_gains_add_up_to_one_that_is_enough() -> None:
    watched = watch(patience=3, min_change=0.25)
    assert ended(watched, tuple(4 - 0.1 * number for number in range(30))) is None


def test_the_highest_may_be_the_best() -> None:
    watched = MetricWatch(
        Save(best_metric="val_reward", best_is="highest"),
        EarlyEnd(metric="val_reward", best_is="highest", patience=2),
    )
    for step, reward in ((1, 0.1), (2, 0.4), (3, 0.4), (4, 0.2)):
        ends = watched.observe(step, {"val_reward": reward}, saved=True)
    assert ends
    assert (watched.best_step, watched.stopped_at) == (2, 4)


def test_what_is_restored_decides_as_what_was_never_interrupted() -> None:
    source = random.Random(7)
    for _ in range(200):
        losses = tuple(source.choice((1.0, 2.0, 3.0)) + source.random() / 10 for _ in range(12))
        settings = {"patience": source.randrange(1, 4), "min_change": source.choice((0.0, 0.05))}
        alone, broken = watch(**settings), watch(**settings)
        for step, loss in enumerate(losses, start=1):
            again = watch(**settings)
            assert again.restore(broken.state())
            broken = again
            saved = source.random() < 0.5
            ends = [one.observe(step, {"val_loss": loss}, saved=saved) for one in (alone, broken)]
            assert ends[0] == ends[1]
            assert alone.state() == broken.state()
            assert alone.fields() == broken.fields()
            if ends[0]:
                break


def test_only_an_evaluation_with_a_checkpoint_can_be_the_best() -> None:
    watched = watch(patience=9)
    watched.observe(1, {"val_loss": 2.0}, saved=True)
    watched.observe(2, {"val_loss": 1.0}, saved=False)
    assert (watched.best_step, watched.reference) == (1, 1.0)


def test_the_step_that_ends_it_is_saved_and_so_may_be_the_best() -> None:
    watched = watch(patience=1, min_change=0.5)
    watched.observe(1, {"val_loss": 2.0}, saved=True)
    assert watched.observe(2, {"val_loss": 1.9}, saved=False)
    assert watched.best_step == 2


def test_values_of_another_kind_and_what_is_no_number_count_for_nothing() -> None:
    watched = watch(patience=1)
    for values in ({"train_loss": 1.0}, {"val_loss": float("nan")}, {}):
        assert not watched.observe(1, values, saved=True)
    assert watched.state() == watch().state()
    assert not watch().restore(None)
