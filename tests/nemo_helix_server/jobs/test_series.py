from __future__ import annotations

from nemo_helix_server.jobs import series

POINTS = [{"step": 1, "epoch": None, "value": 0.5}]


def test_only_the_series_that_were_asked_for_are_shown() -> None:
    points = dict.fromkeys(("train_loss", "train_lr", "gpu_temperature"), POINTS)
    shown = series.shown(points, series.DEFAULT_GLOBS)
    assert shown is not None
    assert sorted(shown) == ["train_loss", "train_lr", "val_loss"]
    assert series.shown(points, ["*"]) == {
        **shown,
        "gpu_temperature": POINTS,
    }


def test_nothing_is_shown_where_there_is_nothing() -> None:
    assert series.shown({}, ["*"]) is None


def test_series_that_a_workload_reported_itself_are_kept_and_ours_win() -> None:
    shown = series.shown({"a_loss": POINTS}, ["*"], {"a_loss": [], "b": [{"step": 1}]})
    assert shown is not None
    assert (len(shown["a_loss"]), shown["b"]) == (1, [{"step": 1}])
