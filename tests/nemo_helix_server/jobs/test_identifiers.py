from collections import Counter

from nemo_helix_server.jobs import identifiers


def test_an_id_has_22_digits_of_base_58_and_none_comes_twice():
    ids = {identifiers.entity_id(identifiers.JOB) for _ in range(500)}
    assert len(ids) == 500
    digits = [one.removeprefix("platform-job-") for one in ids]
    assert {len(one) for one in digits} == {22}
    assert set("".join(digits)) == set("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")


def test_every_place_of_a_made_up_name_takes_every_digit():
    endings = [identifiers.job_name("a source").removeprefix("a-source-") for _ in range(2000)]
    for place in range(8):
        seen = Counter(ending[place] for ending in endings)
        assert len(seen) == 32
        assert max(seen.values()) < 4 * min(seen.values())
