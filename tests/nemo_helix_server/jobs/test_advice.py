"""The table of what helps: complete, and without an advice that cannot help."""

from __future__ import annotations

import re

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.launches import LaunchError
from nemo_helix_server.executors.base import (
    MachineTooSmallError,
    NeverPossibleError,
    NotConfinedError,
    RefusedByClusterError,
)
from nemo_helix_server.jobs.advice import ADVICE, OF_REASON, FailureKind, RerunHelps, advised, rerun_details
from nemo_helix_server.jobs.states import REASONS, StatusReason

FAILURES = sorted(reason for reason, status in REASONS.items() if status is Status.ERROR)
WORDS = {"job": "llama", "workspace": "team", "program": "/opt/python", "file": "'/data/x'"}


def test_every_kind_has_an_advice_and_every_reason_of_an_error_has_a_kind() -> None:
    assert set(ADVICE) == set(FailureKind)
    assert {row.reason for row in ADVICE.values()} == set(FAILURES)


@pytest.mark.parametrize("reason", FAILURES)
def test_a_reason_that_the_controller_gives_leads_to_an_advice_for_that_reason(reason: StatusReason) -> None:
    if reason in OF_REASON:
        assert ADVICE[OF_REASON[reason]].reason is reason
    else:  # how the workload ended says more
        assert reason in {StatusReason.WORKLOAD_FAILED, StatusReason.OUT_OF_MEMORY, StatusReason.TIME_LIMIT}


@pytest.mark.parametrize("kind", list(FailureKind))
def test_what_is_advised_fits_whether_a_rerun_helps(kind: FailureKind) -> None:
    helps, text = ADVICE[kind].rerun, advised(kind, **WORDS) or ""
    assert not re.search(r"[{}]", text)
    commands = re.findall("`(nemo [^`]*)`", text)
    assert all("llama --workspace team" in command for command in commands)
    reruns = any("rerun" in command for command in commands)
    if helps is RerunHelps.NEVER:
        assert not reruns
        assert "new job" in text
    if helps is RerunHelps.AFTER_CHANGE:
        # the client offers no command, so the advice has it, behind what is to be done first
        assert reruns
        assert not text.startswith("`nemo jobs rerun")
    said = rerun_details(kind, "goes on")
    assert said["rerun"] == (None if helps is RerunHelps.NEVER else "goes on")
    assert said["rerun_after_change"] is (helps is RerunHelps.AFTER_CHANGE)


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (MachineTooSmallError("j asks for 8 GPU devices, and this machine has 2"), RerunHelps.NEVER),
        (LaunchError("'12Q' is not an amount", kind=FailureKind.START_SPEC), RerunHelps.NEVER),
        (LaunchError("there is no engine trl here"), RerunHelps.AFTER_CHANGE),
        (NeverPossibleError("the profile is not one of a Slurm cluster any more"), RerunHelps.AFTER_CHANGE),
        (NotConfinedError("a cluster cannot keep steps apart"), RerunHelps.AFTER_CHANGE),
        (RefusedByClusterError("the cluster does not take the job: Invalid qos"), RerunHelps.AFTER_CHANGE),
    ],
)
def test_a_start_that_was_refused_is_not_offered_again_as_it_is(
    error: LaunchError | NeverPossibleError, helps: RerunHelps
) -> None:
    assert ADVICE[error.kind].rerun is helps
    assert ADVICE[error.kind].reason is StatusReason.START_FAILED
