"""A sweep: which jobs it has, and how they are told apart."""

from __future__ import annotations

import pytest

from nemo_helix_plugin.customization import sweeps
from nemo_helix_plugin.customization.sweeps import Axis


def number(text: str) -> object:
    return float(text) if text[0].isdigit() else text


def test_an_axis_is_a_field_and_its_values() -> None:
    found = sweeps.axis("schedule.learning_rate=1e-5, 3e-5,auto", number)
    assert found == Axis("schedule.learning_rate", (1e-5, 3e-5, "auto"))


@pytest.mark.parametrize("word", ["seed", "=1,2", "a..b=1", "seed=", "seed=1,,2", "seed=1,1"])
def test_what_is_no_axis_is_refused_with_what_was_typed(word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word.replace('.', '[.]')}: "):
        sweeps.axis(word, number)


def test_there_is_a_job_for_each_combination_with_its_values_in_its_spec() -> None:
    spec = {"training": {"type": "dpo", "seed": 0}, "output": {"name": "sums"}}
    axes = [Axis("training.seed", (1, 2)), Axis("schedule.lr", (0.1, 0.2))]
    found = sweeps.jobs_of(spec, axes, "mine")
    assert [job.name for job in found] == ["mine-1", "mine-2", "mine-3", "mine-4"]
    assert [job.values for job in found][:2] == [
        {"training.seed": 1, "schedule.lr": 0.1},
        {"training.seed": 1, "schedule.lr": 0.2},
    ]
    assert found[3].spec == {
        "training": {"type": "dpo", "seed": 2},
        "output": {"name": "sums-4"},
        "schedule": {"lr": 0.2},
    }
    assert found[3].custom_fields == {"sweep": "mine", "swept": {"training.seed": 2, "schedule.lr": 0.2}}
    assert spec["output"] == {"name": "sums"}


def test_names_of_jobs_sort_as_their_numbers() -> None:
    names = [job.name for job in sweeps.jobs_of({}, [Axis("seed", tuple(range(12)))], "s")]
    assert names == sorted(names)
    assert names[0] == "s-01"


def test_a_name_of_the_model_that_is_swept_stays_as_it_is() -> None:
    (one, _) = sweeps.jobs_of({"output": {"name": "x"}}, [Axis("output.name", ("a", "b"))], "s")
    assert one.spec["output"]["name"] == "a"


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ([Axis("seed", (1,)), Axis("seed", (2,))], "a field can be swept once"),
        (
            [Axis("a", tuple(range(20))), Axis("b", tuple(range(20)))],
            "400 jobs are more than a sweep may have",
        ),
        ([Axis("training.type.x", (1, 2))], r"training\.type\.x: type of the spec holds no object"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(axes: list[Axis], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sweeps.jobs_of({"training": {"type": "dpo"}}, axes, "s")


def test_a_label_names_fields_by_their_last_part() -> None:
    job = {"custom_fields": {"sweep": "s", "swept": {"schedule.learning_rate": 1e-05, "seed": 3}}}
    assert sweeps.label(job) == "learning_rate=1e-05 seed=3"
    assert sweeps.sweep_of(job) == "s"


@pytest.mark.parametrize("fields", [None, {}, {"sweep": 3, "swept": "x"}])
def test_a_job_of_no_sweep_has_no_values(fields: object) -> None:
    job = {"custom_fields": fields}
    assert (sweeps.sweep_of(job), dict(sweeps.values_of(job)), sweeps.label(job)) == (None, {}, "")
