import asyncio
import json
import time

import pytest

from nemo_gym.errors import GymError
from nemo_gym.rollouts.collect.collector import Bounds, Collector
from nemo_gym.rollouts.collect.drain import Drain, StopReason
from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.types import Episode, RolloutFailedError, Task, Verdict

pytestmark = pytest.mark.services

DOWN = PolicyError("provider_unavailable", "503", http_status=503)
REFUSED = PolicyError("transport_unreachable", "nobody there")


class MemoryStore:
    """The collector's view of the store, in memory."""

    first_the_answer = True
    """Whether a result is refused whose answer was not stored before."""

    def __init__(self, expected, max_attempts=3):
        self.expected, self.max_attempts = expected, max_attempts
        self.rows, self.failures, self.ticks = {}, [], 0
        self.answers, self.gradings = {}, {}

    def _tasks(self, wanted):
        for index in range(self.expected):
            if index not in self.rows and index not in self.answers and wanted(self.attempts(index)):
                yield Task(
                    index, 0, {"_ng_task_index": index, "_ng_rollout_index": 0, "question": f"q{index}"}
                )

    def attempts(self, index):
        return sum(1 for at, failure in self.failures if at == index and failure["counted"])

    def pending(self):
        return self._tasks(lambda attempts: attempts < self.max_attempts)

    def retryable(self):
        failed = {at for at, _ in self.failures}
        return (task for task in self.pending() if task.task_index in failed)

    def answered(self):
        for index, fields in list(self.answers.items()):
            if index not in self.rows and self.gradings.get(index, 0) < self.max_attempts:
                yield index, 0, json.loads(json.dumps(fields))

    def answer(self, task, fields):
        assert task.task_index not in self.answers
        self.answers[task.task_index] = fields

    def record(self, task, fields):
        if isinstance(fields.get("odd"), object) and "odd" in fields:
            raise TypeError("Type is not JSON serializable: object")
        assert task.task_index not in self.rows
        assert task.task_index in self.answers or not self.first_the_answer
        self.rows[task.task_index] = fields

    def fail(self, task, **failure):
        if task.task_index in self.answers:
            self.gradings[task.task_index] = self.gradings.get(task.task_index, 0) + 1
        self.failures.append((task.task_index, {"terminal": False, "counted": True} | failure))

    def tick(self):
        self.ticks += 1


class Scripted:
    """Agent, verifier and policy in one; ``script(index, try)`` says what happens, from 1."""

    def __init__(self, script=lambda index, tried: None, verdict=None, fields=None):
        self.script, self.verdict, self.fields = script, verdict, fields or {}
        self.tries, self.running, self.most_running = {}, 0, 0

    async def run(self, task, policy):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            tried = self.tries[task.task_index] = self.tries.get(task.task_index, 0) + 1
            await asyncio.sleep(0)
            outcome = self.script(task.task_index, tried)
            if asyncio.iscoroutine(outcome):
                outcome = await outcome
            if isinstance(outcome, Exception):
                raise outcome
            return Episode(
                {"output": [], "usage": {"input_tokens": 5, "output_tokens": 2}}, fields=self.fields
            )
        finally:
            self.running -= 1

    async def verify(self, task, episode):
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict or Verdict(1.0, "7", {"grade": "good"})


def collect(
    store,
    scripted,
    drain=None,
    *,
    concurrency=4,
    own_service=False,
    said=None,
    before=None,
    allowed=lambda: None,
    monotonic=time.monotonic,
    **bounds,
):
    drain = drain or Drain({})

    async def run():
        drain.attach(asyncio.get_running_loop())
        collector = Collector(
            store,
            agent=scripted,
            verifier=scripted,
            policy=scripted,
            drain=drain,
            bounds=Bounds(concurrency, **bounds),
            own_service=own_service,
            allowed=allowed,
            monotonic=monotonic,
            report=(said if said is not None else []).append,
        )
        if before:
            before(asyncio.get_running_loop(), drain)
        try:
            return await collector.collect()
        finally:
            drain.detach()

    tally = asyncio.run(run())
    return tally, drain


