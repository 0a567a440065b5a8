"""States, reasons, causes, ages and advice from evidence alone."""

import re
from dataclasses import replace

import pytest
from tests.nemo_gym.orchestration.evidence_files import (
    ID,
    NOW,
    collected,
    decision,
    known,
    link,
    progress,
    saw,
)

from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.cli import submissions
from nemo_gym.orchestration.status.report import SubmissionStatus, assess, narrowed, of_submissions, to_json
from nemo_gym.orchestration.status.report_text import status_text


def ends(word, **values):
    """A run that the scheduler saw end."""
    state = {"COMPLETED": "SUCCEEDED", "CANCELLED": "CANCELLED"}.get(word, "FAILED")
    return known(link("1.0", **values), seen={"1": saw(state, word=word)})


def told(status):
    return (str(status.state), status.cause and str(status.cause))


def test_a_job_that_waits_is_queued_with_the_schedulers_reason():
    status = assess(known(seen={"1": saw("QUEUED", "Priority")}))
    assert (status.state, status.job_id) == ("queued", "1")
    assert status.reason == "Priority: jobs of higher priority come first"
    assert status.next_command == f"gym job watch {ID}"


def test_a_running_benchmark_shows_progress_over_all_runs_and_the_time_left_now():
    evidence = known(
        link("1.0", end="drained 75 walltime\n"),
        link("2.0", started=NOW - 50),
        progress(done=6, age=20.0),
        seen={"2": saw("RUNNING")},
    )
    status = assess(evidence)
    assert (status.state, status.job_id, status.links) == ("running", "2", 2)
    assert (status.done, status.expected, status.mean_reward) == (6, 10, 0.25)
    assert status.eta_s == pytest.approx(40.0)
    assert status.progress_age_s == pytest.approx(20.0)
    assert "6/10 (20 s ago)  25.0%        40 s  2 (run 2)" in status_text(of_submissions([evidence]))
    assert status.next_command == f"gym job logs {ID} gpqa -f"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("TIMEOUT", ("failed", "infrastructure")),
        ("PREEMPTED", ("failed", "infrastructure")),
        ("NODE_FAIL", ("failed", "infrastructure")),
        ("BOOT_FAIL", ("failed", "infrastructure")),
        ("FAILED", ("failed", "your code")),
        ("OUT_OF_MEMORY", ("failed", "your code")),
        ("CANCELLED", ("cancelled", "a person")),
        ("COMPLETED", ("failed", "infrastructure")),
        ("NEVER_HEARD_OF", ("failed", "your code")),
    ],
)
def test_what_the_scheduler_did_is_told_apart_from_what_your_code_did(word, expected):
    assert told(assess(ends(word))) == expected


def test_the_cause_beats_the_symptom():
    status = assess(
        ends("PREEMPTED", end="service_died 1 none\nservice policy ended", service_died="policy 1")
    )
    assert told(status) == ("failed", "infrastructure")
    assert status.reason.startswith("PREEMPTED")
    assert status.next_command == f"gym job resubmit {ID} gpqa"


def test_a_service_that_died_by_itself_is_named_with_its_log():
    status = assess(ends("FAILED", end="service_died 1 none\npolicy ended with 3", service_died="policy 3"))
    assert (told(status), status.reason) == (("failed", "your code"), "policy ended with 3")
    assert status.next_command == f"gym job logs {ID} gpqa policy --tail 50"


@pytest.mark.parametrize(
    ("reason", "log"),
    [
        ("prepare ended with exit status 1; see logs/prepare-1.log", "prepare"),
        ("the driver ended with exit status 3; see /runs/a/gpqa/logs/driver-1.log", "driver"),
        ("no free port was found", "job"),
    ],
)
def test_a_failure_leads_to_the_log_that_says_more(reason, log):
    status = assess(ends("FAILED", end=f"failed 1 none\n{reason}"))
    assert status.next_command == f"gym job logs {ID} gpqa {log} --tail 50"


def test_a_successor_that_stepped_aside_for_its_twin_is_not_the_last_run():
    evidence = known(
        link("1.0", end="drained 75 walltime\n"),
        link("2.0", started=NOW - 50),
        link("3.0", started=NOW - 40, decision=decision("stop", "running", "job 2 goes on already")),
        seen={"2": saw("RUNNING"), "3": saw("SUCCEEDED", word="COMPLETED")},
    )
    assert (assess(evidence).state, assess(evidence).job_id) == ("running", "2")


def test_proof_of_completeness_outranks_every_other_word():
    status = assess(ends("CANCELLED", collected=collected()))
    assert status.state == "succeeded"


