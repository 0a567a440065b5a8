"""Every allocated millisecond has one owner: rules by example, sums by many random links."""

import random
from dataclasses import replace

import pytest

from nemo_gym.orchestration.results import bill
from nemo_gym.orchestration.results.bill import (
    OWNERS,
    Bill,
    BilledLink,
    InFlightCounts,
    bill_links,
    savings,
    segments,
)

S = 1000


def in_flight(start: int, *spans: tuple[float, float]) -> InFlightCounts:
    made = InFlightCounts(start)
    for begin, end in spans:
        made.add(round(begin * S), round(end * S))
    return made


def link(end: float, start: float = 0, **changes: float | bool | None) -> BilledLink:
    moments = {"loading", "driver", "driver_ended", "stop_asked", "charged"}
    values = {
        key: round(value * S) if key in moments and value is not None else value
        for key, value in changes.items()
    }
    return BilledLink(name="7.0", start=round(start * S), end=round(end * S), **values)  # type: ignore[arg-type]


def seconds(
    one: BilledLink, kept: InFlightCounts | None = None, lost: InFlightCounts | None = None
) -> dict[str, float]:
    """Owner -> seconds, those that own nothing left out."""
    (billed,) = bill_links(
        [one], None, [kept or InFlightCounts(one.start)], [lost or InFlightCounts(one.start)]
    )
    return {owner: ms / S for owner, ms in billed.owners.items() if ms}


def test_a_link_that_ran_to_its_end_is_installed_loaded_useful_and_idle():
    one = link(100, loading=5, driver=20, driver_ended=90)
    found = seconds(one, in_flight(0, (22, 50), (50, 80)))
    assert found == {"install": 5, "load": 17, "useful": 58, "idle": 20}


def test_what_was_in_flight_when_a_link_was_killed_is_repeated():
    spans = [(10 + slot, 50 + slot) for slot in range(4)]
    found = seconds(link(80, driver=10), in_flight(0, *spans))
    assert found == {"install": 10, "useful": 42, "repeated": 28}


def test_a_link_that_recorded_nothing_before_it_was_killed_is_repeated_whole():
    assert seconds(link(60, loading=2, driver=10)) == {"install": 2, "load": 8, "repeated": 50}


def test_slots_that_run_empty_after_a_stop_was_asked_are_a_drained_tail():
    one = link(71, driver=0, driver_ended=70, stop_asked=40)
    found = seconds(one, in_flight(0, (0, 44), (0, 44), (0, 60), (0, 45)))
    assert found == {"useful": 45, "drained_tail": 25, "idle": 1}


def test_attempts_that_fail_are_repeated_only_where_they_outnumber_what_is_kept():
    one = link(40, driver=0, driver_ended=40)
    found = seconds(one, in_flight(0, (0, 20)), in_flight(0, (5, 10), (20, 30), (20, 30)))
    assert found == {"useful": 20, "repeated": 10, "idle": 10}


def test_a_service_that_never_became_healthy_is_load_and_a_refused_prologue_is_install():
    assert seconds(link(600, loading=30)) == {"install": 30, "load": 570}
    assert seconds(link(3)) == {"install": 3}


@pytest.mark.parametrize(
    ("status", "owner"), [(0, "useful"), (75, "useful"), (3, "repeated"), (None, "repeated")]
)
def test_a_command_of_the_users_is_judged_by_how_it_ended(status: int | None, owner: str):
    one = link(50, driver=10, driver_ended=None if status is None else 50, driver_status=status, opaque=True)
    assert seconds(one) == {"install": 10, owner: 40}


def test_what_still_runs_is_useful_up_to_its_last_sign_of_life():
    found = seconds(link(30, driver=0, ended=False), in_flight(0, (5, 20)))
    assert found == {"load": 5, "useful": 25}


def test_what_the_scheduler_counts_beyond_what_was_seen_is_idle():
    one = link(100, driver=0, driver_ended=100, charged=105)
    assert seconds(one, in_flight(0, (0, 100))) == {"useful": 100, "idle": 5}


@pytest.mark.parametrize("charged", [99_000, 100_000])
def test_a_count_in_whole_seconds_does_not_round_what_was_seen(charged: int):
    one = BilledLink(name="1.0", start=0, end=99_400, driver=0, driver_ended=99_400, charged=charged)
    (billed,) = bill_links([one], None, [in_flight(0, (0, 99.4))], [InFlightCounts(0)])
    assert billed.owners == {**dict.fromkeys(OWNERS, 0), "useful": 99_400}