def test_every_planned_rollout_is_collected_once_and_no_more_than_allowed_at_once():
    store, scripted = MemoryStore(100), Scripted()
    tally, drain = collect(store, scripted, concurrency=7)
    assert sorted(store.rows) == list(range(100))
    assert set(scripted.tries.values()) == {1}
    assert scripted.most_running == 7
    assert (tally.new, tally.failed, tally.reward_sum, tally.output_tokens) == (100, 0, 100.0, 200)
    assert drain.reason is None


def test_more_rollouts_are_in_flight_once_more_are_allowed_and_never_fewer():
    async def until_six_are_in_flight():
        for _ in range(6000):
            if scripted.most_running >= 6 or len(store.rows) >= 20:
                return
            await asyncio.sleep(0.01)

    steps = iter([None, 1, 4, 6])
    store, scripted = MemoryStore(40), Scripted(lambda index, tried: until_six_are_in_flight())
    in_a_hurry = lambda: 100 * time.monotonic()  # noqa: E731
    collect(store, scripted, concurrency=2, allowed=lambda: next(steps, 3), monotonic=in_a_hurry)
    assert scripted.most_running == 6
    assert sorted(store.rows) == list(range(40))
    assert set(scripted.tries.values()) == {1}


def test_results_and_failures_say_when_they_were_in_flight():
    store, before = MemoryStore(2), time.time()
    script = lambda index, tried: REFUSED if index == tried == 1 else None  # noqa: E731
    collect(store, Scripted(script))
    ends = [row["ng_perf"]["ended_at"] for row in store.rows.values()]
    ends += [failure["ended_at"] for _, failure in store.failures]
    assert len(ends) == 3
    assert all(before - 0.001 <= end <= time.time() + 0.001 for end in ends)
    assert store.failures[0][1]["latency_ms"] >= 0


def test_a_result_row_holds_the_source_the_answer_the_grade_and_the_cost():
    store = MemoryStore(1)
    collect(store, Scripted(fields={"trace": 1, "reward": 9}))
    row = store.rows[0]
    assert row.pop("ng_perf").keys() == {
        "num_turns",
        "num_tool_calls",
        "prompt_tokens",
        "completion_tokens",
        "total_latency_ms",
        "ended_at",
    }
    assert row == {
        "question": "q0",
        "trace": 1,
        "grade": "good",
        "_ng_verdict_fields": ["grade"],
        "_ng_agent_fields": ["trace"],
        "_ng_covered": {"agent": {"reward": 9}},
        "response": {"output": [], "usage": {"input_tokens": 5, "output_tokens": 2}},
        "reward": 1.0,
        "extracted_answer": "7",
    }


def test_one_failing_rollout_ends_nothing_and_is_tried_again_after_the_others():
    store = MemoryStore(10)
    scripted = Scripted(lambda index, tried: DOWN if index == 3 and tried == 1 else None)
    tally, _ = collect(store, scripted)
    assert len(store.rows) == 10
    assert list(store.rows)[-1] == 3
    ((index, failure),) = store.failures
    assert index == 3
    assert failure.pop("ended_at") > 0
    assert failure.pop("latency_ms") > 0
    assert failure == {
        "failure_class": "agent_request_failed",
        "failure_type": "provider_unavailable",
        "message": "503",
        "http_status": 503,
        "response_body": None,
        "terminal": False,
        "counted": True,
    }
    assert (tally.new, tally.failed) == (10, 1)


def test_a_rollout_that_always_fails_is_given_up_at_the_cap():
    store = MemoryStore(10)
    scripted = Scripted(lambda index, _: ValueError("bad plug-in") if index == 3 else None)
    said = []
    collect(store, scripted, said=said)
    assert len(store.rows) == 9
    assert scripted.tries[3] == 3
    assert {failure["failure_type"] for _, failure in store.failures} == {"ValueError"}
    (sentence,) = said
    assert sentence.startswith(f"a rollout failed (ValueError): bad plug-in ({__file__}:")
    assert sentence.endswith(", in run). Others are counted.")


