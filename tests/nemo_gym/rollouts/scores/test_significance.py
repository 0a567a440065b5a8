"""P-values of paired differences, and their correction."""

import math

import pytest

from nemo_gym.rollouts.scores.compare import pair
from nemo_gym.rollouts.scores.significance import holm, p_value


def test_the_p_value_is_that_of_a_paired_t_test() -> None:
    # scipy.stats.ttest_rel([1, 0, 1, 1, 0.5], [0, 0, 0, 1, 0]).pvalue
    found = p_value(pair([(0.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.5)]))
    assert found == pytest.approx(0.08900934, abs=1e-6)


@pytest.mark.parametrize(
    ("means", "p"),
    [
        ([(0.0, 0.0)] * 9, 1.0),
        ([(0.0, 1.0)] * 9, 2 / 2**9),
        ([(0.0, 1.0)], 1.0),
        ([(0.0, 1.0), (1.0, 0.0)], 1.0),
    ],
)
def test_differences_without_spread_claim_no_more_than_their_number_shows(
    means: list[tuple[float, float]], p: float
) -> None:
    assert p_value(pair(means)) == p


@pytest.mark.parametrize(
    ("values", "adjusted"),
    [
        ([], []),
        ([0.01], [0.01]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(…, "holm")
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_p_values_are_corrected_as_holm_does(values: list[float], adjusted: list[float]) -> None:
    found = holm(values)
    assert all(math.isclose(one, other) for one, other in zip(found, adjusted, strict=True))
