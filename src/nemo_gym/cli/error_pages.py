"""Which page of the documentation explains an error of `gym`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nemo_cli.docs_pages import topic_of

TOPICS: Final[Mapping[str, str]] = {
    "ResumeRefusedError": "identity",
    "UnlikeRunsError": "compare",
    "NotOursError": "operate-runs",
    "StillAliveError": "operate-runs",
    "SubmitError": "operate-runs",
    "SandboxError": "sandboxes",
    "HarnessError": "run-lm-eval-tasks",
    "NoTokenizerDataError": "run-lm-eval-tasks",
    "EndpointError": "run-and-resume",
    "NotSentError": "be-notified",
    "NotReachableError": "submit-to-slurm",
    "SchedulerRefusedError": "submit-to-slurm",
    "SecretReferenceError": "secrets",
    "ProxyError": "environment",
}
"""Classes of errors, and the topic of the page that explains each."""
OF_CONFIGS: Final[Mapping[str, str]] = {
    "submit": "submit-config",
    "check": "submit-config",
    "run": "run-config",
    "preview": "run-config",
    "prepare": "run-config",
}
"""Commands that read a configuration, and the reference of its keys."""


def explaining(error: Exception, words: Sequence[str]) -> str | None:
    """The topic that explains an error of a command of these words; ``None`` where a page would not help."""
    found = topic_of(error, TOPICS)
    if found is None and topic_of(error, {"ConfigError": ""}) is not None and not str(error).startswith("--"):
        return next((OF_CONFIGS[word] for word in words[:3] if word in OF_CONFIGS), None)
    return found
