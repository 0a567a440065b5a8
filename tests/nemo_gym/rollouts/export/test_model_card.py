"""Scores for the hub, read back with its own library."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from tests.nemo_gym.rollouts.export.outputs import exported

from nemo_gym.errors import UsageError
from nemo_gym.rollouts.export.model_card import parse_datasets, write_model_card


def test_the_hub_reads_card_and_results(tmp_path: Path) -> None:
    outputs = [exported(tmp_path / "a"), exported(tmp_path / "b", "gpqa")]
    datasets = parse_datasets(["gpqa=Idavidrein/gpqa:diamond"])
    written = write_model_card(outputs, tmp_path / "card", datasets)
    assert [str(path.relative_to(tmp_path / "card")) for path in written] == [
        "README.md",
        ".eval_results/gpqa.yaml",
    ]
    card = ModelCard.load(written[0])
    results = card.data.eval_results
    assert results is not None
    assert [(one.dataset_name, one.dataset_type, one.metric_value) for one in results] == [
        ("sums", "sums", 50.0),
        ("gpqa", "Idavidrein/gpqa", 50.0),
    ]
    assert card.data.model_name == "org/model-1"
    assert "| gpqa | 50.0% |" in card.text
    (entry,) = parse_eval_result_entries(yaml.safe_load(written[1].read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("Idavidrein/gpqa", "diamond", 50.0)
    assert "95% interval" in str(entry.notes)


def test_models_of_a_campaign_at_one_server_and_benchmarks_of_one_data_set_keep_apart(tmp_path: Path) -> None:
    outputs = [
        replace(exported(tmp_path / f"{model}.{name}", f"{model}.{name}"), campaign_model=model)
        for model in ("plain", "hot")
        for name in ("sums", "long")
    ]
    (card,) = write_model_card(outputs, tmp_path / "card", {})
    head = yaml.safe_load(card.read_text().split("---")[1])
    assert [one["name"] for one in head["model-index"]] == ["org/model-1 (plain)", "org/model-1 (hot)"]
    for one in head["model-index"]:
        assert [each["dataset"]["name"] for each in one["results"]] == ["sums", "long"]


@pytest.mark.parametrize("text", ["gpqa", "gpqa=x", "gpqa=a/b/c", "=a/"])
def test_a_data_set_is_named_with_its_owner(text: str) -> None:
    with pytest.raises(UsageError, match="write BENCHMARK=OWNER/NAME"):
        parse_datasets([text])