@pytest.mark.parametrize(
    ("verdict", "failure_class"),
    [
        (ValueError("no such option"), "verifier_error"),
        (Verdict(float("nan")), "verifier_error"),
        (Verdict(1.5), "verifier_error"),
        (Verdict("good"), "verifier_error"),
        (DOWN, "judge_failed"),
        (RolloutFailedError("judge_invalid", "no grade"), "judge_invalid"),
        (Verdict(1.0, fields={"odd": object()}), "persistence_failed"),
        (Verdict(1.0, fields=[1]), "verifier_error"),
    ],
)
def test_what_goes_wrong_after_the_answer_is_told_apart(verdict, failure_class):
    store = MemoryStore(1, max_attempts=1)
    collect(store, Scripted(verdict=verdict))
    assert [failure["failure_class"] for _, failure in store.failures] == [failure_class]
    assert not store.rows


@pytest.mark.parametrize("usage", [[1], {"input_tokens": "nine", "output_tokens": {}}, "x"])
def test_a_plug_in_that_counts_tokens_oddly_does_not_end_the_run(usage):
    class Odd(Scripted):
        async def run(self, task, policy):
            return Episode({"output": [], "usage": usage, "incomplete_details": "x"})

    store = MemoryStore(2)
    tally, _ = collect(store, Odd())
    assert (tally.new, tally.input_tokens) == (2, 0)


@pytest.mark.parametrize(("name", "flag"), [("timeout_exceeded", True), ("skipped", False)])
def test_a_failure_that_is_final_says_so(name, flag):
    store = MemoryStore(1, max_attempts=1)
    collect(store, Scripted(lambda *_: RolloutFailedError(name, "x", terminal=flag)))
    assert store.failures[0][1]["terminal"]


def test_the_breaker_stops_starting_when_the_endpoint_only_fails():
    store, said = MemoryStore(1000), []
    scripted = Scripted(lambda *_: DOWN)
    tally, drain = collect(store, scripted, concurrency=20, said=said)
    assert drain.reason is StopReason.ENDPOINT
    assert 20 <= tally.failed <= 40
    assert any("in a row failed" in line for line in said)
    assert all(failure["counted"] for _, failure in store.failures)


def test_one_success_closes_the_breaker_again():
    store = MemoryStore(400, max_attempts=1)
    tally, drain = collect(store, Scripted(lambda index, _: None if index % 10 == 0 else DOWN), concurrency=2)
    assert drain.reason is None
    assert (tally.new, tally.failed) == (40, 360)


def bad_request(words, status=400, **more):
    return PolicyError(
        "agent_run_error", f"it answered {status}: {words}", http_status=status, body=words, **more
    )


def test_bad_requests_beside_answered_ones_end_nothing():
    store = MemoryStore(100, max_attempts=1)
    bad = bad_request("too strange")
    tally, drain = collect(store, Scripted(lambda index, _: bad if index else None))
    assert drain.reason is None
    assert (tally.new, tally.failed) == (1, 99)


def test_different_rows_with_the_same_client_error_and_no_answer_end_the_run():
    store, said = MemoryStore(400), []
    script = lambda index, _: bad_request(f"req_{index}f{index}: 'temperature' is not supported here")  # noqa: E731
    tally, drain = collect(store, Scripted(script), said=said, concurrency=4)
    assert drain.reason is StopReason.REFUSED
    assert tally.failed < 5 + 4
    assert tally.refusals.lasting
    assert "5 different rows were refused with the same client error" in said[-1]
    assert "'temperature' is not supported here" in said[-1]
    assert "responses_create_params.temperature=null" in said[-1]


def test_one_row_that_is_refused_again_and_again_is_no_sign_of_others():
    store = MemoryStore(40, max_attempts=9)
    down = PolicyError("agent_request_failed", "a broken answer", http_status=200)
    scripted = Scripted(lambda index, _: bad_request("too strange") if index == 0 else down)
    _, drain = collect(store, scripted, concurrency=1)
    assert drain.reason is None
    assert scripted.tries[0] == 9


