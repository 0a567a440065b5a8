"""How many steps a training has, and how long its longest sequence is."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_engines.estimate.sizes import training_sizes
from nemo_engines.estimate.timing import training_seconds
from nemo_engines.flops import flops_per_token
from nemo_engines.spec import EngineSpec, parse_spec


def spec(method: str = "sft", **more: Any) -> EngineSpec:
    rewards = {"rewards": {"benchmark": {}}} if method == "grpo" else {}
    base = {"engine": "trl", "method": method, "model": "m", "dataset": "d", "output": "o", **rewards}
    return parse_spec({**base, **more})


@pytest.mark.parametrize(
    ("batch", "devices", "epochs", "steps"),
    [
        ({"per_device": 1}, 1, 1.0, 10),
        ({"per_device": 4}, 1, 1.0, 3),
        ({"per_device": 4, "gradient_accumulation": 2}, 1, 1.0, 2),
        ({"per_device": 4, "gradient_accumulation": 2}, 1, 2.5, 5),
        ({"per_device": 1, "gradient_accumulation": 2}, 4, 1.0, 2),
        ({"per_device": 64, "gradient_accumulation": 4}, 1, 3.0, 3),
    ],
)
def test_an_epoch_ends_with_a_batch_that_is_not_full(
    batch: dict[str, int], devices: int, epochs: float, steps: int
) -> None:
    wanted = spec(batch=batch, devices={"count": devices}, schedule={"epochs": epochs})
    assert training_sizes(wanted, [5] * 10, [5] * 10).steps == steps


def test_the_number_of_steps_may_be_given() -> None:
    assert training_sizes(spec(schedule={"max_steps": 7}), [5], [5]).steps == 7


def test_pairs_are_two_sequences_of_the_longest_answer() -> None:
    found = training_sizes(spec("dpo", batch={"per_device": 3}), [9, 12], [15, 20])
    assert (found.sequences, found.longest_tokens, found.mean_tokens) == (6, 12, 17.5)


def test_packed_rows_fill_their_length() -> None:
    wanted = spec(batch={"packing": True, "per_device": 2}, max_seq_length=100)
    found = training_sizes(wanted, [30] * 30, [30] * 30)
    assert (found.steps, found.longest_tokens) == (5, 100)


def test_answers_that_are_written_count_too() -> None:
    grpo = {"num_generations": 4, "max_new_tokens": 20, "steps_per_generation": 2}
    wanted = spec("grpo", batch={"per_device": 4, "gradient_accumulation": 2}, grpo=grpo)
    found = training_sizes(wanted, [10] * 6, [10] * 6)
    assert (found.steps, found.longest_tokens, found.mean_tokens) == (3, 30, 30)


def test_a_data_set_of_which_nothing_is_learned_has_sizes_all_the_same() -> None:
    assert training_sizes(spec(), [], []).mean_tokens == 0


def test_what_is_frozen_has_no_gradient_to_compute() -> None:
    assert flops_per_token(spec(), 100, 100) == 600
    assert flops_per_token(spec(), 100, 0) == 400
    assert flops_per_token(spec("dpo"), 100, 100) == 800


def test_time_is_a_range_which_measured_speeds_make_narrower() -> None:
    sizes = training_sizes(spec(schedule={"max_steps": 10}), [100], [100])

    def seconds(*measured: float) -> dict[str, Any]:
        return training_seconds(
            spec(), sizes, device="cpu", parameters=10**6, trained=10**6, measured=measured
        )

    assert seconds()["longest"] / seconds()["shortest"] == pytest.approx(100)
    assert seconds()["measured_on"] == 0
    known = seconds(6e9, 6e9, 3e9)
    assert known == {"shortest": pytest.approx(2 / 3), "longest": pytest.approx(2), "measured_on": 3}
