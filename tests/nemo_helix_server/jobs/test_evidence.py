from __future__ import annotations

import pytest

from nemo_helix_server.jobs.evidence import Cause, ExitFacts, classify
from nemo_helix_server.jobs.states import Reason


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", Reason.OUT_OF_MEMORY),
        ("OSError: [Errno 28] No space left on device", Reason.DISK_FULL),
        ("MemoryError", Reason.OUT_OF_MEMORY),
        ("ModuleNotFoundError: No module named 'torch'", Reason.WORKLOAD_FAILED),
        ("python3: Error while finding module (ModuleNotFoundError: …)", Reason.WORKLOAD_FAILED),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", Reason.OUT_OF_MEMORY),
    ],
)
def test_what_the_log_says_is_found_and_named(line: str, kind: Reason) -> None:
    cause = classify(ExitFacts(exit_status=1), ["step 3", line, "Traceback …", "exit"])
    assert (cause.kind, cause.resumable) == (kind, False)
    assert cause.rerun_warning is not None
    assert cause.advice is not None
    assert cause.advice in cause.rerun_warning


@pytest.mark.parametrize(
    ("facts", "kind", "resumable"),
    [
        (ExitFacts(exit_status=137, signal=9, out_of_memory=True), Reason.OUT_OF_MEMORY, False),
        (ExitFacts(exit_status=143, signal=15, timed_out=True), Reason.TIME_LIMIT, True),
        (ExitFacts(exit_status=None, lost=True), Reason.LOST, True),
        (ExitFacts(exit_status=139, signal=11), Reason.WORKLOAD_FAILED, True),
        (ExitFacts(exit_status=1), Reason.WORKLOAD_FAILED, True),
        (ExitFacts(exit_status=2), Reason.WORKLOAD_FAILED, False),
        (ExitFacts(exit_status=5), Reason.WORKLOAD_FAILED, False),
        (ExitFacts(exit_status=1, environment_changed=True), Reason.WORKLOAD_FAILED, False),
    ],
)
def test_an_end_is_classified(facts: ExitFacts, kind: Reason, resumable: bool) -> None:
    cause = classify(facts, ["nothing known"])
    assert (cause.kind, cause.resumable) == (kind, resumable)
    assert (cause.rerun_warning is None) is resumable


def test_an_ordinary_failure_warns_of_nothing() -> None:
    assert classify(ExitFacts(exit_status=1), []) == Cause(
        Reason.WORKLOAD_FAILED, "the workload exited with status 1", None, resumable=True
    )
