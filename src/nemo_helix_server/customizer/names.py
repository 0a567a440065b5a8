"""Names that are made up for those who give none: of jobs, trained models and their filesets."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import PurePosixPath

from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import InvalidError

SOURCE = "customization"
"""What every fine-tuning job says it comes from."""
LONGEST_STEM = 50
_DATA_SUFFIXES = (".gz", ".jsonl", ".json", ".parquet", ".csv", ".txt")


def token(workspace: str, key: str | None) -> str:
    """Twelve hex digits: random, or the same ones for a request that is repeated under the same key."""
    if key is None:
        return secrets.token_hex(6)
    return hashlib.sha256(f"{workspace}\0{key}".encode()).hexdigest()[:12]


def job_name(backend: str, digits: str) -> str:
    """A job's name, such as ``automodel-a1b2c3d4e5f6``."""
    return f"{backend}-{digits}"


def basename(reference: str) -> str:
    """The last part of a reference, without the suffixes of data files."""
    last = PurePosixPath(reference.rstrip("/")).name
    shorter = True
    while shorter:
        shorter = False
        for suffix in _DATA_SUFFIXES:
            if last.lower().endswith(suffix) and len(last) > len(suffix):
                last, shorter = last[: -len(suffix)], True
    return last


def slug(text: str) -> str:
    """A text as part of a name: lowercase letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class OutputNames:
    """What the trained model is called, and the fileset with its weights."""

    name: str
    fileset: str


def output_names(given: str | None, model: str, dataset: str, digits: str) -> OutputNames:
    """Names for what a job makes; raises `InvalidError` for a given one that cannot be used."""
    if given is None:
        stem = re.sub(r"^[^a-z]+", "", slug(f"{basename(model)}-{basename(dataset)}"))
        stem = stem[:LONGEST_STEM].strip("-") or SOURCE
        return OutputNames(f"{stem}-{digits}", f"{stem}-{digits}")
    problem = names.problem_with(given, longest=LONGEST_STEM)
    if problem:
        raise InvalidError(f"output.name: {problem}")
    return OutputNames(given, f"{given}-{digits}")
