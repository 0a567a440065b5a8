"""The engines there are, and what an environment of each is made of. Nothing of an engine is imported
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from nemo_helix_server.errors import UnknownNameError
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class EngineRecipe:
    """How the environment of one engine is made."""

    name: str
    summary: str
    pins: Mapping[Device, tuple[str, ...]]
    """Pins files (in `pins/`), by what the machine has; each is installed as it is, without
    dependencies."""
    imports: tuple[str, ...]
    """Modules that must load, in this order, for the engine to be usable."""
    packages: tuple[str, ...]
    """Distributions whose versions `nemo engines doctor` reports."""


RECIPES = {
    recipe.name: recipe
    for recipe in (
        EngineRecipe(
            name="trl",
            summary="TRL: SFT, DPO and GRPO, full weights and LoRA",
            pins={"cpu": ("torch-cpu.txt", "trl.txt"), "cuda": ("torch-cuda.txt", "trl.txt")},
            imports=("torch", "transformers", "datasets", "peft", "trl"),
            packages=("torch", "transformers", "trl", "peft", "accelerate", "datasets"),
        ),
        EngineRecipe(
            name="unsloth",
            summary="Unsloth (AGPL-3.0, runs as a process of its own): SFT, full weights and LoRA",
            pins={
                "cpu": ("torch-cpu.txt", "unsloth.txt"),
                "cuda": ("torch-cuda.txt", "unsloth.txt", "unsloth-cuda.txt"),
            },
            imports=("unsloth", "torch", "transformers", "datasets", "peft", "trl"),
            packages=("torch", "transformers", "trl", "peft", "accelerate", "datasets", "unsloth"),
        ),
        EngineRecipe(
            name="automodel",
            summary="NeMo Automodel's recipe: SFT, full weights and LoRA",
            pins={"cpu": ("torch-cpu.txt", "automodel.txt"), "cuda": ("torch-cuda.txt", "automodel.txt")},
            imports=("torch", "transformers", "datasets", "nemo_automodel.recipes.llm.train_ft"),
            packages=("torch", "transformers", "nemo-automodel", "datasets", "torchdata", "triton"),
        ),
        EngineRecipe(
            name="trackers",
            summary="no engine: the libraries of W&B and MLflow, with which the service publishes metrics",
            pins={"cpu": ("trackers.txt",), "cuda": ("trackers.txt",)},
            imports=("wandb", "mlflow"),
            packages=("wandb", "mlflow"),
        ),
    )
}


def recipe(name: str) -> EngineRecipe:
    """The recipe of that name, or `UnknownNameError` with the names there are."""
    if name not in RECIPES:
        raise UnknownNameError(f"there is no engine '{name}'; known are {', '.join(sorted(RECIPES))}")
    return RECIPES[name]


def pins_text(file: str) -> str:
    """The text of one pins file."""
    return (resources.files("nemo_helix_server") / "engines" / "pins" / file).read_text(encoding="utf-8")


def environment(chosen: EngineRecipe, device: Device) -> EnvironmentRecipe:
    """How the environment of an engine is made on such a machine."""
    return EnvironmentRecipe(
        name=chosen.name, device=device, pins=tuple(_pins_file(file) for file in chosen.pins[device])
    )


def _pins_file(file: str) -> PinsFile:
    if file != "torch-cpu.txt":
        return PinsFile(file, pins_text(file))
    general = PinsFile("torch-cuda.txt", pins_text("torch-cuda.txt"))
    remark = "no CPU build of torch can be had here: its general build is installed, which is much larger"
    return PinsFile(file, pins_text(file), otherwise=general, remark=remark)
