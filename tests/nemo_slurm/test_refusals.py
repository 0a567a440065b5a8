"""Whose doing it is that a job was not taken."""

from __future__ import annotations

import pytest

from nemo_slurm import commands
from nemo_slurm.refusals import Whose, read_refusal

FAILED = "sbatch: error: Batch job submission failed: "
SAID = {
    # of Slurm 22.05 to 24.11 and of sites' own programs
    f"{FAILED}Invalid account or account/partition combination specified": "config",
    f"{FAILED}Invalid qos specification": "config",
    f"{FAILED}Invalid partition name specified": "config",
    f"{FAILED}No partition specified or system default partition": "config",
    f"{FAILED}User's group not permitted to use this partition": "config",
    f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)": "config",
    f"{FAILED}Requested node configuration is not available": "config",
    f"{FAILED}Requested partition configuration not available now": "config",
    f"{FAILED}Node count specification invalid": "config",
    "sbatch: error: Memory specification can not be satisfied\n"
    f"{FAILED}Requested node configuration is not available": "config",
    "sbatch: error: CPU count per node can not be satisfied": "config",
    f"{FAILED}More processors requested than permitted": "config",
    f"{FAILED}Invalid feature specification": "config",
    f"{FAILED}Invalid generic resource (gres) specification": "config",
    f"{FAILED}Requested reservation is invalid": "config",
    f"{FAILED}Access denied to requested reservation": "config",
    f"{FAILED}Invalid license specification": "config",
    f"{FAILED}Invalid node name specified": "config",
    "sbatch: error: Invalid --time specification": "config",
    "sbatch: unrecognized option '--kill-on-invalid-dep=yes'": "config",
    f"{FAILED}Pathname of a file, directory or other parameter too long": "config",
    f"{FAILED}Job dependency problem": "config",
    f"{FAILED}Access/permission denied": "config",
    "sbatch: error: AssocMaxSubmitJobLimit\n"
    f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)": "limit",
    "sbatch: error: QOSMaxSubmitJobPerUserLimit": "limit",
    f"{FAILED}Unable to contact slurm controller (connect failure)": "scheduler",
    f"{FAILED}Socket timed out on send/recv operation": "scheduler",
    f"{FAILED}Zero Bytes were transmitted or received": "scheduler",
    f"{FAILED}Slurm temporarily unable to accept job, sleeping and retrying": "scheduler",
    f"{FAILED}I/O error writing script/environment to file": "scheduler",
    f"{FAILED}Protocol authentication error": "scheduler",
    "the scheduler was not asked: for a it gave no answer": "scheduler",
    "cat: write error: Disk quota exceeded": "disk",
    "cat: write error: No space left on device": "disk",
    "sbatch: error: lua: please name a project": "unknown",
    "": "unknown",
}


@pytest.mark.parametrize("text", SAID)
def test_a_refusal_says_whose_it_is_and_what_has_to_be_so(text: str) -> None:
    found = read_refusal(text)
    assert found.whose.value == SAID[text]
    assert bool(found.help) == (found.whose is not Whose.UNKNOWN)


def test_what_a_limit_turned_down_is_a_limit_for_whoever_submits_too() -> None:
    for text, whose in SAID.items():
        limited = type(commands.refusal(1, text, "here")).__name__ == "SubmitLimitError"
        assert limited == (whose == "limit"), text
