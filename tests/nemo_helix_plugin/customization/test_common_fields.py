"""One set of names for what every backend has."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_plugin.customization import backends, common_fields, written_specs
from nemo_helix_plugin.customization.common_fields import FIELDS, METHODS, fields_of

PAIRS = [(method, backend) for method, able in METHODS.items() for backend in able]
VALUES: dict[str, Any] = {
    "whole": 4,
    "number": 0.125,
    "flag": True,
    "text": "text",
    "source": "lab/thing",
    "words": ["q_proj"],
}
OTHERS = {"batch_size": 16, "num_generations": 2, "gpus": 1, "min_learning_rate": 1e-9}


def value_of(field: common_fields.CommonField) -> Any:
    return OTHERS.get(field.name, field.choices[0] if field.choices else VALUES[field.kind])


def looked_up(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = getattr(value, part)
    return value


def label(path: tuple[str, ...]) -> str:
    return ".".join(path)


@pytest.mark.parametrize(("method", "backend"), PAIRS)
def test_every_common_name_is_a_field_of_each_backend_that_has_it(method: str, backend: str) -> None:
    fields = [field for field in fields_of(method) if backend in field.places]
    written = written_specs.WrittenSpec()
    written.add({field.name: value_of(field) for field in fields}, label)
    made = written_specs.compiled(method, backend, written)
    assert made.problems == ()
    found = backends.find(backend).input_type().model_validate(made.spec)
    counted = {"batch_size": 4, "activation_checkpointing": "true"} if backend == "unsloth" else {}
    for field in fields:
        assert looked_up(found, field.places[backend]) == counted.get(field.name, value_of(field)), field.name


@pytest.mark.parametrize(("method", "backend"), PAIRS)
def test_the_least_that_is_written_is_a_whole_spec_with_the_same_numbers_everywhere(
    method: str, backend: str
) -> None:
    least = {"model": "lab/base", "data": "lab/rows"} | (
        {"environment": "lab/sums"} if method == "grpo" else {}
    )
    written = written_specs.WrittenSpec()
    written.add(least, label)
    made = written_specs.compiled(method, backend, written)
    assert made.problems == ()
    found = backends.find(backend).input_type().model_validate(made.spec)
    places = {name: common_fields.BY_NAME[name].places[backend] for name in ("learning_rate", "finetuning")}
    rates = common_fields.RATES[method]
    assert looked_up(found, places["learning_rate"]) == rates["lora"]
    assert looked_up(found, places["finetuning"]) == "lora"
    if backend == "unsloth":
        assert (found.batch.gradient_accumulation_steps, found.model.load_in_4bit) == (8, False)  # type: ignore[attr-defined]


def test_names_are_told_apart_and_each_is_somewhere() -> None:
    assert len({field.name for field in FIELDS}) == len(FIELDS)
    assert all(field.places for field in FIELDS)
    assert set(common_fields.ELSEWHERE.values()) <= set(common_fields.BY_NAME)
    assert not set(common_fields.ELSEWHERE) & set(common_fields.BY_NAME)


@pytest.mark.parametrize(("method", "backend"), PAIRS)
def test_what_is_looked_at_while_it_trains_is_written_alike_for_every_backend(
    method: str, backend: str
) -> None:
    least = {"model": "lab/base", "data": "lab/rows"} | (
        {"environment": "lab/sums"} if method == "grpo" else {}
    )
    during = {
        "early_stopping": {"metric": "eval_arithmetic", "patience": 2},
        "best_checkpoint": {},
        "eval": {"benchmark": "arithmetic", "every": 20, "prompts": ["2 + 3?"]},
    }
    written = written_specs.WrittenSpec()
    written.add({**least, **during}, label)
    made = written_specs.compiled(method, backend, written)
    assert made.problems == ()
    assert {name: made.spec[name] for name in during} == during
