"""The loss of each engine, as far as it decides what is kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nemo_engines.spec import EngineSpec

Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def loss_of(spec: EngineSpec) -> Loss:
    """What gives the loss of token ids, of shape sequences x tokens, by a causal language model."""
    return _of_all_logits if spec.engine == "automodel" else _in_tiles


def _of_all_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits of all tokens in fp32, as NeMo Automodel's ``MaskedCrossEntropy`` has it."""
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())


def _in_tiles(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The loss of TRL's trainers, which never has the logits of all tokens and words at once."""
    from trl.trainer import utils  # noqa: PLC0415 - only where its engine is

    vocabulary = model.get_output_embeddings().weight.shape[0]
    # of a tile that is wider than the vocabulary, what lies beyond is never touched
    utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(utils._CHUNKED_LOGPROB_CHUNK_SIZE, vocabulary)  # noqa: SLF001
    if not getattr(model, "scores_in_tiles", False):
        utils.add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))
        model.scores_in_tiles = True
    mask = torch.ones_like(ids)
    found = model(input_ids=ids, attention_mask=mask, labels=ids, use_cache=False, fused_lm_head=True)
    return -found.log_probs.sum()
