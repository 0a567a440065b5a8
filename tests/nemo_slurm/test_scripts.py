"""Options of `sbatch`."""

from __future__ import annotations

import pytest

from nemo_slurm import scripts
from nemo_slurm.errors import UnusableValueError


def test_options_are_written_in_their_order_as_they_are_read() -> None:
    values = {"job-name": "gym-gpqa", "account": "abc_1", "time": "4:00:00", "nodes": 2, "requeue": False,
              "no-requeue": True, "gres": "gpu:h100:4", "signal": "B:USR1@120", "qos": None,
              "exclude": "n[1-3,7]"}  # fmt: skip
    assert scripts.options(values, where="compute.x") == [
        "--job-name=gym-gpqa",
        "--account=abc_1",
        "--time=04:00:00",
        "--nodes=2",
        "--no-requeue",
        "--gres=gpu:h100:4",
        "--signal=B:USR1@120",
        "--exclude=n[1-3,7]",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "a b",
        "a\nb",
        "a\n#SBATCH --x",
        "'a'",
        'a"b',
        "$(x)",
        "`x`",
        "a;b",
        "a#b",
        "",
        "a\\b",
        "é",
        "a\0",
        "\ta",
    ],
)
def test_a_value_that_is_not_plainly_one_word_is_refused_with_its_place(value: str) -> None:
    with pytest.raises(UnusableValueError, match=r"^compute\.x\.constraint: "):
        scripts.options({"constraint": value}, where="compute.x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("account", "a:b"),
        ("nodes", 0),
        ("nodes", "2-"),
        ("ntasks-per-node", "x"),
        ("time", "soon"),
        ("time", 144_000),
        ("--mem", "4G"),
        ("Mem", "4G"),
        ("mem\n", "4G"),
        ("array", "1-4"),
        ("wrap", "true"),
        ("comment", "mine"),
        ("test-only", True),
    ],
)
def test_an_option_that_would_break_the_submission_is_refused(key: str, value: scripts.OptionValue) -> None:
    with pytest.raises(UnusableValueError):
        scripts.options({key: value}, where="w")


def test_options_of_several_places_may_agree_and_not_differ() -> None:
    assert scripts.merged(("a", {"x": 1, "y": 2}), ("b", {"x": 1, "z": 3})) == {"x": 1, "y": 2, "z": 3}
    with pytest.raises(UnusableValueError, match=r"b\.x: 2, but a\.x says 1"):
        scripts.merged(("a", {"x": 1}), ("b", {"x": 2}))


def test_a_continuation_never_waits_for_success() -> None:
    assert scripts.dependency("afternotok", ["7"]) == "afternotok:7"
    assert scripts.dependency("afterany", ["7", "8"]) == "afterany:7:8"
    for kind, ids in (("afterok", ["7"]), ("singleton", ["7"]), ("afternotok", []), ("afternotok", ["x"])):
        with pytest.raises(UnusableValueError):
            scripts.dependency(kind, ids)