def test_an_incomplete_run_that_the_config_accepts_has_succeeded_and_says_so():
    status = assess(ends("COMPLETED", collected=collected("incomplete", 0, recorded=9)))
    assert (status.state, status.reason) == (
        "succeeded",
        "9 of 10 rollouts have a result, which the config accepts",
    )


def test_a_finished_run_is_succeeded_although_its_dead_successor_is_still_queued():
    evidence = known(
        link("1.0", collected=collected(), queued="2"),
        seen={"1": saw("SUCCEEDED", word="COMPLETED"), "2": saw("QUEUED", "DependencyNeverSatisfied")},
    )
    status = assess(evidence)
    assert (status.state, status.job_id) == ("succeeded", "1")
    assert status.notes == (f"still in the queue: 2; gym job cancel {ID} gpqa",)


def test_a_successor_that_slurm_cancelled_is_no_end_of_a_finished_run():
    evidence = known(
        link("1.0", queued="2;main", collected=collected()),
        seen={"1": saw("SUCCEEDED", word="COMPLETED"), "2": saw("CANCELLED", word="CANCELLED")},
    )
    assert assess(evidence).state == "succeeded"


def test_between_two_jobs_a_chain_is_queued_and_says_why_the_last_one_ended():
    evidence = known(
        link("1.0", queued="2"),
        seen={"1": saw("FAILED", word="PREEMPTED"), "2": saw("QUEUED", "Resources")},
    )
    status = assess(evidence)
    assert (status.state, status.job_id) == ("queued", "2")
    assert "after job 1 (PREEMPTED: a job of higher priority took the nodes): Resources" in status.reason


def test_a_successor_that_never_becomes_eligible_is_called_stuck_with_the_command_that_helps():
    evidence = known(
        link("1.0", started=NOW - 9000, end="failed 1 none\nit broke", queued="2"),
        seen={"1": saw("FAILED", word="FAILED", ended_at=NOW - 4000), "2": saw("QUEUED", "Dependency")},
    )
    [note] = assess(evidence).notes
    assert note.startswith("STUCK: it still waits for job 1")
    assert f"gym job cancel {ID} gpqa" in note


def test_a_cancelled_successor_after_a_lost_node_means_that_somebody_cancelled_the_chain():
    evidence = known(
        link("1.0", queued="2"),
        seen={"1": saw("FAILED", word="NODE_FAIL"), "2": saw("CANCELLED", word="CANCELLED")},
    )
    assert told(assess(evidence)) == ("cancelled", "a person")


def test_a_successor_that_is_not_visible_yet_is_waited_for_and_then_given_up():
    def evidence(age):
        ended = saw("FAILED", word="TIMEOUT", ended_at=NOW - age)
        return known(link("1.0", queued="2"), seen={"1": ended, "2": saw("UNKNOWN")})

    assert assess(evidence(10)).state == "queued"
    later = assess(evidence(500))
    assert told(later) == ("failed", "infrastructure")
    assert "successor 2 was never seen again" in later.reason


def test_a_date_that_was_set_back_lets_nobody_wait_for_a_successor_for_ever():
    ended = saw("FAILED", word="TIMEOUT", ended_at=NOW + 86400)
    evidence = known(link("1.0", queued="2"), seen={"1": ended, "2": saw("UNKNOWN")})
    assert "successor 2 was never seen again" in assess(evidence).reason
    slightly = saw("FAILED", word="TIMEOUT", ended_at=NOW + 5)
    assert assess(known(link("1.0", queued="2"), seen={"1": slightly, "2": saw("UNKNOWN")})).state == "queued"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (("stop", "stopped", "2h of walltime are used"), ("stopped", "a limit you set")),
        (("stop", "cancelled", "the chain was cancelled"), ("cancelled", "a person")),
        (("stop", "succeeded", "every rollout is recorded"), ("succeeded", None)),
        (("fail", "failed", "max_retries (3) are used up"), ("failed", "your code")),
    ],
)
def test_what_the_last_job_decided_is_the_state_of_the_chain(line, expected):
    complete = "yes" if line[1] == "succeeded" else "no"
    evidence = known(
        link("1.0", end="failed 1 none\n"),
        link(
            "2.0",
            started=NOW - 5,
            predecessor="1",
            decision=decision(*line, f"scheduler=FAILED source=sacct complete={complete}"),
        ),
        seen={"2": saw("SUCCEEDED", word="COMPLETED")},
    )
    status = assess(evidence)
    assert told(status) == expected
    assert status.reason == line[2]
    if status.state is BenchmarkState.STOPPED:
        assert "--max-walltime" in status.next_command


