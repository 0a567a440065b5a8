"""A pass that does not end is said, with what it waits for."""

from nemo_helix_server.controller.supervision.pass_watch import LONGEST_PASS, PassWatch


def watched(waits=()):
    now = [0.0]
    return now, PassWatch(lambda: now[0], lambda: waits)


def test_a_pass_that_takes_long_is_a_problem_until_it_ends():
    now, watch = watched(["the executor 'odd' has not returned from observe for 45 seconds"])
    assert watch.problem() is None
    watch.begin()
    now[0] = LONGEST_PASS
    assert watch.problem() is None
    now[0] = 45.0
    assert watch.problem() == (
        "no job has been looked after for 45 seconds: the controller waits; the executor 'odd' has not "
        "returned from observe for 45 seconds"
    )
    watch.end()
    assert watch.problem() is None


def test_it_is_logged_once_a_pass(caplog):
    now, watch = watched()
    for number in range(2):
        watch.begin()
        watch.look()
        now[0] += 45.0
        for _ in range(3):
            watch.look()
        assert len(caplog.records) == number + 1
        watch.end()
        watch.look()
    assert caplog.messages[0] == "no job has been looked after for 45 seconds: the controller waits"
