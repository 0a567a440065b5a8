"""Input specs of the three backends, and what a customization job is created with."""

from __future__ import annotations

from nemo_helix_plugin.customization.types.automodel import AutomodelJobInput
from nemo_helix_plugin.customization.types.parts import Integrations, Mlflow, Output, Wandb
from nemo_helix_plugin.customization.types.rl import DpoTraining, GrpoTraining, RlJobInput
from nemo_helix_plugin.customization.types.unsloth import UnslothJobInput
from nemo_helix_plugin.jobs.models import RequestModel

INPUTS: dict[str, type[RequestModel]] = {
    "automodel": AutomodelJobInput,
    "unsloth": UnslothJobInput,
    "rl": RlJobInput,
}
"""The input spec of each backend."""

__all__ = [
    "INPUTS",
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
