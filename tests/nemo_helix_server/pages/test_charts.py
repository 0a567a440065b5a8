"""Charts of series that run through pauses, resumes and reruns."""

import math

from nemo_helix_server.pages import charts


def points(*pairs):
    return [{"step": step, "epoch": None, "value": value} for step, value in pairs]


def test_series_of_a_kind_share_a_chart_and_each_has_a_sentence():
    series = {
        "val_loss": points((10, 0.9), (20, 0.5)),
        "train_loss": points((1, 2.0), (10, 3.0), (20, 1.0)),
        "lr": points((1, 0.1)),
        "grad_norm": points((1, 1.0), (2, 1.0)),
        "empty": [],
    }
    found = charts.charts_of(series, ())
    assert [chart.title for chart in found] == ["Loss", "Learning rate", "grad norm"]
    loss = found[0]
    assert (loss.names, loss.steps) == (("train loss", "val loss"), (1, 10, 20))
    assert loss.values == ((2.0, 3.0, 1.0), (None, 0.9, 0.5))
    assert loss.sentences[0] == (
        "train loss fell from 2 at step 1 to 1 at step 20; lowest 1 at step 20, highest 3 at step 10."
    )
    assert found[1].sentences == ("lr is 0.1 at step 1, its only point.",)
    assert "stayed" in found[2].sentences[0]


def test_what_is_no_number_is_left_out_and_each_step_is_there_once():
    broken = [*points((3, math.nan), (1, math.inf), (2, 1.0), (2, 4.0)), {"step": "x", "value": 1}]
    assert charts.charts_of({"loss": broken}, ())[0].values == ((4.0,),)
    assert charts.charts_of(None, ()) == []


def test_a_long_series_is_thinned_and_keeps_its_peaks():
    values = [(step, 0.0) for step in range(100_000)]
    values[51_234], values[60_000] = (51_234, 9.0), (60_000, -9.0)
    chart = charts.charts_of({"loss": points(*values)}, ())[0]
    assert len(chart.steps) <= charts.MOST_POINTS
    assert {9.0, -9.0} <= set(chart.values[0])
    assert (chart.steps[0], chart.steps[-1]) == (0, 99_999)
    assert len(chart.table()) == charts.MOST_ROWS


def test_a_score_shares_its_chart_with_its_interval():
    series = {f"eval_sums{end}": points((10, 0.5), (20, 0.6)) for end in ("", "_low", "_high")}
    found = charts.charts_of({**series, "train_loss": points((1, 2.0))}, ())
    assert [chart.title for chart in found] == ["Loss", "Score of sums"]
    assert found[1].names == ("eval sums", "eval sums high", "eval sums low")
