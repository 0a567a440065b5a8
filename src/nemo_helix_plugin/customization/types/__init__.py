"""Input specs of the built-in backends."""

from __future__ import annotations

from nemo_helix_plugin.customization.types.automodel import AutomodelJobInput
from nemo_helix_plugin.customization.types.parts import Integrations, Mlflow, Output, Wandb
from nemo_helix_plugin.customization.types.rl import DpoTraining, GrpoTraining, RlJobInput
from nemo_helix_plugin.customization.types.unsloth import UnslothJobInput

__all__ = [
    "AutomodelJobInput",
    "DpoTraining",
    "GrpoTraining",
    "Integrations",
    "Mlflow",
    "Output",
    "RlJobInput",
    "UnslothJobInput",
    "Wandb",
]
