"""Why a workload failed, and what helps."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_server.jobs.advice import ADVICE, FailureKind, RerunHelps
from nemo_helix_server.jobs.evidence import ExitFacts, FailureCause, classify
from nemo_helix_server.jobs.states import StatusReason


def can_help(cause: FailureCause) -> bool:
    return ADVICE[cause.kind].rerun is not RerunHelps.NEVER


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            StatusReason.OUT_OF_MEMORY,
        ),
        ("OSError: [Errno 28] No space left on device", StatusReason.DISK_FULL),
        ("MemoryError", StatusReason.OUT_OF_MEMORY),
        ("ModuleNotFoundError: No module named 'torch'", StatusReason.WORKLOAD_FAILED),
        (
            "python3: Error while finding module spec for 'a.b' (ModuleNotFoundError: No module named 'a')",
            StatusReason.WORKLOAD_FAILED,
        ),
        (
            "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory",
            StatusReason.OUT_OF_MEMORY,
        ),
    ],
)
def test_what_the_log_says_is_found_and_named(line: str, kind: StatusReason) -> None:
    cause = classify(ExitFacts(exit_status=1), ["step 3", line, "Traceback …", "exit"])
    assert (cause.reason, cause.resumable) == (kind, False)
    assert cause.message != "the workload exited with status 1"
    assert cause.rerun_warning is not None
    assert cause.advice is not None
    assert cause.advice in cause.rerun_warning


@pytest.mark.parametrize(
    ("facts", "kind", "resumable"),
    [
        (ExitFacts(exit_status=137, signal=9, out_of_memory=True), StatusReason.OUT_OF_MEMORY, False),
        (ExitFacts(exit_status=143, signal=15, timed_out=True, checkpoints=1), StatusReason.TIME_LIMIT, True),
        (ExitFacts(exit_status=143, signal=15, timed_out=True), StatusReason.TIME_LIMIT, False),
        (ExitFacts(exit_status=None, lost=True), StatusReason.LOST, True),
        (ExitFacts(exit_status=139, signal=11), StatusReason.WORKLOAD_FAILED, True),
        (ExitFacts(exit_status=1), StatusReason.WORKLOAD_FAILED, True),
        (ExitFacts(exit_status=2), StatusReason.WORKLOAD_FAILED, False),
        (ExitFacts(exit_status=5), StatusReason.WORKLOAD_FAILED, False),
        (ExitFacts(exit_status=1, environment_changed=True), StatusReason.WORKLOAD_FAILED, False),
    ],
)
def test_an_end_is_classified(facts: ExitFacts, kind: StatusReason, resumable: bool) -> None:
    cause = classify(facts, ["nothing known"])
    assert (cause.reason, cause.resumable) == (kind, resumable)
    assert (cause.rerun_warning is None) is resumable


def test_an_ordinary_failure_warns_of_nothing() -> None:
    found = classify(ExitFacts(exit_status=1), [])
    assert found == FailureCause(FailureKind.UNKNOWN, "the workload exited with status 1")
    assert found.reason is StatusReason.WORKLOAD_FAILED
    assert found.resumable


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ModuleNotFoundError: No module named 'flash_attn'", "flash_attn"),
        ("/usr/bin/python3: No module named nemo_engines.run", "nemo_engines.run"),
        ("Error while finding module spec for 'a.b' (ModuleNotFoundError: No module named 'a')", "module a,"),
        ("ImportError: cannot import name 'Trainer' from 'trl' (/x/trl/__init__.py)", "trl has no Trainer"),
    ],
)
def test_the_module_that_is_missing_is_named_and_for_whom(line: str, named: str) -> None:
    cause = classify(ExitFacts(exit_status=1, program="/opt/python"), [line])
    assert named in cause.message
    assert "/opt/python" in str(cause.advice)
    assert "`nemo jobs rerun NAME --workspace default`" in str(cause.advice)


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: No module named 'triton'; the slower kernels are used",
        "No module named 'flash_attn', falling back to sdpa",
        "skipping the check: [Errno 28] No space left on device",
    ],
)
def test_what_was_only_warned_of_is_no_cause(line: str) -> None:
    assert classify(ExitFacts(exit_status=1), [line, "ValueError: x"]).message.endswith("with status 1")


def test_what_the_trainer_says_by_its_exit_counts_more_than_its_log() -> None:
    log = ["No module named 'x'"]
    assert "diverged" in classify(ExitFacts(exit_status=5), log).message
    other = classify(ExitFacts(exit_status=2, contract=False), ["usage: tool"])
    assert (other.message, other.advice) == ("the workload exited with status 2", None)


CHANGED = "InputsChangedError"


@pytest.mark.parametrize(
    ("more", "helps", "says", "never"),
    [
        ({"error_type": CHANGED, "others": 3}, True, "put back what was there", "checkpoints list"),
        ({"error_type": CHANGED, "others": 3, "named": True}, True, "create a new job", "--checkpoint"),
        ({"others": 1}, True, "rerun NAME --workspace default --checkpoint ID", "put back"),
        ({"others": 1, "named": True}, True, "checkpoints list NAME", "put back"),
        ({"others": 0}, False, "no other one to go on from: create a new job", "rerun"),
        ({"others": 0, "named": True}, False, "create a new job", "rerun"),
    ],
)
def test_the_advice_about_a_checkpoint_fits_its_cause(
    more: dict[str, Any], helps: bool, says: str, never: str
) -> None:
    cause = classify(ExitFacts(exit_status=4, **more), [])
    assert can_help(cause) is helps
    assert says in str(cause.advice)
    assert never not in str(cause.advice)


def test_memory_is_told_from_a_limit_of_it() -> None:
    limited = classify(ExitFacts(exit_status=137, out_of_memory=True, memory_limited=True), [])
    machine = classify(ExitFacts(exit_status=137, out_of_memory=True), [])
    assert "resources.limits.memory" in str(limited.advice)
    assert not can_help(limited)
    assert "limit" not in str(machine.advice)
    assert can_help(machine)


def test_no_advice_says_rerun_where_a_rerun_cannot_help_and_each_has_one_command_as_it_is_typed() -> None:
    ends = [
        ExitFacts(
            exit_status=status, timed_out=late, out_of_memory=full, memory_limited=limited, others=others
        )
        for status in (1, 2, 3, 4, 5)
        for late, full in ((False, False), (True, False), (False, True))
        for limited in (False, True)
        for others in (0, 1)
    ]
    lines = ["CUDA out of memory", "No space left on device", "MemoryError", "No module named 'x'", "nothing"]
    for facts in ends:
        for line in lines:
            cause = classify(facts, [line])
            assert can_help(cause) or "rerun" not in str(cause.advice), cause
            assert "`nemo jobs rerun --" not in str(cause.advice), cause


@pytest.mark.parametrize(
    ("line", "kind", "file"),
    [
        (
            "PermissionError: [Errno 13] Permission denied: '/data/train.jsonl'",
            FailureKind.NO_PERMISSION,
            "/data/",
        ),
        ("PermissionError: [Errno 1] Operation not permitted: '/x'", FailureKind.NO_PERMISSION, "'/x'"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'a b.json'",
            FailureKind.NO_FILE,
            "'a b.json'",
        ),
        ("OSError: [Errno 122] Disk quota exceeded: '/x'", FailureKind.DISK_FULL, ""),
        ("KeyError: 'x'", FailureKind.UNKNOWN, ""),
        (
            "skipping 'a': FileNotFoundError: [Errno 2] No such file or directory: 'a'",
            FailureKind.UNKNOWN,
            "",
        ),
    ],
)
def test_a_file_that_is_missing_or_forbidden_is_named_and_nothing_is_rerun_before_it_is_there(
    line: str, kind: FailureKind, file: str
) -> None:
    cause = classify(ExitFacts(exit_status=1), [line])
    assert cause.kind is kind
    assert file in cause.message
    assert file in str(cause.advice) or not file
    assert cause.resumable is (kind is FailureKind.UNKNOWN)


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"
CAUSED = "The above exception was the direct cause of the following exception:"
HANDLED = "During handling of the above exception, another exception occurred:"


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (["step 3 loss 0.5", "RuntimeError: NCCL error: unhandled system error"], FailureKind.UNKNOWN),
        ([HANDLED, "ValueError: not one of the known devices"], FailureKind.UNKNOWN),
        (["[rank1]: torch.distributed.DistBackendError: timed out"], FailureKind.UNKNOWN),
        (["RuntimeError: CUDA out of memory. Tried to allocate 20 MiB"], FailureKind.GPU_MEMORY),
        ([CAUSED, "OSError: the tokenizer cannot be loaded"], FailureKind.NO_FILE),
        (["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "], FailureKind.NO_FILE),
        (["subprocess.CalledProcessError: Command 'x' returned 1"], FailureKind.NO_FILE),
        (["step 4 loss 0.4"], FailureKind.NO_FILE),
    ],
)
def test_a_file_that_a_program_did_without_is_no_cause_of_an_error_that_follows(
    after: list[str], kind: FailureKind
) -> None:
    assert classify(ExitFacts(exit_status=1), [MISSING, *after]).kind is kind


def test_a_command_that_cannot_be_run_is_not_run_again_as_it_is() -> None:
    cause = classify(ExitFacts(exit_status=127, no_program="/no/such", program="python"), [])
    assert (cause.kind, cause.message) == (FailureKind.NO_PROGRAM, "/no/such cannot be run there")
    assert str(cause.advice).startswith("make /no/such a program that can be run")
