"""The page of a model at a hub: facts of the training, scores, and nothing that is private."""

from __future__ import annotations

import json

import pytest
import yaml

from nemo_models import cards, training_facts
from nemo_models.cards import CardFacts
from nemo_models.errors import ModelsError

JOB = {
    "name": "rl-1",
    "status": "completed",
    "updated_at": "2026-11-30T10:00:00Z",
    "spec": {
        "backend": "rl",
        "engine": "trl",
        "model": "/data/secret-place/model",
        "dataset": {"training": "default/pairs", "validation": "/home/ann/private.jsonl"},
        "training": {
            "type": "dpo",
            "learning_rate": 1e-5,
            "lora": {"rank": 8, "target_modules": ["q_proj", "v_proj"]},
            "env_vars": {"API_KEY": "s3cret", "seed": "s3cret"},
            "optimizer": "https://user:s3cret@host/x",
        },
        "integrations": {"wandb": {"project": "s3cret", "type": "s3cret/x"}},
    },
    "status_details": {"step": 5, "train_loss": 0.61234, "wandb_run": {"url": "https://wandb.example"}},
}
ROW = {"benchmark": "arithmetic", "score": 0.75, "low": 0.7, "high": 0.8, "measured": 40, "expected": 40}


def text(**changes):
    facts = {"title": "sums", "adapter": True, "base": "hf://my-org/base", "training": {}}
    return cards.card(CardFacts(**{**facts, **changes}))


def test_settings_steps_and_losses_are_told_and_nothing_private():
    facts = training_facts.of_job({**JOB, "spec": {**JOB["spec"], "training": dict(JOB["spec"]["training"])}})
    assert facts["dataset"] == ["default/pairs"]
    assert facts["settings"]["training.learning_rate"] == 1e-5
    assert facts["settings"]["training.lora.target_modules"] == ["q_proj", "v_proj"]
    assert (facts["steps"], facts["losses"]) == (5, {"train_loss": 0.61234})
    page = text(training=facts)
    for private in ("s3cret", "secret-place", "/home/ann", "wandb.example"):
        assert private not in page
    assert "| training.lora.rank | 8 |" in page
    assert "| train_loss | 0.6123 |" in page


def test_the_metadata_is_what_a_hub_reads():
    head = yaml.safe_load(text(results=[ROW]).split("---\n")[1])
    assert head["base_model"] == "my-org/base"
    assert head["library_name"] == "peft"
    [result] = head["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == 0.75
    assert "base_model" not in yaml.safe_load(text(base="default/base").split("---\n")[1])


def test_text_of_others_is_no_markup():
    page = text(description="a | b\n# <script>`x`", title="x\n---\n# y")
    assert "<script>" not in page
    assert "\n# <" not in page
    assert yaml.safe_load(page.split("---\n")[1])["library_name"] == "peft"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not what `gym job results ID --json` writes"),
        ("[]", "is not what `gym job results ID --json` writes"),
        (json.dumps({"results": [{"benchmark": "a", "score": None}]}), "has no score yet"),
    ],
)
def test_results_that_cannot_be_read_are_refused(tmp_path, content, said):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(ModelsError) as refused:
        cards.read_results(tmp_path / "r.json")
    assert said in str(refused.value)
