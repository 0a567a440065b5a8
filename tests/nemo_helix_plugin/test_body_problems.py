"""Everything that is wrong with a spec is said at once, each field by its path."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from nemo_helix_plugin.body_problems import BodyProblem, body_problems, in_lines
from nemo_helix_plugin.customization.types import AutomodelJobInput, RlJobInput, UnslothJobInput


def said(model: type[BaseModel], spec: dict[str, Any]) -> dict[str, str]:
    found = body_problems(model, spec)
    assert len({one.path for one in found}) == len(found)
    return {".".join(one.path): one.text for one in found}


def test_what_relates_fields_is_looked_at_though_others_are_wrong() -> None:
    training = {"type": "dpo", "batch_size": 3, "micro_batch_size": 2, "min_learning_rate": 1, "seed": "x"}
    found = body_problems(RlJobInput, {"modle": "m", "training": training, "environment": "e"})
    assert [(".".join(one.path), one.text.partition(":")[0]) for one in found] == [
        ("model", "it is missing, and required"),
        ("dataset", "it is missing, and required"),
        ("training.seed", "input should be a valid integer, unable to parse string as an integer"),
        ("modle", "there is no such field (did you mean 'model'?)"),
        ("training", "min_learning_rate 1 is more than learning_rate 0.0001"),
        (
            "training",
            "training.batch_size 3 cannot be divided by micro_batch_size x data parallel size = 2",
        ),
    ]
    found = body_problems(RlJobInput, {"modle": "m", "training": {"type": "dpo"}, "environment": "e"})
    assert found[-1].text == "environment is for GRPO: DPO learns from the pairs of its dataset"


def test_a_field_is_named_once_and_by_the_keys_of_the_file() -> None:
    spec = {"model": 7, "dataset": "d", "training": {"type": "grpo", "lora": {"rnk": 1}, "top_k": 0}}
    assert set(said(RlJobInput, spec)) == {"model", "training.lora.rnk", "training.top_k", ""}
    unions = {
        "model": {"name": "m"},
        "dataset": {"path": "d"},
        "training": {"lora": {"init_lora_weights": 3}},
    }
    assert {one.path for one in body_problems(UnslothJobInput, unions)} == {
        ("training", "lora", "init_lora_weights")
    }


def test_values_of_a_list_and_blocks_that_are_none() -> None:
    tracker = {"project": "a/b", "tags": ["", "x" * 65]}
    spec = {
        "model": "m",
        "dataset": {"training": "d"},
        "training": {"lora": {"target_modules": ["q", 1, 2]}, "training_type": "distillation"},
        "schedule": [],
        "integrations": {"wandb": tracker},
        "parallelism": {"num_gpus_per_node": 3, "tensor_parallel_size": 2, "expert_parallel_size": 2},
    }
    found = said(AutomodelJobInput, {**spec, "parallelism": {"num_nodes": 0}})
    assert list(found) == [
        "training.lora.target_modules.1",
        "training.lora.target_modules.2",
        "schedule",
        "parallelism.num_nodes",
        "integrations.wandb.project",
        "integrations.wandb.tags.0",
        "integrations.wandb.tags.1",
        "training",
    ]
    texts = [one.text for one in body_problems(AutomodelJobInput, spec)]
    assert any("cannot be divided by tensor" in text for text in texts)
    assert "tensor_parallel_size must be 1 when expert_parallel_size is more than 1" in texts


@pytest.mark.parametrize("spec", [{}, {"training": {}}, {"training": {"type": "ppo"}}, {"training": None}])
def test_it_ends_whatever_is_given(spec: dict[str, Any]) -> None:
    found = body_problems(RlJobInput, spec)
    assert {one.path[0] for one in found if one.path} >= {"model", "dataset", "training"}


def test_several_problems_have_a_line_each() -> None:
    assert in_lines(["a: wrong"]) == "a: wrong"
    assert in_lines([str(BodyProblem(("a", "b"), "wrong")), str(BodyProblem((), "empty"))]) == (
        "2 problems:\n  a.b: wrong\n  empty"
    )
