"""What may be published about a training: settings, steps and losses; no path, no address, no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_SETTINGS = """
    training_type type finetuning_type recipe precision max_seq_length seed epochs max_steps
    warmup_steps learning_rate min_learning_rate weight_decay adam_beta1 adam_beta2 adam_eps
    optimizer lr_decay_style lr_scheduler global_batch_size micro_batch_size batch_size
    gradient_accumulation rank alpha dropout beta target_modules num_generations temperature
    merge sequence_packing loss_type ref_policy_kl_penalty preference_loss_weight
    sft_loss_weight num_prompts_per_step
"""
"""Names of settings that say how a model was trained, whichever part of the spec they are in."""
_NAMES = frozenset(_SETTINGS.split())
_PRIVATE = frozenset(("env_vars", "integrations", "environment", "hub"))
"""Parts of a spec whose names and values are its owner's."""
_DATA = re.compile(r"(hf://)?[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
"""Names of filesets and of data at the hub; a path of the service's machine is left out."""


def of_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a customization job, as the service answers it."""
    spec = job.get("spec") if isinstance(job.get("spec"), Mapping) else {}
    details = job.get("status_details") if isinstance(job.get("status_details"), Mapping) else {}
    assert isinstance(spec, Mapping)
    assert isinstance(details, Mapping)
    found = {
        "job": job.get("name"),
        "backend": spec.get("backend"),
        "engine": spec.get("engine"),
        "dataset": _data(spec.get("dataset")),
        "settings": dict(sorted(_settings(spec, ""))),
        "steps": details.get("step"),
        "losses": {
            name: value
            for name, value in sorted(details.items())
            if name.endswith("_loss") and isinstance(value, int | float)
        },
        "completed_at": job.get("updated_at") if job.get("status") == "completed" else None,
    }
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


def _data(given: Any) -> list[str]:
    """The names of data sets; whatever is a path is left out."""
    parts = list(given.values()) if isinstance(given, Mapping) else [given]
    return [part for part in parts if isinstance(part, str) and _DATA.fullmatch(part)]


def _settings(part: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        where = f"{path}{name}"
        if name in _PRIVATE:
            continue
        if isinstance(value, Mapping):
            yield from _settings(value, f"{where}.")
        elif name in _NAMES and path and _is_plain(value):
            yield where, value


def _is_plain(value: Any) -> bool:
    """A number, a word or words: nothing that could be a path or an address."""
    if isinstance(value, list):
        return bool(value) and all(_is_plain(one) for one in value)
    if isinstance(value, str):
        return re.fullmatch(r"[\w.+-]{1,80}", value) is not None
    return isinstance(value, int | float)