def test_a_failure_that_no_retry_can_help_says_so():
    status = assess(ends("FAILED", collected=collected("failed", 1, 0, hopeless="the key was rejected")))
    assert (told(status), status.reason) == (
        ("failed", "your code"),
        "no retry can help: the key was rejected",
    )


def test_a_job_that_drained_ahead_of_its_limit_was_ended_by_infrastructure_whatever_its_exit_status():
    status = assess(ends("FAILED", end="drained 75 walltime\nasked to stop"))
    assert told(status) == ("failed", "infrastructure")


def test_a_tombstone_with_nothing_alive_is_cancelled_with_who_and_why():
    evidence = known(
        link("1.0"),
        {".gym_cancelled": "2027-01-15T08:00:00Z\nada\nwrong model\n"},
        seen={"1": saw("FAILED", word="FAILED")},
    )
    status = assess(evidence)
    assert told(status) == ("cancelled", "a person")
    assert status.reason == "by ada at 2027-01-15T08:00:00Z: wrong model"


def test_a_job_that_is_being_cancelled_still_runs():
    evidence = known(
        link("1.0"), {".gym_cancelled": "2027-01-15T08:00:00Z\nada\nx\n"}, seen={"1": saw("RUNNING")}
    )
    status = assess(evidence)
    assert status.state == "running"
    assert "being cancelled" in status.reason


def test_the_user_of_a_foreign_cancellation_is_shown():
    evidence = known(link("1.0"), seen={"1": saw("CANCELLED", word="CANCELLED by 1000")})
    assert "by user 1000" in assess(evidence).reason


def test_a_job_that_waits_after_a_drained_one_is_not_said_to_be_missing():
    drained = link("1.0", end="drained 75 walltime\n", queued="2")
    ended = saw("FAILED", word="FAILED")
    status = assess(known(drained, seen={"1": ended, "2": saw("QUEUED", "Dependency")}))
    assert status.state == "queued"
    before = "next after job 1 (it drained ahead of its time limit with work left)"
    assert status.reason == f"{before}: Dependency: it waits for the end of another job"
    alone = assess(known(link("1.0", end="drained 75 walltime\n"), seen={"1": ended}))
    assert alone.reason == "it drained ahead of its time limit with work left, and nothing follows it"


def test_what_succeeded_on_another_machine_is_fetched_before_it_is_read():
    evidence = ends("COMPLETED", end="ended 0 none\n")
    assert assess(evidence).next_command == f"gym job results {ID}"
    assert assess(replace(evidence, elsewhere=True)).next_command == f"gym job fetch {ID}"


def test_a_narrow_terminal_gets_each_id_on_a_line_of_its_own():
    evidence = known(link("1.0"), progress(done=6), seen={"1": saw("RUNNING")})
    found = of_submissions([evidence, replace(evidence, benchmark="sums")])
    wide, narrow = (status_text(found, width).split("\n\n")[0].splitlines() for width in (200, 60))
    assert [line.split()[0] for line in wide] == ["ID", ID, ID]
    assert [line.split()[0] for line in narrow] == ["BENCHMARK", ID, "gpqa", "sums"]
    assert max(map(len, narrow)) <= 60
    assert status_text(found) == status_text(found, 200)


def test_of_several_submissions_each_remark_names_its_own_and_those_that_are_done_have_none():
    failed = replace(ends("FAILED"), gym_job_id="gym-job-other")
    text = status_text(of_submissions([failed, ends("COMPLETED", end="ended 0 none\n")]))
    assert "\ngpqa of gym-job-other: failed" in text
    assert "gym job results" not in text
    assert "\ngpqa: failed" in status_text(of_submissions([failed]))


def test_benchmarks_with_the_same_next_command_alone_share_one_line():
    done = [ends("COMPLETED", end="ended 0 none\n"), ends("FAILED")]
    found = of_submissions(done)[0]
    good, bad = found.benchmarks
    several = replace(found, benchmarks=[good, replace(good, benchmark="mmlu"), bad])
    text = status_text([several])
    assert f"\n\ngpqa, mmlu: gym job results {ID}\n\ngpqa: failed" in text
    assert text.count("gym job results") == 1


def many():
    """A run of each kind: it works, it waits, it is whole, it failed."""
    works = known(link("1.0"), progress(done=6), seen={"1": saw("RUNNING")})
    waits = known(seen={"1": saw("QUEUED", "Priority")})
    whole = ends("COMPLETED", end="ended 0 none\n")
    return [
        replace(each, gym_job_id=f"run-{at}") for at, each in enumerate([works, waits, whole, ends("FAILED")])
    ]


