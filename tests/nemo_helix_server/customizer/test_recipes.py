"""Recipes that ship are tried by the service, for a machine with a GPU: each is supported whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_helix_plugin.customization.test_recipes import ALL, written
from tests.nemo_helix_server.api.service_bench import Bench
from tests.nemo_helix_server.customizer.situations import REWARDS

from nemo_engines.registry import engine_for
from nemo_engines.spec import parse_spec
from nemo_helix_plugin.customization import written_specs
from nemo_helix_server import app
from nemo_helix_server.customizer import environment
from nemo_helix_server.customizer import service as customizing
from nemo_helix_server.customizer.facts import TrainingMachine

pytestmark = pytest.mark.services


def test_every_recipe_can_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "this_machine", lambda: TrainingMachine("cuda", 1))
    monkeypatch.setattr(environment, "rewards", lambda *_: REWARDS)
    made: list[Any] = []
    compiling = customizing.compiling.compile_job
    monkeypatch.setattr(
        customizing.compiling, "compile_job", lambda *given: made.append(compiling(*given)) or made[-1]
    )
    engines = {name: {"python": sys.executable} for name in ("trl", "unsloth", "automodel")}
    bench = Bench(tmp_path / "data", engines=engines)
    try:
        client = bench.client()
        (tmp_path / "questions").mkdir()
        (tmp_path / "questions" / "train.jsonl").write_text("{}\n")
        for recipe in ALL:
            spec = written(recipe)
            backend = written_specs.chosen(recipe.method, spec, None, recipe.spec.get("backend"))
            here = {name: str(tmp_path / "questions") for name in ("data", "environment") if spec.value(name)}
            hub = {"model": f"hf://{recipe.spec['model']}"}
            found = written_specs.compiled(recipe.method, backend, spec.replaced(hub | here)).spec
            answer = client.post(
                f"/apis/customization/v2/workspaces/default/{backend}/dry-run", json={"spec": found}
            )
            assert answer.status_code == 200, (recipe.name, answer.text)
            assert answer.json()["fits"] is True
            engine_for(parse_spec(made[-1].engine_spec))
    finally:
        bench.close()
