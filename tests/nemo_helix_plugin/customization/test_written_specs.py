"""A spec in the names that somebody wrote, and the backend's spec made of it."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_plugin.customization import written_specs
from nemo_helix_plugin.customization.written_specs import WrittenSpec, chosen, compiled

LEAST = {"model": "lab/base", "data": "lab/rows"}


def written(*layers: dict[str, Any]) -> WrittenSpec:
    found = WrittenSpec()
    for layer in layers:
        found.add(layer, ".".join)
    return found


def problems(value: dict[str, Any], method: str = "sft", backend: str = "automodel") -> list[str]:
    return list(compiled(method, backend, written(value)).problems)


def test_names_of_any_backend_that_mean_the_same_are_taken() -> None:
    theirs = {
        "model": {"name": "lab/base"},
        "dataset": {"path": "lab/rows"},
        "batch": {"per_device_train_batch_size": 2, "global_batch_size": 4},
        "training": {"lora": {"rank": 4}, "attn_implementation": "eager"},
    }
    found = compiled("sft", "automodel", written(theirs))
    assert found.problems == ()
    assert found.spec["dataset"] == {"training": "lab/rows"}
    assert found.spec["batch"] == {"micro_batch_size": 2, "global_batch_size": 4}
    assert found.spec["training"]["attn_implementation"] == "eager"
    also = compiled(
        "dpo", "rl", written({"model": "lab/base", "dataset": "lab/rows", "schedule": {"epochs": 2}})
    )
    assert also.problems == ()
    assert also.spec["training"]["epochs"] == 2


def test_a_later_layer_wins_under_whatever_name() -> None:
    found = compiled("sft", "unsloth", written(LEAST | {"seed": 1}, {"schedule": {"seed": 2}}, {"seed": 3}))
    assert found.spec["schedule"] == {"seed": 3}


def test_a_spec_of_unsloth_keeps_its_own_count_of_micro_batches() -> None:
    own = LEAST | {"batch": {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 2}}
    found = compiled("sft", "unsloth", written(own))
    assert found.problems == ()
    assert found.spec["batch"] == {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 2}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"learning_rat": 1}, "learning_rat: there is no such field (did you mean 'learning_rate'?)"),
        ({"num_train_epochs": 1}, "num_train_epochs: there is no such field (did you mean 'epochs'?)"),
        ({"beta": 0.1}, "beta: it is not for sft; dpo and grpo have it"),
        ({"temperature": 1}, "temperature: it is not for sft; grpo has it"),
        ({"packing": True}, "packing: the backend automodel has no such field; unsloth has it"),
        ({"learning_rate": -1}, "learning_rate: input should be greater than 0"),
        ({"optimizer": {"learning_rate": -1}}, "optimizer.learning_rate: input should be greater than 0"),
        ({"data": ["a", "a"]}, "data: a is named twice; give it one weight"),
        ({"data": [{"data": "a", "weight": 0}]}, "data: the weight of a must be a number above 0"),
        ({"data": [{"path": "a"}]}, "data: write a name, or {data: NAME, weight: NUMBER}"),
        ({"overlong": "cut"}, "overlong: input should be 'truncate', 'drop' or 'error'"),
        (
            {"seed": 1, "schedule": {"seed": 2}},
            "schedule.seed says the same as seed; give one of the two",
        ),
        (
            {"training": {"max_seq_lenght": 2}},
            "training.max_seq_lenght: there is no such field (did you mean 'max_seq_length'?)",
        ),
        ({"batch_size": 6, "micro_batch_size": 4}, "batch_size 6 cannot be divided by micro_batch_size x"),
    ],
)
def test_what_is_wrong_is_said_in_the_name_that_was_written(value: dict[str, Any], said: str) -> None:
    (only,) = problems(LEAST | value)
    assert only.startswith(said)


def test_everything_is_said_at_once() -> None:
    found = problems({"lr": 1, "seed": -1, "beta": 1, "output": {"nam": "x"}})
    assert [line.partition(":")[0] for line in found] == ["lr", "beta", "model", "data", "seed", "output.nam"]


def test_a_batch_that_cannot_be_divided_is_named() -> None:
    (only,) = problems(LEAST | {"batch_size": 6, "micro_batch_size": 4}, backend="unsloth")
    assert only == "batch_size: 6 cannot be divided by micro_batch_size 4"


def test_what_the_service_says_is_given_back_in_the_written_names() -> None:
    found = compiled("sft", "unsloth", written(LEAST | {"lora_rank": 4, "max_seq_length": 8}))
    said = (
        "training.lora.rank 4 and model.max_seq_length; dataset.path: there is no fileset 'dataset.pathology'"
    )
    assert found.renamed(said) == (
        "lora_rank 4 and max_seq_length; data: there is no fileset 'dataset.pathology'"
    )
    plain = compiled("dpo", "rl", written(LEAST))
    assert (
        plain.renamed("dataset: there is no dataset; model: none") == "data: there is no dataset; model: none"
    )


@pytest.mark.parametrize(
    ("value", "installed", "asked", "backend"),
    [
        ({}, ["automodel", "unsloth"], None, "automodel"),
        ({}, ["unsloth"], None, "unsloth"),
        ({}, [], None, "automodel"),
        ({}, ["automodel"], "unsloth", "unsloth"),
        ({"load_in_4bit": True}, ["automodel"], None, "unsloth"),
        ({"parallelism": {"num_nodes": 1}}, ["unsloth"], None, "automodel"),
        ({"min_learning_rate": 1e-9, "packing": True}, ["unsloth"], None, "unsloth"),
    ],
)
def test_a_backend_is_chosen_by_what_is_installed_and_asked_for(
    value: dict[str, Any], installed: list[str], asked: str | None, backend: str
) -> None:
    assert chosen("sft", written(LEAST | value), installed, asked) == backend


def test_a_backend_that_cannot_do_a_method_is_not_taken() -> None:
    with pytest.raises(ValueError, match="the backend unsloth does not do dpo; rl can"):
        chosen("dpo", written(LEAST), [], "unsloth")


def test_what_a_file_is_for_is_no_field_of_a_spec() -> None:
    assert set(written({"method": "sft", "backend": "rl", "seed": 1}).fields) == {"seed"}
    assert written_specs.canonical(("dataset",)) == "data"
