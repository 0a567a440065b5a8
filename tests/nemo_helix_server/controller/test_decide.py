"""What is decided about a step, for every pair of what is wanted and what is seen."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import decide
from nemo_helix_server.controller.continuation import AllocationEnd, AllocationHistory, ContinuationBudget
from nemo_helix_server.controller.decide import (
    Admit,
    ControllerDeadlines,
    Kill,
    Move,
    NoteQueue,
    Prepare,
    RepeatControl,
    RequestControl,
    Start,
    StepFacts,
    Stop,
)
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs import states
from nemo_helix_server.jobs.states import StatusEvent, StatusReason

LIMITS = ControllerDeadlines(before_active=100, creation=100, cancel=60, grace=10)
NOW = 1000.0

RESTART = "the machine was restarted"
ABSENT = RunObservation(RunState.ABSENT)
QUEUED = RunObservation(RunState.QUEUED, reason="Priority")
STARTING = RunObservation(RunState.STARTING)
RUNNING = RunObservation(RunState.RUNNING, started_at=900.0)
UNKNOWN = RunObservation(RunState.UNKNOWN, reason="runs elsewhere")
LOST = RunObservation(RunState.LOST, reason="was killed")
GIVEN_UP = RunObservation(RunState.LOST, never_started=True, reason="was given up")
REBOOTED = RunObservation(RunState.LOST, interrupted=RESTART, reason="the machine was restarted")


def exited(status, **facts):
    number = status - 128 if status > 128 else 0
    return RunObservation(
        RunState.EXITED,
        exit_status=status,
        signal=number,
        started_at=900.0,
        ended_at=990.0,
        reason="ended",
        **facts,
    )


SEEN = {
    "absent": ABSENT,
    "queued": QUEUED,
    "starting": STARTING,
    "running": RUNNING,
    "unknown": UNKNOWN,
    "lost": LOST,
    "given up": GIVEN_UP,
    "rebooted": REBOOTED,
    "exit 0": exited(0),
    "exit 1": exited(1),
    "exit 75": exited(75),
    "exit 137": exited(137),
    "exit 143": exited(143),
}


def facts(status, **changes):
    given = {
        "name": "training",
        "status": status,
        "status_since": NOW - 10,
        "started": True,
        "pause_deadline": 1800.0,
        "pause_requested_at": NOW - 10 if status is Status.PAUSING else None,
        "control_seq": 1 if status is Status.PAUSING else 0,
    }
    return StepFacts(**{**given, **changes})


def said(decision):
    return decision.event.value if isinstance(decision, Move) else type(decision).__name__


NONE = "NoneType"
EVERY = {
    Status.CREATION_PENDING: dict.fromkeys(SEEN, "Prepare"),
    Status.CREATED: dict.fromkeys(SEEN, "Admit"),
    Status.QUEUED: dict.fromkeys(SEEN, "Admit"),
    Status.RESUMING: dict.fromkeys(SEEN, "Admit"),
    Status.PENDING: {
        "absent": "Start",
        "queued": "NoteQueue",
        "starting": NONE,
        "running": "started",
        "unknown": NONE,
        "lost": "failed",
        "given up": "interrupted",
        "rebooted": "interrupted",
        "exit 0": "finished",
        "exit 1": "failed",
        "exit 75": "failed",
        "exit 137": "failed",
        "exit 143": "failed",
    },
    Status.ACTIVE: {
        "absent": "failed",
        "queued": NONE,
        "starting": NONE,
        "running": NONE,
        "unknown": NONE,
        "lost": "failed",
        "given up": "failed",
        "rebooted": "interrupted",
        "exit 0": "finished",
        "exit 1": "failed",
        "exit 75": "failed",
        "exit 137": "failed",
        "exit 143": "failed",
    },
    Status.PAUSING: {
        "absent": "Stop",
        "queued": "Stop",
        "starting": "RepeatControl",
        "running": "RepeatControl",
        "unknown": "RepeatControl",
        "lost": "failed",
        "given up": "checkpoint_verified",
        "rebooted": "interrupted",
        "exit 0": "finished",
        "exit 1": "failed",
        "exit 75": "checkpoint_verified",
        "exit 137": "failed",
        "exit 143": "failed",
    },
    Status.PAUSED: dict.fromkeys(SEEN, NONE),
    Status.CANCELLING: {
        **dict.fromkeys(SEEN, "stopped"),
        "absent": "Stop",
        "queued": "Stop",
        "starting": "Stop",
        "running": "Stop",
        "unknown": "Stop",
    },
    Status.CANCELLED: dict.fromkeys(SEEN, NONE),
    Status.COMPLETED: dict.fromkeys(SEEN, NONE),
    Status.ERROR: dict.fromkeys(SEEN, NONE),
    Status.DELETION_PENDING: dict.fromkeys(SEEN, NONE),
}


def test_every_status_is_in_the_table():
    assert set(EVERY) == set(Status)


@pytest.mark.parametrize(("status", "seen"), list(itertools.product(Status, SEEN)))
def test_every_pair(status, seen):
    decision = decide.decide(facts(status), SEEN[seen], NOW, LIMITS)
    assert said(decision) == EVERY[status][seen]


@pytest.mark.parametrize(("status", "seen"), list(itertools.product(Status, SEEN)))
def test_every_event_that_is_decided_leads_somewhere_and_every_reason_explains_where(status, seen):
    for changes in ({}, {"sent_seq": 1, "control_seq": 1}, {"proof": "there is none"}, {"status_since": 0.0}):
        decision = decide.decide(facts(status, **changes), SEEN[seen], NOW, LIMITS)
        if isinstance(decision, Move):
            to = states.after(status, decision.event)
            assert to is not None
            assert decision.why
            if decision.reason is not None:
                assert states.REASONS[decision.reason] is to


class TestPausing:
    def test_exit_75_without_proof_is_an_error_that_says_what_was_missing(self):
        step = facts(Status.PAUSING, proof="there is no checkpoint")
        decision = decide.decide(step, exited(75), NOW, LIMITS)
        assert (decision.event, decision.reason) == (StatusEvent.FAILED, StatusReason.CHECKPOINT_NOT_VERIFIED)
        assert "there is no checkpoint" in decision.why
        assert "rerun" in decision.why

    @pytest.mark.parametrize(("elapsed", "late"), [(0, False), (1800, False), (1800.001, True)])
    def test_the_deadline_is_missed_only_after_it(self, elapsed, late):
        step = facts(Status.PAUSING, pause_requested_at=NOW - elapsed, sent_seq=1)
        assert decide.decide(step, RUNNING, NOW, LIMITS) == (Stop(0) if late else None)

    def test_without_a_moment_of_the_request_the_deadline_is_missed(self):
        assert decide.decide(facts(Status.PAUSING, pause_requested_at=None), RUNNING, NOW, LIMITS) == Stop(0)

    def test_what_was_killed_at_the_deadline_says_so(self):
        step = facts(Status.PAUSING, pause_requested_at=NOW - 1801, sent_seq=1)
        decision = decide.decide(step, exited(137, stopped=True, asked=True), NOW, LIMITS)
        assert decision.event is StatusEvent.PAUSE_DEADLINE_MISSED
        assert "1800 seconds" in decision.why

    def test_a_proven_pause_counts_even_when_it_is_seen_late(self):
        step = facts(Status.PAUSING, pause_requested_at=NOW - 5000, sent_seq=1)
        assert decide.decide(step, exited(75), NOW, LIMITS).event is StatusEvent.CHECKPOINT_VERIFIED

    def test_a_shim_that_does_not_answer_is_killed_in_the_end(self):
        step = facts(Status.PAUSING, pause_requested_at=NOW - 1800 - decide.KILL_AFTER - 1, sent_seq=1)
        assert decide.decide(step, RUNNING, NOW, LIMITS) == Kill()

    @pytest.mark.parametrize(
        ("elapsed", "said"),
        [
            (1800.001, ", so its processes are ended by a signal"),
            (
                1800 + decide.KILL_AFTER + 1,
                ", nor did a signal end it, so it is killed together with what watches it",
            ),
        ],
    )
    def test_what_did_not_answer_a_pause_is_said_while_it_is_ended_another_way(self, elapsed, said):
        step = facts(Status.PAUSING, pause_requested_at=NOW - elapsed, sent_seq=1)
        decision = decide.decide(step, RUNNING, NOW, LIMITS)
        unanswered = "did not save and leave within 1800 seconds of the pause"
        assert decision.fallback == f"the step {step.name} {unanswered}{said}"

    def test_the_request_is_given_once_and_again_when_it_is_repeated(self):
        assert decide.decide(facts(Status.PAUSING), RUNNING, NOW, LIMITS) == RepeatControl(
            RequestControl.PAUSE
        )
        assert decide.decide(facts(Status.PAUSING, sent_seq=1), RUNNING, NOW, LIMITS) is None
        again = facts(Status.PAUSING, sent_seq=2, control_seq=3)
        assert decide.decide(again, RUNNING, NOW, LIMITS) == RepeatControl(RequestControl.PAUSE)

    def test_too_little_disk_space_is_said_before_the_workload_is_asked(self):
        step = facts(Status.PAUSING, pause_space_shortage="too little")
        decision = decide.decide(step, RUNNING, NOW, LIMITS)
        assert (decision.event, decision.why) == (StatusEvent.PAUSE_WITHDRAWN, "too little")

    def test_once_it_is_asked_space_does_not_matter_any_more(self):
        step = facts(Status.PAUSING, pause_space_shortage="too little", sent_seq=1)
        assert decide.decide(step, RUNNING, NOW, LIMITS) is None

    def test_a_pause_for_maintenance_stays_one(self):
        step = facts(Status.PAUSING, pause_reason=StatusReason.PAUSED_FOR_MAINTENANCE)
        assert decide.decide(step, exited(75), NOW, LIMITS).reason is StatusReason.PAUSED_FOR_MAINTENANCE


LOST_PLACES = {
    "a restart": REBOOTED,
    "a restart, seen by its shim": exited(143, stopped=True, interrupted=RESTART),
    "a restart after it had saved a part": exited(75, stopped=True, interrupted=RESTART),
    "the time limit": exited(137, timed_out=True),
    "a signal from outside": exited(143, stopped=True),
}


class TestLosingThePlaceWhilePausing:
    @pytest.mark.parametrize("place", LOST_PLACES)
    @pytest.mark.parametrize("elapsed", [10, 5000])
    def test_it_is_paused_at_the_newest_checkpoint_and_says_what_repeats(self, place, elapsed):
        step = facts(
            Status.PAUSING,
            pause_requested_at=NOW - elapsed,
            sent_seq=1,
            proof="step 47 was finished",
            goes_on_from=40,
            last_step=47,
            pause_reason=StatusReason.PAUSED_FOR_MAINTENANCE,
        )
        decision = decide.decide(step, LOST_PLACES[place], NOW, LIMITS)
        assert (decision.event, decision.reason) == (
            StatusEvent.CHECKPOINT_VERIFIED,
            StatusReason.PAUSED_FOR_MAINTENANCE,
        )
        assert "paused at the checkpoint of step 40" in decision.why
        assert "steps 41 to 47 are trained again" in decision.why

    def test_where_nothing_repeats_it_says_so(self):
        step = facts(Status.PAUSING, goes_on_from=40, last_step=40)
        assert "no step is trained again" in decide.decide(step, REBOOTED, NOW, LIMITS).why
        step = facts(Status.PAUSING, goes_on_from=40, last_step=41)
        assert "step 41 is trained again" in decide.decide(step, REBOOTED, NOW, LIMITS).why

    @pytest.mark.parametrize("elapsed", [10, 5000])
    def test_without_a_checkpoint_the_pause_is_withdrawn(self, elapsed):
        step = facts(Status.PAUSING, pause_requested_at=NOW - elapsed, last_step=7)
        decision = decide.decide(step, REBOOTED, NOW, LIMITS)
        assert decision.event is StatusEvent.INTERRUPTED
        assert "the pause is withdrawn" in decision.why

    def test_and_what_it_would_have_been_without_a_pause_it_is(self):
        seen = LOST_PLACES["the time limit"]
        assert decide.decide(facts(Status.PAUSING), seen, NOW, LIMITS).reason is StatusReason.TIME_LIMIT

    def test_a_proven_pause_is_one_whatever_came_then(self):
        step = facts(Status.PAUSING, goes_on_from=47, last_step=47)
        decision = decide.decide(step, exited(75, stopped=True, interrupted=RESTART), NOW, LIMITS)
        assert "all that it had done" in decision.why

    def test_a_killed_shim_is_no_lost_place(self):
        step = facts(Status.PAUSING, goes_on_from=40, last_step=47)
        assert decide.decide(step, LOST, NOW, LIMITS).reason is StatusReason.LOST

    def test_what_failed_before_the_restart_has_failed(self):
        step = facts(Status.PAUSING, goes_on_from=40, last_step=47)
        assert decide.decide(step, exited(1, interrupted=RESTART), NOW, LIMITS).event is StatusEvent.FAILED


class TestFinishingFirst:
    """Training that is completed before it acts on a pause completes, however long its last files take."""

    def test_the_deadline_ends_the_pause_and_not_the_step(self):
        step = facts(Status.PAUSING, pause_requested_at=NOW - 5000, sent_seq=1, says_done=True)
        for seen in (RUNNING, STARTING):
            decision = decide.decide(step, seen, NOW, LIMITS)
            assert decision.event is StatusEvent.PAUSE_WITHDRAWN
            assert "was completed" in decision.why

    def test_before_the_deadline_it_is_waited_for(self):
        step = facts(Status.PAUSING, sent_seq=1, says_done=True)
        assert decide.decide(step, RUNNING, NOW, LIMITS) is None

    @pytest.mark.parametrize("seen", [REBOOTED, LOST, exited(137, stopped=True, asked=True), exited(1)])
    def test_while_pausing_it_completes_whatever_ends_it(self, seen):
        step = facts(Status.PAUSING, says_done=True, done=True, goes_on_from=40, pause_requested_at=0.0)
        assert decide.decide(step, seen, NOW, LIMITS).event is StatusEvent.FINISHED

    @pytest.mark.parametrize(
        "seen",
        [
            REBOOTED,
            LOST,
            exited(137, timed_out=True),
            exited(137, stopped=True, asked=True),
            exited(143, stopped=True, interrupted=RESTART),
        ],
    )
    def test_while_active_it_completes_when_it_is_ended_from_outside(self, seen):
        step = facts(Status.ACTIVE, says_done=True, done=True, staleness=50, last_sign_at=0.0)
        assert decide.decide(step, seen, NOW, LIMITS).event is StatusEvent.FINISHED

    def test_a_command_that_says_itself_that_it_failed_has_failed(self):
        step = facts(Status.ACTIVE, says_done=True, done=True)
        assert decide.decide(step, exited(1), NOW, LIMITS).event is StatusEvent.FAILED

    def test_results_that_are_not_there_are_not_completed(self):
        step = facts(Status.PAUSING, says_done=True, done=False, goes_on_from=40, last_step=40)
        assert decide.decide(step, REBOOTED, NOW, LIMITS).event is StatusEvent.CHECKPOINT_VERIFIED

    def test_what_is_cancelled_stays_cancelled(self):
        step = facts(Status.CANCELLING, says_done=True, done=True)
        assert decide.decide(step, exited(0), NOW, LIMITS).event is StatusEvent.STOPPED

    def test_what_ended_before_it_was_seen_running_counts_however_late(self):
        late = facts(Status.PENDING, status_since=NOW - 5000)
        assert decide.decide(late, exited(0), NOW, LIMITS).event is StatusEvent.FINISHED


class TestActive:
    def test_a_withdrawn_pause_is_told(self):
        step = facts(Status.ACTIVE, control_seq=2, sent_seq=1)
        assert decide.decide(step, RUNNING, NOW, LIMITS) == RepeatControl(RequestControl.GO_ON)

    def test_a_pause_that_was_never_given_need_not_be_withdrawn(self):
        assert decide.decide(facts(Status.ACTIVE, control_seq=2), RUNNING, NOW, LIMITS) is None

    @pytest.mark.parametrize("sent", [1, 2])
    def test_who_acts_on_a_withdrawn_pause_is_started_again(self, sent):
        step = facts(Status.ACTIVE, control_seq=2, sent_seq=sent)
        assert decide.decide(step, exited(75), NOW, LIMITS).event is StatusEvent.INTERRUPTED

    def test_after_a_restart_of_the_machine_only_a_pausable_step_goes_on(self):
        assert (
            decide.decide(facts(Status.ACTIVE, pause_deadline=0), REBOOTED, NOW, LIMITS).reason
            is StatusReason.LOST
        )

    @pytest.mark.parametrize("status", [75, 137, 143])
    def test_a_training_whose_allocation_was_cancelled_goes_on_where_its_supervisor_saw_it_end(self, status):
        seen = exited(status, stopped=True, interrupted="its allocation was ended from outside")
        step = facts(Status.ACTIVE, goes_on_from=40)
        assert decide.decide(step, seen, NOW, LIMITS).event is StatusEvent.INTERRUPTED

    def test_one_that_was_killed_with_its_supervisor_while_it_saved_is_an_error(self):
        seen = RunObservation(RunState.LOST, started_at=900.0, reason="its job 7 was cancelled by ann")
        decision = decide.decide(facts(Status.ACTIVE, goes_on_from=40), seen, NOW, LIMITS)
        assert (decision.event, decision.reason) == (StatusEvent.FAILED, StatusReason.LOST)
        assert "cancelled by ann" in decision.why

    @pytest.mark.parametrize("status", [75, 137, 143])
    def test_a_training_that_the_shutdown_ended_goes_on(self, status):
        seen = exited(status, stopped=True, interrupted=RESTART)
        assert decide.decide(facts(Status.ACTIVE), seen, NOW, LIMITS).event is StatusEvent.INTERRUPTED

    def test_a_training_that_failed_before_a_restart_has_failed(self):
        assert (
            decide.decide(facts(Status.ACTIVE), exited(1, interrupted=RESTART), NOW, LIMITS).event
            is StatusEvent.FAILED
        )

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"out_of_memory": True}, StatusReason.OUT_OF_MEMORY),
            ({"timed_out": True}, StatusReason.TIME_LIMIT),
            ({}, StatusReason.WORKLOAD_FAILED),
        ],
    )
    def test_what_the_shim_knows_is_the_reason(self, changes, reason):
        assert decide.decide(facts(Status.ACTIVE), exited(137, **changes), NOW, LIMITS).reason is reason

    @pytest.mark.parametrize(("silent", "stuck"), [(50, False), (51, True)])
    def test_silence_for_too_long_ends_it(self, silent, stuck):
        step = facts(Status.ACTIVE, staleness=50, last_sign_at=NOW - silent)
        assert decide.decide(step, RUNNING, NOW, LIMITS) == (Stop(0, stacks=True) if stuck else None)

    def test_and_that_is_the_reason(self):
        step = facts(Status.ACTIVE, staleness=50, last_sign_at=NOW - 100)
        seen = exited(137, stopped=True, asked=True)
        assert decide.decide(step, seen, NOW, LIMITS).reason is StatusReason.STALE

    @pytest.mark.parametrize("silent", [0, 100])
    def test_with_a_checkpoint_it_goes_on_from_there_also_when_its_stacks_were_the_last_sign(self, silent):
        step = facts(Status.ACTIVE, staleness=50, last_sign_at=NOW - silent, goes_on_from=40)
        decision = decide.decide(step, exited(137, stopped=True, asked=True), NOW, LIMITS)
        assert decision.event is StatusEvent.INTERRUPTED
        assert "no sign of life for 50 seconds" in decision.why

    def test_a_step_that_cannot_be_paused_ends_for_its_silence(self):
        step = facts(Status.ACTIVE, staleness=50, last_sign_at=NOW - 100, pause_deadline=0)
        seen = exited(137, stopped=True, asked=True)
        assert decide.decide(step, seen, NOW, LIMITS).reason is StatusReason.STALE


class TestPending:
    def test_what_does_not_start_in_time_is_given_up_and_then_fails(self):
        late = facts(Status.PENDING, status_since=NOW - 101)
        assert decide.decide(late, ABSENT, NOW, LIMITS) == Stop(0)
        assert decide.decide(late, STARTING, NOW, LIMITS) == Stop(0)
        assert decide.decide(late, GIVEN_UP, NOW, LIMITS).reason is StatusReason.START_FAILED

    def test_without_that_limit_it_may_take_as_long_as_it_likes(self):
        late = facts(Status.PENDING, status_since=0)
        limits = ControllerDeadlines(before_active=0, creation=1, cancel=1, grace=1)
        assert decide.decide(late, ABSENT, NOW, limits) == Start()


class TestQueueOfAScheduler:
    def test_what_it_waits_for_is_noted_once(self):
        assert decide.decide(facts(Status.PENDING), QUEUED, NOW, LIMITS) == NoteQueue("Priority")
        noted = facts(Status.PENDING, queued_reason="Priority")
        assert decide.decide(noted, QUEUED, NOW, LIMITS) is None
        other = RunObservation(RunState.QUEUED, reason="Resources")
        assert decide.decide(noted, other, NOW, LIMITS) == NoteQueue("Resources")

    def test_a_scheduler_that_gives_no_reason_still_has_one_noted(self):
        assert (
            "queue"
            in decide.decide(facts(Status.PENDING), RunObservation(RunState.QUEUED), NOW, LIMITS).reason
        )

    def test_waiting_there_has_no_limit(self):
        step = facts(Status.PENDING, status_since=NOW - 1e6, queued_reason="Priority", queued_at=NOW)
        assert decide.decide(step, QUEUED, NOW, LIMITS) is None

    @pytest.mark.parametrize(("since", "decision"), [(0, None), (100, None), (101, Stop(0))])
    def test_a_start_may_take_so_long_once_it_has_left_the_queue(self, since, decision):
        step = facts(Status.PENDING, status_since=NOW - 1e6, queued_reason="Priority", queued_at=NOW - since)
        assert decide.decide(step, STARTING, NOW, LIMITS) == decision
        assert decide.next_deadline(step, LIMITS) == NOW - since + 100

    @pytest.mark.parametrize("elapsed", [0, 5000])
    def test_a_pause_of_what_waits_there_ends_it_at_once_and_then_it_is_paused(self, elapsed):
        step = facts(Status.PAUSING, pause_requested_at=NOW - min(elapsed, 1801))
        assert decide.decide(step, QUEUED, NOW, LIMITS) == Stop(0)
        assert decide.decide(step, GIVEN_UP, NOW, LIMITS).event is StatusEvent.CHECKPOINT_VERIFIED

    def test_so_does_a_cancel(self):
        assert decide.decide(facts(Status.CANCELLING), QUEUED, NOW, LIMITS) == Stop(0)
        assert decide.decide(facts(Status.CANCELLING), GIVEN_UP, NOW, LIMITS).event is StatusEvent.STOPPED

    def test_what_somebody_else_takes_out_of_the_queue_is_started_again_but_not_for_ever(self):
        seen = RunObservation(
            RunState.LOST, never_started=True, interrupted="the scheduler cancelled it", reason="CANCELLED"
        )
        decision = decide.decide(facts(Status.PENDING, pause_deadline=0), seen, NOW, LIMITS)
        assert (decision.event, decision.history.interrupted) == (StatusEvent.INTERRUPTED, 1)
        assert "the scheduler cancelled it" in decision.why
        often = facts(Status.PENDING, history=AllocationHistory(interrupted=100))
        decision = decide.decide(often, seen, NOW, LIMITS)
        assert decision.reason is StatusReason.CONTINUATION_BUDGET_SPENT


PREEMPTED = "it was preempted"
WALLTIME = "its time on the node was over"
TAKEN_AWAY = {
    "preempted": RunObservation(RunState.LOST, interrupted=PREEMPTED, reason="PREEMPTED"),
    "killed at the walltime": exited(143, stopped=True, interrupted=WALLTIME),
    "killed by the node": exited(137, interrupted="the node failed"),
    "restarted": REBOOTED,
}


class TestLosingThePlace:
    @pytest.mark.parametrize("how", TAKEN_AWAY)
    def test_it_starts_again_and_says_why(self, how):
        decision = decide.decide(facts(Status.ACTIVE), TAKEN_AWAY[how], NOW, LIMITS)
        assert (decision.event, decision.reason) == (StatusEvent.INTERRUPTED, StatusReason.INTERRUPTED)
        assert TAKEN_AWAY[how].interrupted in decision.why

    def test_who_saved_ahead_of_the_end_of_its_place_goes_on_from_there(self):
        step = facts(Status.ACTIVE, goes_on_from=40, allocation=AllocationEnd(saved=True))
        decision = decide.decide(step, exited(75, interrupted=WALLTIME), NOW, LIMITS)
        assert (decision.event, decision.history.idle) == (StatusEvent.INTERRUPTED, 0)

    def test_without_a_checkpoint_status_75_that_nobody_asked_for_is_a_failure(self):
        decision = decide.decide(facts(Status.ACTIVE), exited(75, interrupted=WALLTIME), NOW, LIMITS)
        assert decision.reason is StatusReason.WORKLOAD_FAILED
        old = facts(Status.ACTIVE, goes_on_from=40)
        assert decide.decide(old, exited(75), NOW, LIMITS).reason is StatusReason.WORKLOAD_FAILED

    def test_with_one_of_its_own_it_goes_on_and_says_what_training_said(self):
        step = facts(
            Status.ACTIVE,
            goes_on_from=40,
            allocation=AllocationEnd(saved=True),
            leaves_because="its allocation ends at 2030-01-01 00:00:00Z",
        )
        decision = decide.decide(step, exited(75), NOW, LIMITS)
        assert decision.event is StatusEvent.INTERRUPTED
        assert decision.goes_on == (
            "waits for a node after its allocation ends at 2030-01-01 00:00:00Z, 2nd allocation, from step 40"
        )

    def test_a_walltime_that_the_scheduler_ended_is_none_of_the_steps_own(self):
        step = facts(Status.ACTIVE, goes_on_from=40)
        scheduler = exited(137, timed_out=True, interrupted="its walltime was over")
        assert decide.decide(step, scheduler, NOW, LIMITS).event is StatusEvent.INTERRUPTED
        for own in (exited(137, timed_out=True), exited(75, timed_out=True)):
            saved = facts(Status.ACTIVE, goes_on_from=40, allocation=AllocationEnd(saved=True))
            assert decide.decide(saved, own, NOW, LIMITS).reason is StatusReason.TIME_LIMIT

    @pytest.mark.parametrize("seen", [exited(1), exited(5), exited(137, out_of_memory=True), exited(139)])
    def test_what_its_own_code_did_is_never_repeated(self, seen):
        step = facts(Status.ACTIVE, goes_on_from=40, allocation=AllocationEnd(saved=True))
        assert decide.decide(step, seen, NOW, LIMITS).event is StatusEvent.FAILED

    def test_too_much_memory_is_its_own_doing_also_where_the_place_went(self):
        seen = exited(137, out_of_memory=True, interrupted=PREEMPTED)
        assert decide.decide(facts(Status.ACTIVE), seen, NOW, LIMITS).reason is StatusReason.OUT_OF_MEMORY

    @pytest.mark.parametrize("how", TAKEN_AWAY)
    def test_a_step_that_cannot_go_on_has_failed(self, how):
        decision = decide.decide(facts(Status.ACTIVE, pause_deadline=0), TAKEN_AWAY[how], NOW, LIMITS)
        assert decision.event is StatusEvent.FAILED

    @pytest.mark.parametrize("how", TAKEN_AWAY)
    @pytest.mark.parametrize("status", [Status.ACTIVE, Status.PENDING, Status.PAUSING])
    def test_the_second_long_one_in_a_row_without_a_checkpoint_ends_it(self, how, status):
        long = AllocationEnd(seconds=7200, trained=7000, interval=900)
        first = decide.decide(facts(status, allocation=long), TAKEN_AWAY[how], NOW, LIMITS)
        assert (first.event, first.history.without_checkpoint) == (StatusEvent.INTERRUPTED, 1)
        step = facts(status, allocation=long, history=first.history, last_step=7)
        decision = decide.decide(step, TAKEN_AWAY[how], NOW, LIMITS)
        assert (decision.event, decision.reason, decision.failed) == (
            StatusEvent.FAILED,
            StatusReason.INTERRUPTED_WITHOUT_PROGRESS,
            True,
        )
        assert "2 times in a row" in decision.why
        assert TAKEN_AWAY[how].interrupted in decision.why

    def test_short_ones_do_not_count_however_many(self):
        history = AllocationHistory()
        for _ in range(50):
            short = AllocationEnd(seconds=600, trained=500, interval=900)
            step = facts(Status.ACTIVE, allocation=short, history=history)
            decision = decide.decide(step, TAKEN_AWAY["preempted"], NOW, LIMITS)
            assert decision.event is StatusEvent.INTERRUPTED
            history = decision.history

    def test_a_budget_of_nothing_allows_no_long_one_without_a_checkpoint(self):
        budget = ContinuationBudget(without_checkpoint=0)
        limits = ControllerDeadlines(before_active=1, creation=1, cancel=1, grace=1, continuation=budget)
        step = facts(Status.ACTIVE, allocation=AllocationEnd(seconds=7200))
        assert decide.decide(step, REBOOTED, NOW, limits).event is StatusEvent.FAILED


class TestCancelling:
    def test_it_gets_its_grace_then_none_then_is_killed(self):
        for since, decision in [(0, Stop(10)), (60, Stop(10)), (61, Stop(0)), (91, Kill())]:
            step = facts(Status.CANCELLING, status_since=NOW - since)
            assert decide.decide(step, RUNNING, NOW, LIMITS) == decision

    def test_what_did_not_answer_is_said_while_it_is_ended_another_way_and_afterwards(self):
        late = facts(Status.CANCELLING, status_since=NOW - 61)
        later = facts(Status.CANCELLING, status_since=NOW - 91)
        asked = facts(Status.CANCELLING, status_since=NOW - 10)
        assert decide.decide(asked, RUNNING, NOW, LIMITS).fallback == ""
        said = decide.decide(late, RUNNING, NOW, LIMITS).fallback
        assert said.endswith("end within 60 seconds of the cancel, so its processes are ended by a signal")
        assert (
            "nor did a signal end it, so it is killed" in decide.decide(later, RUNNING, NOW, LIMITS).fallback
        )
        killed = exited(137, stopped=True, asked=True)
        lost = RunObservation(RunState.LOST, asked=True)
        gone = "nothing of it runs any more"
        for step, seen, why in (
            (asked, exited(143, stopped=True, asked=True), gone),
            (asked, killed, f"it did not end within 10 seconds of SIGTERM and was killed; {gone}"),
            (late, killed, f"it did not end within 60 seconds of the cancel and was killed; {gone}"),
            (late, lost, f"it did not end within 60 seconds of the cancel and was killed; {gone}"),
            (asked, lost, gone),
            (late, replace(lost, never_started=True), gone),
            (late, replace(lost, interrupted="its node failed"), gone),
            (late, exited(143, stopped=True, asked=True), gone),  # and it was only seen late
            (asked, replace(killed, out_of_memory=True), gone),
        ):
            assert decide.decide(step, seen, NOW, LIMITS).why == why

    def test_what_cannot_be_seen_is_given_up_in_the_end(self):
        step = facts(Status.CANCELLING, status_since=NOW - 91)
        assert decide.decide(step, UNKNOWN, NOW, LIMITS).event is StatusEvent.STOPPED

    def test_what_never_started_is_cancelled_at_once(self):
        step = facts(Status.CANCELLING, started=False)
        assert decide.decide(step, None, NOW, LIMITS).event is StatusEvent.STOPPED


def test_directories_are_made_until_the_deadline():
    assert decide.decide(facts(Status.CREATION_PENDING), None, NOW, LIMITS) == Prepare()
    late = facts(Status.CREATION_PENDING, status_since=NOW - 101)
    assert decide.decide(late, None, NOW, LIMITS).event is StatusEvent.CREATION_FAILED


def test_what_waits_is_admitted():
    assert decide.decide(facts(Status.QUEUED, started=False), None, NOW, LIMITS) == Admit()


@given(
    st.sampled_from([Status.PENDING, Status.ACTIVE, Status.PAUSING, Status.CANCELLING]),
    st.sampled_from(sorted(SEEN)),
    st.floats(0, 10_000),
    st.booleans(),
)
def test_every_transitional_status_has_a_way_out(status, seen, since, pausable):
    """However long something lasts, once all deadlines are over something is done about it."""
    late = facts(
        status,
        status_since=NOW - since - 10_000,
        pause_requested_at=NOW - since - 10_000,
        pause_deadline=1800.0 if pausable or status is Status.PAUSING else 0.0,
        staleness=50,
        last_sign_at=NOW - since - 10_000,
    )
    decision = decide.decide(late, SEEN[seen], NOW, LIMITS)
    waits_rightly = SEEN[seen] is UNKNOWN and status is not Status.CANCELLING
    assert decision is not None or waits_rightly or (status, seen) == (Status.ACTIVE, "starting")


@pytest.mark.parametrize(
    ("status", "seen", "why"),
    [
        (Status.ACTIVE, RunObservation(RunState.EXITED, exit_status=3), "training exited with status 3"),
        (Status.ACTIVE, RunObservation(RunState.EXITED), "training ended, and how is not on record"),
        (Status.ACTIVE, RunObservation(RunState.LOST), "was lost: how it ended is not on record"),
        (
            Status.PENDING,
            RunObservation(RunState.LOST, never_started=True),
            "is made again: it had not begun",
        ),
        (
            Status.CANCELLING,
            RunObservation(RunState.UNKNOWN),
            "no longer be seen: its executor does not say why",
        ),
    ],
)
def test_an_executor_need_not_give_a_reason(status, seen, why):
    step = facts(status, status_since=NOW - (1 if status is Status.PENDING else 1e6))
    move = decide.decide(step, seen, NOW, LIMITS)
    assert move.why.endswith(why)
