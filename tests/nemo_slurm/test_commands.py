"""Argument lists of Slurm's commands."""

from __future__ import annotations

import pytest
from tests.sbatch_replies import REPLIES

from nemo_slurm import commands
from nemo_slurm.errors import SchedulerRefusedError, SubmitLimitError, UnusableValueError
from nemo_slurm.records import SlurmJob


@pytest.mark.parametrize(("text", "number", "cluster", "plain"), REPLIES)
def test_the_id_is_found_among_what_a_site_prints_or_not_guessed(
    text: str, number: str, cluster: str, plain: bool
) -> None:
    job = SlurmJob(number, cluster or None) if number else None
    assert commands.read_reply(text) == commands.Reply(job, plain)


def test_a_submission_is_one_argument_list_whatever_its_words_hold() -> None:
    argv = commands.sbatch("-odd script.sh", ["a b", "--flag"], token="run/x/1", dependency="afternotok:7")
    assert argv == [
        "sbatch", "--parsable", "--comment=run/x/1", "--dependency=afternotok:7", "--", "-odd script.sh",
        "a b", "--flag",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
        "sbatch: error: Batch job submission failed: Unexpected message received",
        "slurm_receive_msg: Transport endpoint is not connected",
        "",
    ],
)
def test_an_answer_that_leaves_the_outcome_open_is_not_a_refusal(text: str) -> None:
    assert commands.is_uncertain(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "Batch job submission failed: Invalid account or account/partition combination",
            SchedulerRefusedError,
        ),
        ("Batch job submission failed: Requested node configuration is not available", SchedulerRefusedError),
        ("AssocMaxSubmitJobLimit\nJob violates accounting/QOS policy (job submit limit)", SubmitLimitError),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", SubmitLimitError),
        (
            "QOSMaxWallDurationPerJobLimit\nJob violates accounting/QOS policy (job submit limit)",
            SchedulerRefusedError,
        ),
        ("sbatch: error: AssocMaxWallDurationPerJobLimit", SchedulerRefusedError),
        ("QOSMaxNodePerJobLimit\nJob violates accounting/QOS policy", SchedulerRefusedError),
        ("Batch job submission failed: Access/permission denied", SchedulerRefusedError),
    ],
)  # fmt: skip
def test_a_refusal_is_told_from_a_limit_that_passes(text: str, kind: type[SchedulerRefusedError]) -> None:
    assert not commands.is_uncertain(text)
    error = commands.refusal(1, text, "login1")
    assert type(error) is kind
    assert error.text == text
    assert "login1" in str(error)


def test_many_ids_are_asked_for_in_few_calls_by_cluster_and_once_each() -> None:
    jobs = [SlurmJob(str(n)) for n in range(1, 2501)] + [
        SlurmJob("7"),
        SlurmJob("7", "west", submitted_at=5.0),
    ]
    calls = commands.queue(jobs)
    ids = [argv[argv.index("-j") + 1].split(",") for argv in calls]
    assert [len(some) for some in ids] == [1000, 1000, 500, 1]
    assert calls[-1][-3:] == ["--clusters=west", "-j", "7"]
    assert len(commands.accounting(jobs)) == 4


def test_waiting_jobs_are_cancelled_before_all_others_with_one_state_a_call() -> None:
    assert commands.cancel([SlurmJob("1"), SlurmJob("2")]) == [
        ["scancel", "--state=PENDING", "1", "2"],
        ["scancel", "1", "2"],
    ]


@pytest.mark.parametrize("number", ["", "0", "-1", "1 2", "1;", "$(x)", "1_3", "12;a b"])
def test_what_is_not_a_number_of_a_job_reaches_no_command(number: str) -> None:
    with pytest.raises(UnusableValueError):
        commands.cancel([SlurmJob(number)])


def test_the_cleaning_of_the_environment_keeps_the_way_to_the_cluster() -> None:
    from nemo_slurm.calls import HostCalls
    from nemo_slurm.hosts import LocalHost

    given = dict.fromkeys(
        ["SLURM_CPU_BIND", "SBATCH_X", "PMIX_RANK", "PMI_FD", "OMPI_COMM", "SLURMD_NODENAME"], "1"
    )
    kept = {"SLURM_CONF": "/c", "SLURM_JWT": "t", "SLURMY": "mine", "MY_SLURM_X": "mine"}
    (answer,) = HostCalls(LocalHost()).call([["env"]], env=given | kept)
    found = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    assert {name: found.get(name) for name in kept} == kept
    assert not given.keys() & found.keys()
    assert (found["LC_ALL"], found["SLURM_TIME_FORMAT"]) == ("C", "%s")


def test_several_commands_have_one_answer_each_in_one_round_trip() -> None:
    from nemo_slurm.calls import HostCalls
    from nemo_slurm.hosts import LocalHost

    argvs = [["printf", "a\nb"], ["sh", "-c", "echo bad >&2; exit 3"], ["cat"], ["printf", "x'y\n"]]
    answers = HostCalls(LocalHost()).call(argvs)
    assert [(a.status, a.stdout, a.stderr) for a in answers] == [
        (0, "a\nb", ""),
        (3, "", "bad\n"),
        (0, "", ""),
        (0, "x'y\n", ""),
    ]


def test_a_command_that_hangs_is_ended_on_the_host_and_counts_as_silence() -> None:
    from nemo_slurm.calls import HostCalls
    from nemo_slurm.errors import NotReachableError
    from nemo_slurm.hosts import LocalHost

    with pytest.raises(NotReachableError, match="sleep on this machine gave no answer"):
        HostCalls(LocalHost()).call([["sleep", "30"]], timeout=0.2)


def test_a_host_that_cannot_be_reached_is_told_once() -> None:
    from nemo_slurm.cluster import Cluster
    from nemo_slurm.errors import NotReachableError
    from nemo_slurm.hosts import Completed, LocalHost

    class Away(LocalHost):
        def run(self, *_args: object, **_options: object) -> Completed:
            raise NotReachableError("cannot reach 'x'")

    with pytest.raises(NotReachableError) as caught:
        Cluster(Away()).observe([SlurmJob("1")])
    assert str(caught.value) == "neither the controller nor accounting answers: cannot reach 'x'"
