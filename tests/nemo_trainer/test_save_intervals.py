import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_trainer.save_intervals import ChosenInterval, IntervalInputs, choose, daly
from nemo_trainer.saving import SavePolicy, SaveTimes

DAY = 86_400.0


def inputs(save=30.0, between=DAY, left=None, cap=0.02):
    return IntervalInputs(
        save_seconds=save,
        save_measured=True,
        between_interruptions=between,
        interruptions_measured=True,
        left_seconds=left,
        max_overhead=cap,
    )


def true_cost(tau, delta, mean):
    """Daly's model of the time that a run takes, beside its own: interruptions may hit saves and repeats."""
    return mean * (math.exp((tau + delta) / mean) - 1) / tau


@pytest.mark.parametrize(("delta", "mean"), [(1, DAY), (30, DAY), (300, 4 * 3600), (600, 3600), (60, 600)])
def test_no_other_interval_costs_less_than_dalys_by_more_than_a_thousandth(delta, mean):
    ours = true_cost(daly(delta, mean), delta, mean)
    best = min(true_cost(tau, delta, mean) for tau in (mean * k / 2000 for k in range(1, 6000)))
    assert ours <= best * 1.001


def test_it_is_better_than_youngs_where_saves_are_long():
    young = math.sqrt(2 * 600 * 3600)
    assert true_cost(daly(600, 3600), 600, 3600) < true_cost(young, 600, 3600)


def test_where_a_save_takes_longer_than_training_lasts_it_is_the_mean():
    assert daly(100, 50) == 50
    assert daly(120, 50) == 50


@pytest.mark.parametrize(("save", "by"), [(1.0, "daly"), (30.0, "daly"), (300.0, "max_overhead")])
def test_saves_take_at_most_their_share(save, by):
    chosen = choose(inputs(save))
    assert chosen.chosen_by == by
    assert save / (chosen.seconds + save) <= 0.02 + 1e-9


def test_more_interruptions_mean_more_saves_and_a_larger_share_allows_them():
    assert choose(inputs(between=3600, cap=0.5)).seconds < choose(inputs(cap=0.5)).seconds
    assert choose(inputs(between=3600, cap=0.5)).seconds < choose(inputs(between=3600)).seconds


def test_whole_intervals_lead_up_to_the_known_end():
    alone = choose(inputs()).seconds
    chosen = choose(inputs(left=8 * 3600))
    parts = 8 * 3600 / (chosen.seconds + 30)
    assert chosen.chosen_by == "known_end"
    assert parts == pytest.approx(round(parts))
    assert 0.5 * alone < chosen.seconds < 1.5 * alone


def test_nothing_is_saved_in_between_where_the_end_is_near():
    chosen = choose(inputs(left=600))
    assert chosen.seconds == 600


@given(
    st.floats(0.01, 3000), st.floats(60, 1e7), st.one_of(st.none(), st.floats(0, 1e6)), st.floats(0.001, 0.9)
)
def test_every_choice_is_an_interval_that_keeps_to_the_share(save, between, left, cap):
    chosen = choose(inputs(save, between, left, cap))
    assert math.isfinite(chosen.seconds)
    assert chosen.seconds > 0
    assert 0 <= chosen.expected_cost <= 1
    if chosen.seconds != left:
        assert save / (chosen.seconds + save) <= cap * (1 + 1e-9)


@pytest.mark.parametrize(
    "given", [{"save": 0.0}, {"save": -1.0}, {"between": 0.0}, {"cap": 0.0}, {"save": math.inf}]
)
def test_an_interval_is_not_chosen_from_a_time_of_nothing(given):
    with pytest.raises(ValueError, match="must be a number above 0, not"):
        inputs(**given)


def test_the_choice_shows_all_that_it_was_made_from():
    shown = choose(inputs(left=7200)).to_json()
    assert shown["chosen_by"] == "known_end"
    assert {"seconds", "expected_cost", "save_seconds", "save_measured", "between_interruptions"} < set(shown)
    assert shown["left_seconds"] == 7200


def test_a_policy_that_chooses_goes_on_counting_from_the_last_save():
    policy = SavePolicy(max_overhead=0.02)
    policy.start(0, 0.0)
    assert not policy.due(1, 899.0)
    policy.choose(inputs(save=0.1))
    assert isinstance(policy.chosen, ChosenInterval)
    assert policy.seconds == pytest.approx(131, abs=1)
    assert policy.due(1, 132.0)
    policy.saved(1, 132.0)
    assert not policy.due(2, 200.0)


class TestSaveTimes:
    def test_before_the_first_save_it_is_the_size_or_a_minute(self):
        times = SaveTimes()
        assert (times.seconds, times.measured) == (60.0, False)
        times.expect(20_000_000_000)
        assert times.seconds == 200.0
        times.expect(1000)
        assert times.seconds == 5.0

    def test_afterwards_the_longest_of_the_last_three(self):
        times = SaveTimes()
        for seconds in (50.0, 3.0, 4.0, 2.0):
            times.saved(seconds, 10)
        assert (times.seconds, times.measured) == (4.0, True)

    def test_an_earlier_start_has_measured_it(self):
        earlier = SaveTimes()
        earlier.saved(7.0, 10)
        assert SaveTimes(earlier.to_json()).seconds == 7.0

    def test_a_save_that_took_nothing_by_the_clock_took_a_thousandth(self):
        quick = SaveTimes()
        quick.saved(0.0, 10)
        for times in (quick, SaveTimes(quick.to_json()), SaveTimes({"measured": True, "seconds": 0})):
            assert (times.seconds, times.measured) == (0.001, True)
            assert choose(inputs(times.seconds, left=60.0)).seconds > 0

    @pytest.mark.parametrize(
        "said",
        [
            {"measured": True, "seconds": math.inf},
            None,
            [],
            "x",
            {"seconds": 3.0},
            {"measured": True, "seconds": "3"},
        ],
    )
    def test_what_is_no_measurement_is_not_taken_for_one(self, said):
        assert not SaveTimes(said).measured
