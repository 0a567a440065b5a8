"""What a place is expected to do, by what its allocations came to."""

import pytest

from nemo_helix_server.jobs.interruptions import SeenInterruptions, expected

DAY, HOUR = 86_400.0, 3_600.0
PLACE = "gpu/default, partition batch"


def seen(interruptions, seconds):
    return SeenInterruptions(allocations=interruptions + 1, interruptions=interruptions, seconds=seconds)


@pytest.mark.parametrize(
    ("interruptions", "seconds", "basis", "mean"),
    [
        (0, 0.0, "presumed", DAY),
        # two that came at once prove little
        (2, 600.0, "presumed", DAY),
        (0, 2.9 * DAY, "presumed", DAY),
        # the presumed one counts along
        (3, 8 * HOUR, "measured", (DAY + 8 * HOUR) / 4),
        (100, 100 * HOUR, "measured", (DAY + 100 * HOUR) / 101),
        # a place that never interrupted is not expected never to
        (0, 30 * DAY, "measured", 31 * DAY),
        (1, 9 * DAY, "measured", 5 * DAY),
    ],
)
def test_what_was_seen_decides_once_it_is_enough(interruptions, seconds, basis, mean):
    found = expected(PLACE, None, seen(interruptions, seconds))
    assert (found.basis, found.seconds) == (basis, pytest.approx(mean))
    assert found.known == (None if basis == "presumed" else found.seconds)


def test_what_the_profile_says_outranks_what_was_seen():
    found = expected(PLACE, 1800.0, seen(50, 100 * DAY))
    assert (found.basis, found.seconds, found.known) == ("given", 1800.0, 1800.0)


def test_the_choice_is_shown_with_what_it_was_made_from():
    assert expected(PLACE, None, seen(3, 8 * HOUR)).to_json() == {
        "seconds": 28_800.0,
        "basis": "measured",
        "place": PLACE,
        "allocations_seen": 4,
        "interruptions_seen": 3,
        "seconds_seen": 28_800.0,
    }
