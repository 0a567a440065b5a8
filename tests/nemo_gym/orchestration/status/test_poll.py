"""Watching: intervals that grow, with jitter, and are short again after a change."""

import random
from dataclasses import replace

import pytest
from tests.nemo_gym.orchestration.evidence_files import known, saw

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.orchestration.status.poll import LONGEST, Pace, watch
from nemo_gym.orchestration.status.report import of_submissions


def submission(state, done=0):
    [found] = of_submissions([known(seen={"1": saw("QUEUED")})])
    status = replace(found.benchmarks[0], state=BenchmarkState(state), done=done)
    return replace(found, benchmarks=(status,))


def test_pauses_grow_to_a_minute_and_are_never_the_same_for_two_watchers():
    pace = Pace(random.Random(1))
    pauses = [pace.next(changed=False) for _ in range(20)]
    assert pauses[0] < 2
    assert all(0.8 * LONGEST <= pause <= 1.2 * LONGEST for pause in pauses[-5:])
    assert len(set(pauses)) == len(pauses)
    assert pace.next(changed=True) < 1.3


def test_it_looks_until_all_have_ended_and_sooner_after_a_change():
    looks = ["queued"] * 6 + ["running"] * 2 + ["succeeded"]
    ahead, pauses, shown = iter(looks), [], []
    found = watch(
        lambda: [submission(next(ahead), done=len(pauses))],
        shown.append,
        pace=Pace(random.Random(1)),
        sleep=pauses.append,
    )
    assert [status.state for status in found[0].benchmarks] == ["succeeded"]
    assert len(shown) == len(looks)
    assert pauses[5] > 3 > 1.3 > pauses[6], "more rollouts are not change, another state is one"


@pytest.mark.parametrize(
    ("state", "done", "looks"), [("succeeded", 10, 1), ("succeeded", 4, 2), ("failed", 10, 2)]
)
def test_an_end_that_is_only_remembered_while_a_machine_is_away_is_no_end(state, done, looks):
    def look(silent):
        found = submission(state, done=done)
        status = replace(found.benchmarks[0], expected=10, silent=silent)
        return [replace(found, benchmarks=(status,))]

    answers, shown = iter([look("no answer"), look("")]), []
    watch(lambda: next(answers), shown.append, sleep=lambda _: None)
    assert len(shown) == looks


def test_unknown_is_no_end():
    states = iter(["unknown", "unknown", "failed"])
    pauses = []
    watch(lambda: [submission(next(states))], lambda _: None, sleep=pauses.append)
    assert len(pauses) == 2
