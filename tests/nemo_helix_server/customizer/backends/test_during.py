"""Early stopping and the best checkpoint: the same fields, with the same meaning, for every backend."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError
from tests.nemo_helix_server.customizer.situations import KINDS, backend, facts, parsed, source, with_value

from nemo_engines import spec as engine_specs
from nemo_helix_server.customizer import compile as compiling
from nemo_helix_server.errors import InvalidError

STOPPING = {"patience": 4, "min_change": 0.5}
ROWS = source("lab/sums", "train.jsonl", "validation.jsonl")


def job(kind: str, spec: dict[str, Any], **changes: Any) -> compiling.Compiled:
    return compiling.compile_job(backend(kind), parsed(kind, spec), facts(kind, **changes))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_fields_mean_the_same_for_every_backend(kind: str) -> None:
    usual, best_is = ("val_reward", "highest") if kind == "grpo" else ("val_loss", "lowest")
    spec = {**with_value(kind, "early_stopping", STOPPING), "best_checkpoint": {}}
    compiled = job(kind, spec, dataset=ROWS)
    engine = engine_specs.parse_spec(compiled.engine_spec)
    stopping = engine.early_stopping
    assert (stopping.metric, stopping.best_is, stopping.patience, stopping.min_change) == (
        usual,
        best_is,
        4,
        0.5,
    )
    assert (engine.save.best_metric, engine.save.best_is, engine.save.output) == (usual, best_is, "best")
    assert compiled.spec["early_stopping"] == {"metric": usual, "direction": best_is, **STOPPING}
    assert compiled.spec["best_checkpoint"] == {"metric": usual, "direction": best_is, "publish": "best"}


@pytest.mark.parametrize("kind", KINDS)
def test_metric_direction_and_what_is_published_can_be_chosen(kind: str) -> None:
    spec = with_value(kind, "best_checkpoint", {"metric": "val_accuracy", "publish": "last"})
    spec["early_stopping"] = {"metric": "val_entropy", "direction": "lowest"}
    engine = engine_specs.parse_spec(job(kind, spec, dataset=ROWS).engine_spec)
    assert (engine.save.best_metric, engine.save.best_is) == ("val_accuracy", "highest")
    assert engine.save.output == "last"
    assert (engine.early_stopping.metric, engine.early_stopping.best_is) == ("val_entropy", "lowest")


def test_the_best_checkpoint_is_by_the_metric_of_early_stopping_unless_another_one_is_named() -> None:
    spec = with_value("dpo", "early_stopping", {"metric": "val_accuracy", "direction": "lowest"})
    spec["best_checkpoint"] = {}
    engine = engine_specs.parse_spec(job("dpo", spec, dataset=ROWS).engine_spec)
    assert (engine.save.best_metric, engine.save.best_is) == ("val_accuracy", "lowest")


@pytest.mark.parametrize("kind", KINDS)
def test_without_these_fields_nothing_ends_early(kind: str) -> None:
    compiled = job(kind, with_value(kind, "name", "mine"), dataset=ROWS)
    assert "early_stopping" not in compiled.engine_spec
    assert compiled.spec["early_stopping"] is compiled.spec["best_checkpoint"] is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "automodel"])
@pytest.mark.parametrize("block", ["early_stopping", "best_checkpoint"])
def test_without_rows_to_validate_with_there_is_nothing_to_decide_by(kind: str, block: str) -> None:
    with pytest.raises(InvalidError) as refused:
        job(kind, with_value(kind, block, {}))
    assert f"{block} is not supported, because there are no rows to validate with" in refused.value.detail


@pytest.mark.parametrize("block", ["early_stopping", "best_checkpoint"])
def test_a_metric_of_no_evaluation_is_refused(block: str) -> None:
    with pytest.raises(InvalidError) as refused:
        job("dpo", with_value("dpo", block, {"metric": "train_loss"}), dataset=ROWS)
    assert f"{block}.metric 'train_loss' is of no evaluation of this training" in refused.value.detail
    assert "name one that is validated" in refused.value.detail


def test_two_fields_that_say_which_weights_are_published_must_agree() -> None:
    spec = with_value("automodel", "best_checkpoint", {"publish": "best"})
    spec["schedule"] = {"checkpoint_selection": "last"}
    with pytest.raises(InvalidError) as refused:
        job("automodel", spec)
    assert "because best_checkpoint.publish is best" in refused.value.detail
    del spec["schedule"]
    spec["best_checkpoint"] = {"publish": "last"}
    assert job("automodel", spec).spec["schedule"]["checkpoint_selection"] == "last"


EVAL = {"benchmark": "arithmetic", "every": 20, "prompts": ["What is 2 + 3?"], "device": "cpu"}
ARITHMETIC = source("arithmetic")


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_are_asked_alike_whatever_trains(kind: str) -> None:
    asked = dataclasses.replace(ARITHMETIC, kind="benchmark", place="arithmetic")
    compiled = job(kind, with_value(kind, "eval", EVAL), evaluation=asked)
    plan = engine_specs.parse_spec(compiled.engine_spec).evaluation
    assert plan is not None
    assert (plan.name, plan.metric, plan.folder) == ("arithmetic", "eval_arithmetic", "evaluation")
    assert (plan.every, plan.prompts, plan.device) == (20, ("What is 2 + 3?",), "cpu")
    download = compiled.platform_spec["steps"][0]["config"]
    assert download["evaluation"] == {
        "benchmark": "arithmetic",
        "folder": None,
        "limit": 100,
        "into": "evaluation",
    }


def test_a_benchmark_of_ones_own_is_brought_and_needs_a_trusted_caller() -> None:
    spec = with_value("dpo", "eval", {"benchmark": "lab/sums-2"})
    own = source("lab/sums-2", "config.yaml")
    compiled = job("dpo", spec, evaluation=own)
    download = compiled.platform_spec["steps"][0]["config"]
    assert {"folder": "evaluation_benchmark", "what": "benchmark", **own.to_json()} in download["items"]
    assert (download["evaluation"]["benchmark"], download["evaluation"]["folder"]) == (
        None,
        "evaluation_benchmark",
    )
    assert compiled.engine_spec["evaluation"]["metric"] == "eval_sums_2"
    with pytest.raises(InvalidError, match="needs a token of the role admin"):
        job("dpo", spec, evaluation=own, trusted=False)


def test_the_score_may_decide_with_or_without_rows_to_validate_with() -> None:
    asked = dataclasses.replace(ARITHMETIC, kind="benchmark", place="arithmetic")
    spec = {**with_value("dpo", "eval", EVAL), "early_stopping": {}, "best_checkpoint": {}}
    engine = engine_specs.parse_spec(job("dpo", spec, evaluation=asked).engine_spec)
    for metric, best_is in (
        (engine.early_stopping.metric, engine.early_stopping.best_is),
        (engine.save.best_metric, engine.save.best_is),
    ):
        assert (metric, best_is) == ("eval_arithmetic", "highest")
    spec["early_stopping"] = {"metric": "eval_arithmetic"}
    engine = engine_specs.parse_spec(job("dpo", spec, evaluation=asked, dataset=ROWS).engine_spec)
    assert engine.early_stopping.metric == "eval_arithmetic"
    spec["early_stopping"] = {"metric": "eval_other"}
    with pytest.raises(InvalidError, match=r"'eval_arithmetic', the score of eval\.benchmark"):
        job("dpo", spec, evaluation=asked, dataset=ROWS)


def test_prompts_alone_need_no_benchmark() -> None:
    compiled = job("unsloth", with_value("unsloth", "eval", {"prompts": ["Say something."]}))
    plan = engine_specs.parse_spec(compiled.engine_spec).evaluation
    assert plan is not None
    assert (plan.name, plan.folder, plan.prompts) == (None, None, ("Say something.",))
    assert compiled.platform_spec["steps"][0]["config"]["evaluation"] is None


def test_another_gpu_is_refused_where_there_is_none_and_an_evaluation_asks_something() -> None:
    with pytest.raises(
        InvalidError, match=r"eval\.device 'cuda:1' is not supported, because the training has no"
    ):
        job("dpo", with_value("dpo", "eval", {"prompts": ["a"], "device": "cuda:1"}))
    with pytest.raises(ValidationError, match="eval asks nothing"):
        parsed("dpo", with_value("dpo", "eval", {"every": 5}))
    with pytest.raises(ValidationError, match="pattern"):
        parsed("dpo", with_value("dpo", "eval", {"prompts": ["a"], "device": "gpu"}))
