"""Rules for names: entities, environment variables, and which of those belong to the platform."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from nemo_runs.counts import counted

SHORTEST = 2
LONGEST = 63
LONGEST_JOB = 51
"""A job without an ``output_location`` owns the fileset ``job-fileset-<name>``, a name that must fit too."""

ALL = "-"
"""In place of a workspace or job in a list's path: all of them."""

MAY_BE_SET = frozenset({"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"})
"""Having this variable is how a step asks for storage that outlives it; the service sets its value."""

_ENTITY = re.compile(r"[a-z][a-z0-9@.+_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(
    r"NEMO_JOB_.*|NHX_[A-Z0-9_]*URL|NHX_(PRINCIPAL|ACCESS_TOKEN|WORKLOAD_IDENTITY_TOKEN_FILE)",
)


def problem_with(name: str, *, longest: int = LONGEST) -> str | None:
    """What is wrong with an entity's name, as a sentence; None when nothing is."""
    if not SHORTEST <= len(name) <= longest:
        return f"the name {name!r} has {counted(len(name), 'character')}; {SHORTEST} to {longest} are allowed"
    if not "a" <= name[0] <= "z":
        return f"the name {name!r} must start with a lowercase letter"
    if not _ENTITY.fullmatch(name):
        return f"the name {name!r} may hold only lowercase letters, digits and - @ . + _"
    if "--" in name or name.endswith("-"):
        return f"the name {name!r} may not hold a double hyphen or end in a hyphen"
    return None


def entity_name(name: str) -> str:
    """``name`` itself if it is allowed for an entity; raises ValueError with one sentence."""
    problem = problem_with(name)
    if problem:
        raise ValueError(problem)
    return name


def is_reserved(variable: str) -> bool:
    """Whether an environment variable is set by the platform alone."""
    return variable not in MAY_BE_SET and bool(_RESERVED.fullmatch(variable))


def environment_name(variable: str) -> str:
    """``variable`` itself if a step may set it; raises ValueError with one sentence."""
    if not _VARIABLE.fullmatch(variable):
        rule = "may hold only letters, digits and underscores, and not start with a digit"
        raise ValueError(f"the environment variable {variable!r} {rule}")
    if is_reserved(variable):
        raise ValueError(f"the environment variable {variable} is set by the platform; choose another name")
    return variable


def secret_reference(name: str) -> str:
    """``name`` itself if it is a secret's name, alone or as ``workspace/name``; raises ValueError."""
    workspace, slash, rest = name.partition("/")
    if not slash:
        return entity_name(name)
    entity_name(workspace)
    entity_name(rest)
    return name


EntityName = Annotated[str, AfterValidator(entity_name)]
EnvironmentName = Annotated[str, AfterValidator(environment_name)]
SecretReference = Annotated[str, AfterValidator(secret_reference)]
