"""Results as values: what is shown, and what is asked of packages that may be missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import nemo_gym
from nemo_gym import errors
from nemo_gym.api.eval_results import EvalResult, EvalResults
from nemo_runs.drawn_tables import html_table


def result(benchmark: str, state: str = "unfinished") -> EvalResult:
    output = Path("/runs/rollouts.jsonl")
    return EvalResult(
        run="r1", benchmark=benchmark, state=state, detail="", output=output, model=None, summary=None
    )


def test_what_has_no_score_yet_is_shown_without_one() -> None:
    found = result("sums")
    assert repr(found) == "<EvalResult sums: no score, unfinished; /runs/rollouts.jsonl>"
    assert (found.score, found.interval, found.metrics) == (None, None, {})
    assert "<td>state</td><td>unfinished</td>" in found._repr_html_()


def test_results_are_a_sequence_that_knows_benchmarks() -> None:
    found = EvalResults([result("sums"), result("capitals"), result("sums")])
    assert (len(found), found[1].benchmark, found["capitals"]) == (3, "capitals", found[1])
    assert [one.benchmark for one in found[1:]] == ["capitals", "sums"]
    with pytest.raises(KeyError, match="2 results of the benchmark 'sums'"):
        found["sums"]
    assert "<th>BENCHMARK</th>" in found._repr_html_()


def test_markup_in_names_is_text() -> None:
    assert "<td>&lt;b&gt;</td>" in html_table(("A",), [["<b>"]], "all")
    assert html_table((), [["x"]]) == "<table><tbody><tr><td>x</td></tr></tbody></table>"


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_a_package_that_is_missing_is_named(
    package: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.GymError, match=f"`pip install {package}`"):
        getattr(result("sums"), method)()


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(errors.GymError, match="nowhere"):
        nemo_gym.results("nowhere")
    with pytest.raises(errors.UsageError, match="two runs or more"):
        nemo_gym.compare("out")
    assert len(nemo_gym.results()) == 0
    with pytest.raises(AttributeError, match="no attribute 'evaluate'"):
        nemo_gym.evaluate  # type: ignore[attr-defined]  # noqa: B018
