"""The arithmetic of a training, by which speeds of different ones are compared."""

from __future__ import annotations

from nemo_engines.spec import EngineSpec


def flops_per_token(spec: EngineSpec, parameters: int, trained: int) -> float:
    """Floating-point operations of one token that is learned.

    2 for each parameter forward, 2 for the gradient of what goes through, and 2 for that of each trained
    weight (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1: 6 for each parameter
    that is trained). A reference model that is asked (DPO, and GRPO with a penalty) is 2 more; so is writing
    an answer (GRPO).
    """
    learned = 4.0 * parameters + 2.0 * trained
    if spec.activation_checkpointing:
        learned += 2.0 * parameters
    if spec.method == "dpo" or (spec.method == "grpo" and spec.grpo.kl_penalty):
        learned += 2.0 * parameters
    if spec.method == "grpo":
        learned += 2.0 * parameters
    return learned