def test_two_hours_of_suspension_are_not_billed():
    one = link(8200, driver=0, driver_ended=1000, charged=1000)
    assert seconds(one, in_flight(0, (0, 1000))) == {"useful": 1000}


def test_waiting_lies_between_links_and_is_not_allocated():
    links = [link(100, start=60), link(200, start=130), link(300, start=190)]
    none = [InFlightCounts(one.start) for one in links]
    assert [one.queue for one in bill_links(links, 50_000, none, none)] == [10_000, 30_000, 0]


def random_link(rng: random.Random) -> tuple[BilledLink, InFlightCounts, InFlightCounts]:
    """Moments in any order, also nonsensical ones; flights that begin early and end late."""
    start = rng.randrange(10**12, 2 * 10**12)
    end = start + rng.choice([0, 1, rng.randrange(200_000)])

    def moment() -> int | None:
        return rng.choice([None, rng.randrange(start - 5000, end + 5001)])

    one = BilledLink(
        name="1.0",
        start=start,
        end=end,
        ended=rng.random() < 0.8,
        charged=rng.choice([None, rng.randrange(300) * 1000]),
        loading=moment(),
        driver=moment(),
        driver_ended=moment(),
        driver_status=rng.choice([None, 0, 1, 75]),
        stop_asked=moment(),
        opaque=rng.random() < 0.1,
    )
    made = InFlightCounts(start), InFlightCounts(start)
    for _ in range(rng.randrange(30)):
        begin = rng.randrange(start - 10_000, end + 1)
        made[rng.random() < 0.3].add(begin, rng.randrange(max(begin, start), end + 2000))
    return one, *made


@pytest.mark.slow
def test_of_any_link_every_millisecond_has_exactly_one_owner():
    rng = random.Random(20270115)
    owned = set()
    for _ in range(1500):
        one, kept, lost = random_link(rng)
        cut = segments(one, kept, lost)
        assert sum(piece.end - piece.start for piece in cut) == one.end - one.start
        assert [piece.end for piece in cut[:-1]] == [piece.start for piece in cut[1:]]
        assert all(piece.start < piece.end for piece in cut)
        assert not cut or (cut[0].start, cut[-1].end) == (one.start, one.end)
        (billed,) = bill_links([one], one.start - 7, [kept], [lost])
        seen = one.end - one.start
        counted = one.charged is not None and abs(one.charged - seen) >= 1000
        assert billed.allocated == (one.charged if counted else seen)
        assert min(billed.owners.values()) >= 0
        assert billed.queue == 7
        owned |= {owner for owner, ms in billed.owners.items() if ms}
    assert owned == set(OWNERS)


def test_flights_take_the_memory_of_their_time_not_of_their_number():
    many = InFlightCounts(0)
    for number in range(50_000):
        many.add(number % 1000, number % 1000 + 500)
    assert len(many._changes) <= 1500 // bill.TICK + 2
    assert max(many.counts(20)) <= 50_000


def owners(**known: int) -> dict[str, int]:
    return {owner: known.get(owner, 0) for owner in OWNERS}


def billed(*links: dict[str, int]) -> Bill:
    made = [
        bill.LinkBill(name=f"{n}.0", start=0, end=0, ended=True, queue=0, owners=each)
        for n, each in enumerate(links)
    ]
    return Bill(gym_job_id="g", benchmark="b", gpus=8, links=made)


def test_what_would_have_saved_most_comes_first_and_useful_time_never():
    again = billed(owners(load=900, useful=5000), owners(load=950, useful=10, idle=50))
    found = [(saving.cause, saving.milliseconds) for saving in savings([again])]
    assert found == [("started_again", 950), ("start", 900), ("idle", 50)]
    killed = billed(owners(load=1, repeated=700, useful=1), owners(load=30))
    assert savings([killed])[0].cause == "repeated"
    assert savings([billed(owners(useful=5))]) == []


def test_where_no_rollout_was_kept_nothing_but_its_cause_is_to_be_mended():
    (only,) = savings([billed(owners(install=900, load=100))])
    assert (only.cause, only.milliseconds) == ("nothing_kept", 1000)
    assert "gym job status" in only.advice
    assert savings([billed(owners())]) == []


def test_services_are_advised_about_only_where_there_are_some():
    made = billed(owners(install=50, load=100, useful=10, idle=20), owners(load=40, useful=10))
    without = replace(made, links=[replace(link, has_services=False) for link in made.links])
    assert any("services" in saving.advice for saving in savings([made]))
    assert not any("services" in saving.advice or "models" in saving.advice for saving in savings([without]))
