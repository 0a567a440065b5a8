"""What the scheduler's reasons mean for a job that waits."""

from __future__ import annotations

import pkgutil
import re
import subprocess
from pathlib import Path

import pytest

from nemo_slurm.reasons import WhoActs, read_reason

SAID = {
    # as squeue and scontrol of several versions print them
    "Resources": ("wait", ""),
    "(Priority)": ("wait", ""),
    "Licenses": ("wait", ""),
    "BeginTime": ("wait", ""),
    "Dependency": ("wait", ""),
    "AssocGrpCpuLimit": ("wait", ""),
    "AssocGrpGRES": ("wait", ""),
    "AssocGrpCPURunMinutesLimit": ("wait", ""),
    "QOSMaxJobsPerUserLimit": ("wait", ""),
    "QOSMaxGRESPerUser": ("wait", ""),
    "MaxCpuPerAccount": ("wait", ""),
    "JobHeldUser": ("you", "scontrol release 7"),
    "job requeued in held state": ("you", "scontrol release 7"),
    "job_requeued_in_held_state": ("you", "scontrol release 7"),
    "launch failed requeued held": ("you", "scontrol release 7"),
    "launch_failed_requeued_held": ("you", "scontrol release 7"),
    "JobHoldMaxRequeue": ("you", "scontrol release 7"),
    "Reservation_deleted": ("you", "scontrol release 7"),
    "PartitionTimeLimit": ("you", "scontrol update JobId=7 TimeLimit=TIME"),
    "QOSMaxWallDurationPerJobLimit": ("you", "scontrol update JobId=7 TimeLimit=TIME"),
    "AssocMaxWallDurationPerJobLimit": ("you", "scontrol update JobId=7 TimeLimit=TIME"),
    "BadConstraints": ("you", ""),
    "AssocMaxNodePerJobLimit": ("you", ""),
    "QOSMaxCpuPerJobLimit": ("you", ""),
    "QOSMinGRES": ("you", ""),
    "InvalidAccount": ("you", ""),
    "DependencyNeverSatisfied": ("you", ""),
    "JobHeldAdmin": ("operator", "scontrol release 7"),
    "AssocGrpCPUMinutesLimit": ("operator", "sshare"),
    "AssocGrpBillingMinutes": ("operator", "sshare"),
    "QOSGrpWallLimit": ("operator", "sshare"),
    "PartitionDown": ("operator", "sinfo --summarize"),
    "NodeDown": ("operator", "sinfo --list-reasons"),
    "ReqNodeNotAvail, May be reserved for other job": ("operator", "sinfo --list-reasons"),
    "ReqNodeNotAvail,_UnavailableNodes:n[1-4]": ("operator", "sinfo --list-reasons"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "operator",
        "sinfo --list-reasons",
    ),
}


@pytest.mark.parametrize("text", SAID)
def test_a_reason_says_what_it_means_whose_turn_it_is_and_what_helps(text: str) -> None:
    reason = read_reason(text)
    assert reason.meaning
    assert (reason.turn.value, reason.command("7")) == SAID[text]
    assert reason.text == f"{text.strip('()')}: {reason.meaning}"


def test_no_row_of_the_table_is_hidden_by_one_before_it() -> None:
    data = pkgutil.get_data("nemo_slurm", "reasons.tsv") or b""
    rows = [line.split("\t") for line in data.decode().splitlines() if line and not line.startswith("#")]
    found = [read_reason(name.replace("*", "Any")) for name, *_ in rows]
    assert [[one.turn.value, one.meaning, one.help] for one in found] == [row[1:] for row in rows]


@pytest.mark.parametrize("text", ["", "ShinyNewReason", "PriorityX", "waits for a free slot"])
def test_a_reason_that_nobody_has_heard_of_is_shown_as_it_is_and_nobodys_turn_is_guessed(text: str) -> None:
    reason = read_reason(text)
    assert (reason.text, reason.turn, reason.command("7")) == (text, WhoActs.UNKNOWN, "")


def test_what_needs_a_person_outweighs_what_passes_and_a_dependency_weighs_least() -> None:
    weights = [read_reason(text).weight for text in ("JobHeldUser", "Priority", "Dependency")]
    assert weights == sorted(weights, reverse=True)
    assert len(set(weights)) == 3


@pytest.mark.slow
def test_every_reason_of_the_installed_scheduler_is_known() -> None:
    libraries = list(Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so"))
    if not libraries:
        pytest.skip("no Slurm is installed here")
    done = subprocess.run(["grep", "-aoE", r"[A-Za-z]{4,60}", libraries[0]], capture_output=True, check=True)
    words = done.stdout.decode().split()
    words = words[words.index("FrontEndDown") :]
    found = {
        word
        for word in words
        if re.match(r"(Assoc(Grp|Max)|QOS(Grp|Max|Min)|JobHeld|Partition(Down|Node))", word)
    }
    assert len(found) > 90
    assert [word for word in found if read_reason(word).turn is WhoActs.UNKNOWN] == []