def test_of_many_runs_each_has_one_line_with_why_it_waits_and_hints_only_where_something_is_wrong():
    found = of_submissions(many())
    lines, *said = status_text(found).split("\n\n")
    assert [line.split()[:3] for line in lines.splitlines()[1:]] == [
        ["run-0", "gpqa", "running"],
        ["run-1", "gpqa", "queued"],
        ["run-2", "gpqa", "succeeded"],
        ["run-3", "gpqa", "failed"],
    ]
    assert lines.splitlines()[2].endswith("Priority: jobs of higher priority come first")
    assert [each.splitlines()[0].partition(":")[0] for each in said] == ["gpqa of run-3"]


@pytest.mark.parametrize(("width", "end"), [(70, ""), (85, "…"), (400, "come first")])
def test_why_a_run_waits_is_cut_to_the_line_of_the_terminal(width, end):
    lines = status_text(of_submissions(many()), width).split("\n\n")[0].splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= width
    assert ("WHY" in lines[0]) == bool(end)
    assert lines[2].endswith(end)


def test_states_have_the_colours_that_nemo_gives_theirs_and_columns_stay_in_line():
    plain, coloured = (status_text(of_submissions(many()), colour=each) for each in (False, True))
    assert "\x1b[1;36mrunning\x1b[0m" in coloured
    assert "\x1b[1;31mfailed\x1b[0m" in coloured
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    narrow = status_text(of_submissions(many()), 40, colour=True)
    assert "\x1b[32msucceeded\x1b[0m" in narrow