def test_rows_that_are_refused_for_their_own_reasons_end_nothing():
    store = MemoryStore(40, max_attempts=1)
    words = ["a b", "c d", "e f", "g h", "i j", "k l", "m n", "o p", "q r", "s t"]
    _, drain = collect(store, Scripted(lambda index, _: bad_request(words[index // 4])))
    assert drain.reason is None


def test_long_rows_at_the_beginning_end_nothing():
    """A data set may be sorted by length."""
    words = "This model's maximum context length is 4096 tokens, you asked for 5000"
    store = MemoryStore(100, max_attempts=1)
    tally, drain = collect(
        store, Scripted(lambda index, _: bad_request(words) if index < 60 else None), concurrency=2
    )
    assert drain.reason is None
    assert (tally.failed, tally.new) == (60, 40)


def test_a_run_of_few_rows_that_are_all_refused_alike_does_not_ask_again():
    store, said = MemoryStore(2), []
    scripted = Scripted(lambda *_: bad_request("'seed' is not supported"))
    _, drain = collect(store, scripted, said=said)
    assert drain.reason is StopReason.REFUSED
    assert set(scripted.tries.values()) == {1}
    assert "seed=null" in said[-1]


def test_a_pass_in_which_only_the_endpoint_failed_is_not_repeated():
    store = MemoryStore(5)
    scripted = Scripted(lambda *_: DOWN)
    collect(store, scripted)
    assert set(scripted.tries.values()) == {1}


def test_what_fails_because_our_own_service_is_gone_uses_up_no_attempt():
    store = MemoryStore(5)
    collect(store, Scripted(lambda *_: REFUSED), own_service=True)
    assert [failure["counted"] for _, failure in store.failures] == [False] * 5
    foreign = MemoryStore(5)
    collect(foreign, Scripted(lambda *_: REFUSED))
    assert all(failure["counted"] for _, failure in foreign.failures)


def test_a_stop_lets_what_is_in_flight_finish_and_starts_nothing_else():
    store = MemoryStore(100)
    scripted = Scripted(lambda index, _: asyncio.sleep(0.2))
    tally, _ = collect(
        store, scripted, before=lambda loop, drain: loop.call_later(0.05, drain.ask, StopReason.SIGNAL)
    )
    assert sorted(store.rows) == [0, 1, 2, 3]
    assert tally.failed == 0


def test_what_does_not_finish_within_the_margin_is_dropped_without_a_trace():
    store = MemoryStore(100)
    scripted = Scripted(lambda index, _: asyncio.sleep(60 if index == 2 else 0.01))
    collect(
        store,
        scripted,
        drain_margin=0.1,
        before=lambda loop, drain: loop.call_later(0.1, drain.ask, StopReason.SIGNAL),
    )
    assert 2 not in store.rows
    assert store.failures == []
    assert scripted.running == 0


def asked_by_file(folder, said):
    """A drain that somebody asks for 0.05 s after the start, by file and by signal as a job does."""
    path = folder / "drain"

    def ask(loop, drain):
        def now():
            path.write_text(f"{said}\n")
            drain.ask(StopReason.SIGNAL, "SIGUSR1")

        loop.call_later(0.05, now)

    return Drain({"NEMO_GYM_DRAIN_FILE": str(path)}), ask


@pytest.mark.parametrize(("said", "finished"), [("walltime", 4), ("cancel", 0)])
def test_a_stop_ahead_of_the_time_limit_gives_what_is_in_flight_a_time_of_its_own(tmp_path, said, finished):
    store, (drain, ask) = MemoryStore(4), asked_by_file(tmp_path, said)
    scripted = Scripted(lambda *_: asyncio.sleep(1.5))
    collect(store, scripted, drain, before=ask, drain_margin=0.1, walltime_margin=60)
    assert len(store.rows) == finished


def test_sigterm_shortens_the_time_that_a_stop_ahead_of_the_time_limit_gave(tmp_path):
    store, (drain, ask) = MemoryStore(4), asked_by_file(tmp_path, "walltime")
    said = []

    def ask_twice(loop, drain):
        ask(loop, drain)
        loop.call_later(0.8, setattr, drain, "sigterm_received", True)

    scripted = Scripted(lambda *_: asyncio.sleep(60))
    collect(store, scripted, drain, before=ask_twice, said=said, drain_margin=0.1, walltime_margin=60)
    assert store.rows == {}
    assert [line.rpartition(" get ")[2] for line in said] == ["60 s.", "0.1 s."]


def test_what_fails_after_a_stop_uses_up_no_attempt():
    async def fails_later():
        await asyncio.sleep(0.2)
        return REFUSED

    store = MemoryStore(4)
    collect(
        store,
        Scripted(lambda *_: fails_later()),
        before=lambda loop, drain: loop.call_later(0.05, drain.ask, StopReason.SIGNAL),
    )
    assert [failure["counted"] for _, failure in store.failures] == [False] * 4


def test_a_second_interrupt_drops_what_is_in_flight():
    def interrupt(loop, drain):
        def now():
            drain.at_once = True
            drain.ask(StopReason.INTERRUPT)

        loop.call_later(0.05, now)

    store = MemoryStore(4)
    collect(store, Scripted(lambda *_: asyncio.sleep(60)), before=interrupt, drain_margin=1000)
    assert store.rows == {}


def test_nothing_is_started_when_the_stop_came_first():
    store, drain = MemoryStore(4), Drain({})
    drain.ask(StopReason.FILE, "walltime")
    scripted = Scripted()
    collect(store, scripted, drain)
    assert scripted.tries == {}


def test_the_dispatch_budget_leaves_the_margin_for_what_is_in_flight():
    store = MemoryStore(4)
    scripted = Scripted()
    _, drain = collect(store, scripted, dispatch_budget=5.0, drain_margin=5.0)
    assert drain.reason is StopReason.BUDGET
    assert scripted.tries == {}


def test_what_the_store_cannot_do_ends_the_run_and_leaves_nobody_running():
    class Full(MemoryStore):
        def record(self, task, fields):
            raise GymError("no space left")

    scripted = Scripted(lambda index, _: asyncio.sleep(60) if index else None)
    with pytest.raises(GymError, match="no space"):
        collect(Full(10), scripted)
    assert scripted.running == 0


def test_a_store_that_belongs_to_another_now_ends_the_run():
    class Taken(MemoryStore):
        def tick(self):
            raise GymError("taken over")

    scripted = Scripted(lambda *_: asyncio.sleep(60))
    with pytest.raises(GymError, match="taken over"):
        collect(Taken(10), scripted)
    assert scripted.running == 0


def test_a_signal_after_the_breaker_limits_what_is_still_in_flight():
    store = MemoryStore(100)
    scripted = Scripted(lambda index, _: asyncio.sleep(60) if index == 0 else DOWN)
    _, drain = collect(
        store,
        scripted,
        drain_margin=0.1,
        before=lambda loop, drain: loop.call_later(0.3, drain.ask, StopReason.SIGNAL),
    )
    assert drain.reason is StopReason.SIGNAL
    assert 16 <= len(store.failures) < 16 + 4
    assert scripted.running == 0


def test_an_answer_is_stored_before_it_is_graded_and_asked_for_once():
    store = MemoryStore(3, max_attempts=2)
    scripted = Scripted(verdict=ValueError("no such option"))
    said = []
    tally, _ = collect(store, scripted, said=said)
    assert scripted.tries == {0: 1, 1: 1, 2: 1}
    assert sorted(store.answers) == [0, 1, 2]
    assert not store.rows
    assert [failure["failure_class"] for _, failure in store.failures] == ["verifier_error"] * 6
    assert (tally.new, tally.failed, tally.output_tokens) == (0, 6, 6)
    (sentence,) = said
    assert sentence.startswith(f"grading an answer failed (ValueError): no such option ({__file__}:")
    assert sentence.endswith(", in verify). The answer is kept. Others are counted.")


def test_stored_answers_are_graded_without_a_request_with_what_the_first_grading_had():
    first = MemoryStore(3, max_attempts=1)
    collect(first, Scripted(verdict=ValueError("broken"), fields={"trace": 1, "reward": 9}))
    seen = []

    class Mended(Scripted):
        async def verify(self, task, episode):
            seen.append((task, episode.fields, episode.response["usage"]["output_tokens"]))
            return Verdict(1.0)

    store = MemoryStore(4)
    store.answers = first.answers
    scripted = Mended(fields={"trace": 2})
    collect(store, scripted, concurrency=1)
    assert scripted.tries == {3: 1}
    assert len(store.rows) == 4
    expected = {"_ng_task_index": 1, "_ng_rollout_index": 0, "question": "q1"}
    assert seen[1] == (Task(1, 0, expected), {"trace": 1, "reward": 9}, 2)


def test_a_grader_that_fails_now_and_then_is_asked_again_in_the_same_run():
    class Moody(Scripted):
        async def verify(self, task, episode):
            if task.task_index not in seen:
                seen.add(task.task_index)
                raise OSError("judge away")
            return Verdict(1.0)

    seen = set()
    store = MemoryStore(4)
    scripted = Moody()
    collect(store, scripted, concurrency=1)
    assert len(store.rows) == 4
    assert set(scripted.tries.values()) == {1}


def test_an_answer_that_no_row_can_hold_is_a_failure_of_the_rollout():
    class Unstorable(MemoryStore):
        def answer(self, task, fields):
            raise TypeError("nested too deeply for JSON")

    store = Unstorable(1, max_attempts=1)
    collect(store, Scripted())
    assert [failure["failure_class"] for _, failure in store.failures] == ["persistence_failed"]


class AtOnce(Scripted):
    """Needs no time for a grade."""

    grades_at_once = True


class Together(MemoryStore):
    """Takes results whose answers were not stored before."""

    first_the_answer = False


def test_an_answer_whose_grade_takes_no_time_is_stored_together_with_it():
    store = Together(3)
    tally, _ = collect(store, AtOnce(fields={"trace": 1}))
    assert sorted(store.rows) == [0, 1, 2]
    assert not store.answers
    assert (tally.new, tally.answered, tally.output_tokens) == (3, 3, 6)
    assert [row["trace"] for row in store.rows.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("verdict", "failure_class"),
    [
        (ValueError("no such option"), "verifier_error"),
        (Verdict(float("nan")), "verifier_error"),
        (Verdict(1.0, fields=[]), "verifier_error"),
        (Verdict(1.0, fields={"odd": object()}), "persistence_failed"),
    ],
)
def test_when_such_a_grade_fails_the_answer_is_stored_first_and_asked_for_once(verdict, failure_class):
    seen = []

    class Watched(Together):
        def fail(self, task, **failure):
            seen.append(task.task_index in self.answers)
            super().fail(task, **failure)

    store = Watched(2, max_attempts=1)
    scripted = AtOnce(verdict=verdict)
    tally, _ = collect(store, scripted)
    assert scripted.tries == {0: 1, 1: 1}
    assert sorted(store.answers) == [0, 1]
    assert (store.rows, tally.new) == ({}, 0)
    assert {failure["failure_class"] for _, failure in store.failures} == {failure_class}
    assert seen == [True, True]


def test_an_answer_that_no_row_can_hold_is_one_failure_also_where_its_grade_takes_no_time():
    class Unstorable(Together):
        def answer(self, task, fields):
            raise TypeError("nested too deeply for JSON")

        record = answer

    store = Unstorable(1, max_attempts=1)
    collect(store, AtOnce())
    assert [failure["failure_class"] for _, failure in store.failures] == ["persistence_failed"]


class Judged(Scripted):
    """Its judge is away for the first gradings, as many as ``away`` says."""

    def __init__(self, away):
        super().__init__()
        self.away, self.gradings = away, 0

    async def verify(self, task, episode):
        self.gradings += 1
        if self.gradings <= self.away:
            raise DOWN
        return Verdict(1.0)


def test_a_judge_that_is_away_costs_no_answer_and_no_attempt():
    store, said = MemoryStore(200), []
    store.first_the_answer = True
    judged = Judged(away=10**6)
    tally, drain = collect(store, judged, concurrency=4, said=said)
    assert (tally.answered, tally.new, len(store.answers)) == (200, 0, 200)
    assert judged.gradings < 60, "grading stops, asking goes on"
    assert drain.reason is None
    assert not any(failure["counted"] for _, failure in store.failures)
    assert any("failed at the judge: answers are stored without a grade" in line for line in said)


def test_a_judge_that_comes_back_grades_what_is_stored():
    store = MemoryStore(60)
    store.first_the_answer = True
    tally, _ = collect(store, Judged(away=20), concurrency=4)
    assert (tally.answered, tally.new) == (60, 60)
