"""Recipes that ship: each is a whole spec of the backends that can do it, and the page shows it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_helix_plugin.cli.program import nemo
from nemo_helix_plugin.customization import common_fields, recipes, written_specs
from nemo_helix_plugin.customization.recipes import Recipe

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_recipe_reference.py"
ALL = recipes.all_recipes()
OPEN = {"grpo": {"data": "lab/questions", "environment": "lab/sums"}}
"""What people give themselves."""


def written(recipe: Recipe) -> written_specs.WrittenSpec:
    found = written_specs.WrittenSpec()
    found.add(OPEN.get(recipe.method, {}) | recipe.spec, ".".join)
    return found


@pytest.mark.parametrize("recipe", ALL, ids=lambda one: one.name)
def test_a_recipe_is_a_whole_spec_of_each_backend_that_has_its_fields(recipe: Recipe) -> None:
    spec = written(recipe)
    able = (
        [recipe.spec["backend"]]
        if "backend" in recipe.spec
        else written_specs.candidates(recipe.method, spec)
    )
    assert able
    for backend in able:
        assert written_specs.compiled(recipe.method, backend, spec).problems == ()
    assert f"-{recipe.method}-" in recipe.name or recipe.name == "first-training"
    assert not (set(recipe.spec) - {"method", "backend"}) - set(common_fields.BY_NAME)


def test_there_is_one_for_each_family_method_and_kind_of_training() -> None:
    names = [one.name for one in ALL]
    assert len(set(names)) == len(names) > 20
    assert len({one.title for one in ALL}) == len(names)
    for family in ("qwen2.5", "qwen3", "llama-3.1", "llama-3.2", "gemma", "smollm2"):
        assert any(name.startswith(family) for name in names), family
    for kind in ("sft-full", "sft-lora", "sft-qlora", "dpo-lora", "grpo-lora"):
        assert sum(name.endswith(kind) for name in names) >= 3, kind


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(SCRIPT))
    assert page["PAGE"].read_text(encoding="utf-8") == page["page"]()


def test_files_that_ship_with_recipes_are_found_and_no_others() -> None:
    rows = recipes.shipped_file("recipe://first-rows.jsonl")
    assert rows is not None
    assert len([json.loads(line)["messages"] for line in rows.read_text().splitlines()]) == 20
    assert recipes.shipped_file("recipe://../recipes.py") is None
    assert recipes.shipped_file("first-rows.jsonl") is None


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(nemo, ["customization", "recipes", *words])
    return done.exit_code, done.output + str(done.exception or "")


def test_what_is_shown_can_be_saved_and_given_back(tmp_path: Path) -> None:
    status, text = run("show", "qwen3-0.6b-dpo-lora")
    assert status == 0
    (tmp_path / "mine.yaml").write_text(text)
    words = ["customization", "dpo", "--spec", str(tmp_path / "mine.yaml"), "--print-spec"]
    mine = CliRunner().invoke(nemo, words)
    assert mine.exit_code == 0, mine.output
    assert run("run", "qwen3-0.6b-dpo-lora", "--print-spec") == (0, mine.output)


def test_options_behind_the_name_win_over_the_recipe() -> None:
    status, text = run("run", "first-training", "--backend", "unsloth", "--max-steps", "3", "--print-spec")
    assert status == 0
    assert "max_steps: 3" in text
    status, text = run("run", "first-training", "--max-stepz", "3")
    assert status != 0
    assert "--max-steps" in text


def test_a_name_that_no_recipe_has_is_said_with_the_nearest() -> None:
    status, text = run("show", "qwen3-0.6b-dpo-lor")
    assert status != 0
    assert "did you mean 'qwen3-0.6b-dpo-lora'?" in text
    assert run("list", "--method", "grpo", "--json")[1].count('"method": "grpo"') == 3
