"""The engine spec is read strictly, and says which of its parts decide the result."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_engines import spec
from nemo_engines.errors import BadSpecError

LEAST = {"engine": "trl", "method": "sft", "model": "/m", "dataset": "/d", "output": "/o"}
GRPO = {**LEAST, "method": "grpo", "rewards": {"verifier": {}}, "batch": {"per_device": 8}}


def test_the_least_that_can_be_said_is_a_spec() -> None:
    read = spec.parse_spec(LEAST)
    assert read.finetuning == "lora"
    assert read.save.seconds == 900
    assert read.save.keep == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modell": "x"}, "modell is not a field of the engine spec (did you mean 'model'?)"),
        ({"lora": {"rnak": 4}}, "lora.rnak is not a field of the engine spec (did you mean 'rank'?)"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"seed": 1.5}, "seed must be a whole number, not 1.5"),
        (
            {"optimizer": {"learning_rate": float("nan")}},
            "optimizer.learning_rate must be a finite number, not nan",
        ),
        ({"lora": {"target_modules": ["a", 1]}}, "lora.target_modules[1] must be text, not 1"),
        ({"batch": []}, "batch must be an object, not []"),
        ({"schedule": {"max_steps": 0}}, "schedule.max_steps must be more than 0, not 0"),
        (
            {"schedule": {"warmup_steps": 2, "warmup_ratio": 0.1}},
            "schedule.warmup_steps and schedule.warmup_ratio cannot both be given: choose one",
        ),
        ({"save": {"keep": 1}}, "save.keep must be at least 2, not 1: the newest may be damaged"),
        (
            {"save": {"output": "best"}},
            "save.output 'best' needs save.best_metric, the name of the metric to choose by",
        ),
        (
            {"finetuning": "full", "load_in_4bit": True},
            "load_in_4bit and load_in_8bit are for LoRA: quantized weights cannot be trained",
        ),
        (
            {"method": "grpo"},
            "rewards is missing: GRPO needs the benchmark whose verifier grades the answers",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpecError) as caught:
        spec.parse_spec({**LEAST, **changes})
    assert str(caught.value) == message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadSpecError, match=r"^dataset is missing$"):
        spec.parse_spec({name: value for name, value in LEAST.items() if name != "dataset"})


@pytest.mark.parametrize(
    ("batch", "grpo", "expected"),
    [
        ({"per_device": 8}, {}, 1),
        ({"per_device": 8}, {"steps_per_generation": 2}, 2),
        ({"per_device": 8}, {"num_iterations": 3}, 3),
        ({"per_device": 8, "gradient_accumulation": 2}, {"steps_per_generation": 4}, 2),
        ({"per_device": 8, "gradient_accumulation": 2}, {"steps_per_generation": 3}, 3),
        ({"per_device": 8, "gradient_accumulation": 4}, {"steps_per_generation": 2}, 1),
    ],
)
def test_training_can_stop_between_generation_cycles(
    batch: dict[str, int], grpo: dict[str, int], expected: int
) -> None:
    assert spec.boundary(spec.parse_spec({**GRPO, "batch": batch, "grpo": grpo})) == expected


def test_groups_must_fit_into_what_is_generated_at_once() -> None:
    with pytest.raises(
        BadSpecError, match=r"one generation makes 12 answers, which grpo.num_generations = 8"
    ):
        spec.parse_spec({**GRPO, "batch": {"per_device": 12}})


def test_settings_hold_what_decides_the_result_and_nothing_else() -> None:
    before = spec.settings(spec.parse_spec(LEAST))
    same = {"output": "/other", "save": {"steps": 3}, "trackers": {"wandb": "id"}, "dpo": {"beta": 9}}
    assert spec.settings(spec.parse_spec({**LEAST, **same})) == before
    for changed in (
        {"seed": 1},
        {"lora": {"rank": 3}},
        {"schedule": {"max_steps": 9}},
        {"batch": {"per_device": 2}},
    ):
        assert spec.settings(spec.parse_spec({**LEAST, **changed})) != before, changed