@pytest.mark.parametrize(
    ("terminal", "environ", "shown"),
    [
        (True, {"TERM": "xterm-256color"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_that_show_them(monkeypatch, terminal, environ, shown):
    monkeypatch.setattr(submissions.sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert submissions.shows_colours() == shown


# Silence


def test_silence_changes_nothing_and_the_last_known_state_is_shown_with_its_age():
    evidence = known(
        link("1.0", started=NOW - 300_000),
        progress(age=4000.0),
        seen={"1": saw("RUNNING")},
        age=3600.0,
        silent="the controller gave no answer",
    )
    status = assess(evidence)
    assert (status.state, status.silent) == ("running", "the controller gave no answer")
    assert status.state_age_s == pytest.approx(3600.0)
    text = status_text(of_submissions([evidence]))
    assert "running (1 h ago)" in text
    assert "no answer: the controller gave no answer. What is shown was known before." in text


def test_a_weekend_of_silence_fails_nothing_even_when_nothing_was_ever_seen():
    sixty_hours = 60 * 3600
    assert assess(known(silent="no answer", submit_error=None)).state == "queued"
    running = known(link("1.0", started=NOW - sixty_hours), silent="no answer")
    assert assess(running).state == "running"


def test_files_that_say_an_end_are_believed_during_silence():
    evidence = known(
        link("1.0", end="ended 0 none\n", collected=collected()),
        seen={"1": saw("RUNNING")},
        age=600.0,
        silent="no answer",
    )
    assert assess(evidence).state == "succeeded"


def test_a_job_that_nobody_knows_any_more_is_judged_by_its_own_last_word_and_else_unknown():
    unknown = {"1": saw("UNKNOWN", "nobody knows this job")}
    marked = assess(known(link("1.0", end="failed 3 none\nit broke"), seen=unknown))
    assert (told(marked), marked.reason) == (("failed", "your code"), "it broke")
    nothing = assess(known(link("1.0", started=NOW - 9000), seen=unknown))
    assert (nothing.state, nothing.reason) == ("unknown", "nobody knows this job")
    assert nothing.next_command == f"gym job info {ID} gpqa"


def test_a_collector_that_beats_is_running_whatever_the_scheduler_does_not_know():
    evidence = known(link("1.0"), progress(age=30.0), seen={"1": saw("UNKNOWN", "gone")})
    assert assess(evidence).state == "running"


def test_a_collector_that_beat_before_the_date_was_set_back_does_not_run_for_ever():
    evidence = known(link("1.0"), progress(age=-86400.0), seen={"1": saw("UNKNOWN", "gone")})
    assert assess(evidence).state == "unknown"


def test_a_running_job_without_a_successor_is_at_risk():
    evidence = known(link("1.0", queue_error="too many jobs"), seen={"1": saw("RUNNING")})
    assert assess(evidence).notes[0].startswith("AT RISK: its successor is not queued (too many jobs)")


def test_a_benchmark_that_could_not_be_queued_says_why_and_can_be_resubmitted():
    status = assess(known(first=None, submit_error="the account is unknown"))
    assert told(status) == ("failed", "infrastructure")
    assert "the account is unknown" in status.reason
    assert status.next_command == f"gym job resubmit {ID} gpqa"


def test_a_job_that_was_put_back_into_the_queue_is_queued_under_its_own_number():
    evidence = known(link("1.0", end="stopped 75 signal\n"), seen={"1": saw("QUEUED", "BeginTime")})
    status = assess(evidence)
    assert (status.state, status.job_id, status.reason[:11]) == ("queued", "1", "BeginTime: ")


def test_a_job_queued_again_in_place_is_what_counts_after_an_accepted_end():
    evidence = known(
        link("1.0", collected=collected("incomplete", 0, recorded=9)),
        {"resubmits/1/queued": "7\n", "resubmits/1/reason": "t\nada\nmore\n"},
        seen={"1": saw("SUCCEEDED", word="COMPLETED"), "7": saw("QUEUED", "Priority")},
    )
    assert (assess(evidence).state, assess(evidence).job_id) == ("queued", "7")


def test_damaged_files_are_named_and_never_read_as_nothing():
    evidence = known(link("1.0", exit="{torn"), {".gym_infra_retries": "many\n"}, seen={"1": saw("RUNNING")})
    assert set(assess(evidence).notes) == {
        "links/1.0/exit.json is damaged",
        ".gym_infra_retries holds no number",
    }


# Submissions


def rolled(*states):
    one = assess(known(seen={"1": saw("QUEUED")}))
    from dataclasses import replace

    statuses = tuple(replace(one, state=BenchmarkState(state)) for state in states)
    return SubmissionStatus(gym_job_id=ID, benchmarks=statuses)


@pytest.mark.parametrize(
    ("states", "rolled_up"),
    [
        (("failed", "queued", "running"), "running"),
        (("failed", "queued"), "queued"),
        (("succeeded", "cancelled", "failed"), "failed"),
        (("succeeded", "unknown"), "unknown"),
        (("succeeded", "succeeded"), "succeeded"),
        ((), "unknown"),
    ],
)
def test_a_submission_rolls_up_and_has_succeeded_only_when_all_have(states, rolled_up):
    assert rolled(*states).state == rolled_up


def test_narrowing_to_live_ones_counts_anew():
    [kept] = narrowed([rolled("failed", "queued"), rolled("succeeded")])
    assert kept.to_json()["counts"] == {"queued": 1}


def test_the_document_has_a_schema_version_and_plain_values():
    document = to_json(of_submissions([known(seen={"1": saw("QUEUED", "Priority")})]), at="now")
    assert document["schema_version"] == 1
    [status] = document["submissions"][0]["benchmarks"]
    assert (status["state"], status["reason"], status["cause"]) == (
        "queued",
        "Priority: jobs of higher priority come first",
        None,
    )


def test_a_cause_is_said_in_words_below_the_table():
    text = status_text(of_submissions([ends("NODE_FAIL"), ends("FAILED", end="failed 3 none\nit broke")]))
    assert "gpqa: failed: NODE_FAIL: a node failed [infrastructure ended it]" in text
    assert "gpqa: failed: it broke [your code ended it]" in text
    assert f"  next: gym job resubmit {ID} gpqa" in text
    assert EndCause.INFRASTRUCTURE == "infrastructure"


# Of several jobs that wait, the one that matters


@pytest.mark.parametrize("held", ["job requeued in held state", "JobHeldUser", "launch_failed_requeued_held"])
def test_a_held_predecessor_is_shown_and_not_the_dependency_of_its_successor(held):
    status = assess(
        known(link("1.0", queued="2"), seen={"1": saw("QUEUED", held), "2": saw("QUEUED", "Dependency")})
    )
    assert (status.state, status.job_id) == ("queued", "1")
    assert status.reason.startswith(f"{held}: ")
    assert status.notes == ("your turn: job 1 does not start by itself",)
    assert status.next_command == "scontrol release 1"


def test_what_helps_a_waiting_job_is_the_next_command():
    def ask(reason):
        status = assess(known(seen={"1": saw("QUEUED", reason)}))
        return status.next_command, status.notes

    assert ask("Resources") == (f"gym job watch {ID}", ())
    assert ask("NewReason") == (f"gym job watch {ID}", ())
    command, notes = ask("JobHeldAdmin")
    assert command == "scontrol release 1"
    assert notes == ("the site's turn: job 1 does not start by itself; ask its administrators",)
    command, notes = ask("BadConstraints")
    assert command == f"gym job cancel {ID} gpqa"
    assert "submit it again" in notes[1]
    assert ask("DependencyNeverSatisfied")[0] == (
        f"gym job cancel {ID} gpqa, then gym job resubmit {ID} gpqa"
    )
    there = replace(known(seen={"1": saw("QUEUED", "JobHeldUser")}), where="login7")
    assert assess(there).next_command == "ssh login7 scontrol release 1"


def test_a_successor_that_waits_for_nodes_outweighs_one_that_only_waits_for_it():
    seen = {"2": saw("QUEUED", "Priority"), "3": saw("QUEUED", "Dependency")}
    evidence = known(link("1.0", queued="2"), link("2.0", started=None, queued="3"), seen=seen)
    assert assess(evidence).job_id == "2"


# Succeeded needs every row


@pytest.mark.parametrize(
    ("files", "expected", "words"),
    [
        ([progress(21, expected=200)], ("failed", "infrastructure"), "21 of 200 rollouts have a result"),
        ([{}], ("failed", "infrastructure"), "nothing proves that every rollout is recorded"),
        (
            [link("1.0", collected=collected("drained", 75, 4))],
            ("failed", "infrastructure"),
            "4 of 10 rollouts have a result",
        ),
        ([link("1.0", collected=collected("incomplete", 0, 9))], ("succeeded", None), "9 of 10"),
        ([link("1.0", collected=collected())], ("succeeded", None), ""),
        ([progress(10, state="complete")], ("succeeded", None), ""),
        ([link("1.0", command="yes", end="ended 0 none\n")], ("succeeded", None), ""),
        ([link("1.0", end="ended 0 none\n")], ("succeeded", None), ""),
        ([link("1.0", end="ended 0 none\n"), progress(3)], ("failed", "infrastructure"), "3 of 10"),
        ([link("1.0", end="ended 0 none\n", ready="3\n")], ("failed", "infrastructure"), "nothing proves"),
    ],
)
@pytest.mark.parametrize("seen", [saw("SUCCEEDED", word="COMPLETED"), saw("SUCCEEDED")])
def test_an_exit_status_of_0_is_no_success_without_the_rows(files, expected, words, seen):
    status = assess(known(link("1.0"), *files, seen={"1": seen}))
    assert told(status) == expected, status.reason
    assert words in status.reason


def test_a_heterogeneous_job_whose_component_was_lost_is_not_succeeded_by_its_leader():
    status = assess(
        known(link("1.0"), progress(55, expected=400), seen={"1": saw("FAILED", word="NODE_FAIL")})
    )
    assert told(status) == ("failed", "infrastructure")
    assert status.next_command == f"gym job resubmit {ID} gpqa"


@pytest.mark.parametrize("word", ["FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"])
def test_proof_of_completeness_in_any_link_counts(word):
    state = "CANCELLED" if word == "CANCELLED" else "FAILED"
    evidence = known(
        link("1.0", started=NOW - 900, collected=collected(), queued="2"),
        link("2.0", predecessor="1", end="failed 1 none\nasked the server in vain"),
        seen={"1": saw("FAILED", word="NODE_FAIL"), "2": saw(state, word=word)},
    )
    assert told(assess(evidence)) == ("succeeded", None)


def test_a_job_that_stopped_at_a_completed_without_proof_leaves_no_success():
    for chain in ("failed", "succeeded"):
        said = decision("stop", chain, "the scheduler says COMPLETED", "scheduler=COMPLETED complete=no")
        evidence = known(
            link("1.0", started=NOW - 900, queued="2"),
            link("2.0", predecessor="1", decision=said, end="decided 0 none\n"),
            progress(21, expected=200, state="draining", age=900.0),
            seen={"2": saw("SUCCEEDED", word="COMPLETED")},
        )
        status = assess(evidence)
        assert told(status) == ("failed", "infrastructure")
        assert "21 of 200 rollouts have a result" in status.reason


# Whose doing the end of a successor is


@pytest.mark.parametrize(
    ("successor", "expected", "words"),
    [
        (
            saw("CANCELLED", "cancelled by user 7", word="CANCELLED"),
            ("cancelled", "a person"),
            "was cancelled",
        ),
        (
            saw("CANCELLED", word="CANCELLED", stranger="user 0 (an administrator, or Slurm itself)"),
            ("failed", "infrastructure"),
            "successor 2 was cancelled by user 0 (an administrator, or Slurm itself) before it started",
        ),
        (
            saw("FAILED", "DEADLINE: its deadline passed", word="DEADLINE"),
            ("failed", "infrastructure"),
            "successor 2 ended before it started (DEADLINE: its deadline passed)",
        ),
    ],
)
def test_a_successor_that_another_ended_is_not_its_owners_doing(successor, expected, words):
    evidence = known(link("1.0", queued="2"), seen={"1": saw("FAILED", word="TIMEOUT"), "2": successor})
    status = assess(evidence)
    assert told(status) == expected
    assert status.reason.startswith("TIMEOUT: ")
    assert words in status.reason


def test_a_chain_that_stopped_for_anothers_cancellation_names_them_and_blames_nobody_else():
    why = "the job before was cancelled by user 0 (an administrator, or Slurm itself)"
    for stranger, cause in (("yes", "infrastructure"), ("no", "a person")):
        said = decision("stop", "cancelled", why, f"scheduler=CANCELLED stranger={stranger}")
        evidence = known(
            link("1.0", started=NOW - 900, queued="2"),
            link("2.0", predecessor="1", decision=said, end="decided 0 none\n"),
        )
        assert told(assess(evidence)) == ("cancelled", cause)
        assert "an administrator, or Slurm itself" in assess(evidence).reason


# The cause behind a cap


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (("stop", "stopped", "the job before ended as FAILED (x), and 2h are used"), "a limit you set"),
        (
            ("fail", "failed", "the job before ended as FAILED (x), and max_retries (3) are used up"),
            "your code",
        ),
        (("fail", "failed", "nobody saw it, and 5 jobs in a row recorded nothing new"), "your code"),
    ],
)
def test_at_a_cap_the_cause_of_the_last_end_is_told_with_the_cap(line, cause):
    why = "the driver ended with exit status 1: artifacts holds rollouts already"
    evidence = known(
        link("1.0", started=NOW - 900, end=f"ended 1 none\n{why}", queued="2"),
        link("2.0", predecessor="1", decision=decision(*line, "scheduler=FAILED"), end="decided 1 none\n"),
    )
    status = assess(evidence)
    assert status.cause == cause
    assert status.reason == f"{line[2]}; {why}"


# What could not be queued


def test_a_refused_configuration_is_the_users_and_is_not_said_to_be_worth_resubmitting():
    said = "sbatch on lab ended with status 1: sbatch: error: Batch job submission failed: Invalid account"
    evidence = known(first=None, submit_error=said)
    status = assess(evidence)
    assert told(status) == ("failed", "your configuration")
    assert status.next_command == f"gym job info {ID} gpqa --config"
    assert status.notes[0].startswith("what helps: compute.NAME.account")
    assert "refused again" in status.notes[1]
    assert f"could not be queued: {said} [your configuration]" in status_text(of_submissions([evidence]))


@pytest.mark.parametrize(
    ("said", "helps", "first"),
    [
        ("Unable to contact slurm controller (connect failure)", "answer again", "scontrol ping, then "),
        ("AssocMaxSubmitJobLimit", "free some of your queue", "squeue --me, then "),
        ("never heard of before", "", ""),
    ],
)
def test_a_scheduler_that_is_away_and_a_limit_are_worth_resubmitting_once_they_are_over(said, helps, first):
    evidence = known(first=None, submit_error=said)
    status = assess(evidence)
    assert told(status) == ("failed", "infrastructure")
    assert status.next_command == f"{first}gym job resubmit {ID} gpqa"
    assert helps in " ".join(status.notes)
    far = assess(replace(evidence, where="lab", elsewhere=True))
    assert far.next_command == f"{'ssh lab ' if first else ''}{first}gym job resubmit {ID} gpqa"


FREE_FIRST = "gym job prune --older-than 30-00 --dry-run"


@pytest.mark.parametrize(
    ("evidence", "state", "command"),
    [
        (known(first=None, submit_error="sbatch: error: Disk quota exceeded"), "failed", "resubmit"),
        (known(first=None, submit_error="cat: write error: No space left on device"), "failed", "resubmit"),
        (
            known(link("1.0", end="full_disk 1 none\n", full_disk="1", exit={"state": "FAILED"})),
            "failed",
            "resubmit",
        ),
        (
            known(
                link("1.0", queue_error="sbatch: error: Disk quota exceeded"),
                seen={"1": saw("FAILED", word="TIMEOUT")},
            ),
            "failed",
            "resubmit",
        ),
        (
            known(link("1.0", full_disk=f"waiting {NOW - 60:.0f}"), seen={"1": saw("RUNNING")}),
            "running",
            "",
        ),
    ],
)
def test_where_space_is_missing_it_is_freed_before_anything_is_queued_again(evidence, state, command):
    status = assess(evidence)
    assert status.state == state
    again = f", then gym job {command} {ID} gpqa" if command else ""
    assert status.next_command == f"{FREE_FIRST}{again}"
    (helps,) = [note for note in status.notes if note.startswith("what helps: ")]
    assert "free disk space, or quota, where /runs/a is (`df -h /runs/a`" in helps
    far = assess(replace(evidence, where="lab", elsewhere=True))
    assert any("where /runs/a is on lab (" in note for note in far.notes)


def test_a_successor_that_waits_for_its_turn_after_a_full_disk_says_what_to_free():
    waiting = known(
        link("1.0", end="full_disk 1 none\n", full_disk="1", queued="2"),
        seen={"2": saw("QUEUED", "Priority")},
    )
    status = assess(waiting)
    assert (status.state, status.next_command) == ("queued", f"gym job watch {ID}")
    assert any(note.startswith("what helps: free disk space") for note in status.notes)


def test_what_ends_again_as_it_is_is_not_said_to_be_worth_resubmitting():
    assert assess(ends("DEADLINE")).next_command == f"gym job info {ID} gpqa --config"
    assert assess(ends("BOOT_FAIL")).next_command == f"gym job resubmit {ID} gpqa"
    broken = decision("fail", "failed", "header.sh is not as it was queued", "scheduler= source= seal=broken")
    unsealed = assess(known(link("1.0", decision=broken, end="decided 1 none\n")))
    assert (unsealed.state, unsealed.next_command) == ("failed", f"gym job info {ID} gpqa")


@pytest.mark.parametrize(
    ("word", "helps"),
    [("OUT_OF_MEMORY", "more memory"), ("DEADLINE", "a later --deadline"), ("BOOT_FAIL", "another node")],
)
def test_an_end_that_the_config_can_prevent_says_what_helps(word, helps):
    status = assess(ends(word))
    assert status.state == "failed"
    assert any(note.startswith(f"what helps: {helps}") for note in status.notes)


def test_a_successor_that_was_refused_says_what_helps():
    error = "sbatch: error: Batch job submission failed: Access/permission denied"
    running = known(link("1.0", queue_error=error), seen={"1": saw("RUNNING")})
    assert any("`queue_from: login`" in note for note in assess(running).notes)
    over = known(link("1.0", queue_error=error), seen={"1": saw("FAILED", word="TIMEOUT")})
    assert any("`queue_from: login`" in note for note in assess(over).notes)


def test_a_drain_that_a_person_asked_for_is_a_stop_and_is_resubmitted_without_more():
    asked = "drained 75 person\ndrained at the request of Ada; everything recorded is kept\n"
    status = assess(known(link("1.0", end=asked, exit={"state": "FAILED"}), progress(done=6)))
    assert told(status) == ("stopped", "a person")
    assert status.reason == "drained at the request of Ada; everything recorded is kept"
    assert status.next_command == "gym job resubmit gym-job-20270115T080000Z-00000a gpqa"
    words = decision("stop", "stopped", "a person asked the job before to drain", "scheduler=FAILED")
    successor = link("2.0", started=NOW - 5, decision=words, predecessor="1")
    seen = {"2": saw("SUCCEEDED", word="COMPLETED")}
    followed = assess(known(link("1.0", end=asked), successor, progress(done=6), seen=seen))
    assert (followed.state, followed.cause, followed.reason) == (status.state, status.cause, status.reason)


def test_a_chain_that_would_have_retried_is_resubmitted_when_another_ended_its_successor():
    stranger = "user 1 (not its owner, user 0)"
    evidence = known(
        link("1.0", queued="2", end="ended 1 none\nservice 'policy' ended with exit status 137\n"),
        seen={"1": saw("FAILED", word="FAILED"), "2": saw("CANCELLED", word="CANCELLED", stranger=stranger)},
    )
    status = assess(evidence)
    assert told(status) == ("failed", "infrastructure")
    assert "service 'policy' ended" in status.reason
    assert stranger in status.reason
    assert status.next_command == "gym job resubmit gym-job-20270115T080000Z-00000a gpqa"


def test_a_run_that_may_stop_early_says_how_far_its_question_is():
    said = "not decided after 4 of 10 tasks: score 20.0% to 80.0%"
    files = progress(done=6)
    name, text = next(iter(files.items()))
    evidence = known(
        link("1.0", started=NOW - 50),
        {name: text.replace("{", '{"until": "' + said + '", ', 1)},
        seen={"1": saw("RUNNING")},
    )
    status = assess(evidence)
    assert (status.until, status.notes) == (said, (said,))
    assert said in status_text(of_submissions([evidence]))
