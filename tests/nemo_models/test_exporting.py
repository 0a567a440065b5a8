"""What is refused before any work, and how much space is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_models import exporting, local_models, serving, weights
from nemo_models.errors import ModelsError
from nemo_models.exporting import ModelExport
from nemo_models.local_models import LocalModel
from nemo_models.serving import ServeRequest


def whole(folder: Path, kind: str = "qwen3", numbers: str = "bfloat16", size: int = 1000) -> LocalModel:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "dtype": numbers}))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(size)
    digest = weights.digest_of(folder) if size < 1 << 20 else "sha256:0"
    return LocalModel("base", "default/base", folder, False, digest)


def adapter(folder: Path, base: LocalModel, rank: int = 4) -> LocalModel:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    return LocalModel("sums", "default/sums", folder, True, weights.digest_of(folder), base)


def test_the_type_of_an_adapter_is_that_of_its_base_model(tmp_path):
    model = adapter(tmp_path / "a", whole(tmp_path / "b"))
    assert exporting.covered(model) == (
        "GGUF files are written of llama, qwen2, qwen3; default/sums is of the type qwen3."
    )


def test_another_architecture_is_refused_with_what_would_write_it(tmp_path):
    model = adapter(tmp_path / "a", whole(tmp_path / "b", kind="gemma3"))
    with pytest.raises(ModelsError, match=r"'gemma3'.*--to merged.*convert_hf_to_gguf"):
        exporting.covered(model)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [("q4_k_m", "llama-quantize FILE.gguf SMALLER.gguf Q4_K_M"), ("int4", "there is f32, f16, bf16, q8_0")],
)
def test_numbers_that_cannot_be_written_say_who_can(numbers, said):
    with pytest.raises(ModelsError) as refused:
        exporting.check_numbers(numbers)
    assert said in str(refused.value)


def test_a_disk_without_space_is_found_first(tmp_path, monkeypatch):
    model = whole(tmp_path / "b", size=1 << 40)
    request = ModelExport(model, "gguf", tmp_path / "x.gguf", "q8_0")
    assert exporting.needed(request) == pytest.approx((1 << 40) / 2 * 34 / 32, rel=0.01)
    with pytest.raises(ModelsError, match="are free in"):
        exporting.check(request)


@pytest.mark.parametrize(
    ("target", "place", "said"),
    [
        ("adapter", "new", "a whole model, which has no adapter"),
        ("merged", "there", "is there already"),
        ("gguf", "there", "is a folder: name the file"),
        ("merged", "nowhere/new", "there is no folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path, target, place, said):
    (tmp_path / "there").mkdir()
    with pytest.raises(ModelsError, match=said):
        exporting.check(ModelExport(whole(tmp_path / "b"), target, tmp_path / place))


def test_a_copy_has_a_record_and_leaves_nothing_else(tmp_path):
    base = whole(tmp_path / "b")
    model = adapter(tmp_path / "a", base)
    done = exporting.write(ModelExport(model, "adapter", tmp_path / "out", facts={"steps": 5}), print)
    record = json.loads((tmp_path / "out" / "nemo-export.json").read_text())
    assert record["training"] == {"steps": 5}
    assert set(record["files"]) == {"adapter_config.json"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b", "out"]
    assert done["digest"].startswith("sha256:")


def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    model = adapter(tmp_path / "a", whole(tmp_path / "b"))
    monkeypatch.setattr(exporting, "_finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        exporting.write(ModelExport(model, "adapter", tmp_path / "out"), print)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]


def test_vllm_gets_an_adapter_beside_its_base_model(tmp_path):
    model = adapter(tmp_path / "a", whole(tmp_path / "b"), rank=40)
    words = serving.vllm_arguments(ServeRequest(model, "sums", "base"), 8000)
    assert words[:2] == ["serve", str(tmp_path / "b")]
    assert f"sums={tmp_path / 'a'}" in words
    assert words[words.index("--served-model-name") + 1] == "base"
    assert words[words.index("--max-lora-rank") + 1] == "64"


def test_the_digest_of_a_folder_is_computed_again_when_a_file_has_changed(tmp_path):
    model = whole(tmp_path / "b")
    first = weights.remembered_digest(model.folder, tmp_path / "cache")
    assert weights.remembered_digest(model.folder, tmp_path / "cache") == first == model.digest
    (model.folder / "config.json").write_text("{}")
    assert weights.remembered_digest(model.folder, tmp_path / "cache") != first


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelsError, match="has neither config"):
        weights.check(tmp_path, "here")


def test_space_is_said_in_words(tmp_path):
    with pytest.raises(ModelsError, match=r"the files need .* are free in"):
        local_models.check_space(tmp_path, 1 << 60, "the files")
