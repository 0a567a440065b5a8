"""Names that experiment trackers take: others are refused before a job is made, or made to fit."""

from __future__ import annotations

import posixpath
import re

LONGEST_WANDB = 128
LONGEST_WANDB_TAG = 64
LONGEST_EXPERIMENT = 500
LONGEST_TAG = 250
LONGEST_TAG_VALUE = 8000
_NOT_IN_A_PROJECT = "/\\#?%:"
_TAG = re.compile(r"[/\w.\- :]+")
_OWN = "mlflow."


def project_problem(name: str) -> str | None:
    """What W&B has against a project or an entity; `None` when it takes it."""
    found = [sign for sign in name if sign in _NOT_IN_A_PROJECT or not sign.isprintable()]
    if found:
        return f"{found[0]!r} is not taken by W&B in this name; use letters, digits, - and _"
    return run_problem(name)


def run_problem(name: str) -> str | None:
    """What W&B has against the name of a run; `None` when it takes it."""
    if not name.strip():
        return "an empty name is not taken by W&B"
    if len(name) > LONGEST_WANDB:
        return f"it has {len(name)} characters; W&B takes at most {LONGEST_WANDB}"
    return None


def wandb_tag_problem(tag: str) -> str | None:
    """What W&B has against a tag; `None` when it takes it."""
    if not tag.strip() or len(tag) > LONGEST_WANDB_TAG:
        return f"a tag of W&B has 1 to {LONGEST_WANDB_TAG} characters, this one {len(tag)}"
    return None


def experiment_problem(name: str) -> str | None:
    """What MLflow has against the name of an experiment or a run; `None` when it takes it."""
    if not name.strip():
        return "an empty name is not taken by MLflow"
    if len(name) > LONGEST_EXPERIMENT:
        return f"it has {len(name)} characters; MLflow takes at most {LONGEST_EXPERIMENT}"
    return None


def tag_problem(name: str, value: str) -> str | None:
    """What MLflow has against a tag; `None` when it takes it."""
    if not _TAG.fullmatch(name):
        return f"a tag of MLflow is named by letters, digits, _ - . / : and spaces, not {name[:100]!r}"
    path = posixpath.normpath(name)
    if path != name or path == "." or path.startswith(("..", "/")):
        return f"a tag of MLflow may not read as another path: {name[:100]!r}"
    if name.startswith(_OWN):
        return f"tags that begin with {_OWN} are kept by MLflow for itself"
    if len(name) > LONGEST_TAG or len(value) > LONGEST_TAG_VALUE:
        return f"a tag of MLflow has {LONGEST_TAG} characters at most, and its value {LONGEST_TAG_VALUE}"
    return None


def fitted_project(name: str) -> str:
    """The nearest project that W&B takes."""
    signs = (("-" if sign in _NOT_IN_A_PROJECT or not sign.isprintable() else sign) for sign in name)
    return fitted_run("".join(signs))


def fitted_run(name: str) -> str:
    """The nearest name of a run that W&B takes."""
    return name[:LONGEST_WANDB].strip() or "unnamed"


def fitted_experiment(name: str) -> str:
    """The nearest name that MLflow takes."""
    return name[:LONGEST_EXPERIMENT].strip() or "unnamed"


def fitted_tags(tags: dict[str, str]) -> dict[str, str]:
    """Tags that MLflow takes: names and values that it refuses become the nearest that it takes."""
    found: dict[str, str] = {}
    for name, value in tags.items():
        near = name if tag_problem(name, "") is None else re.sub(r"[^\w\- ]+", "_", name)[:LONGEST_TAG]
        found[near.strip() or "unnamed"] = value[:LONGEST_TAG_VALUE]
    return found
