"""The speed of a training, without what comes between its steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nemo_engines.speed import Speed, memory_fields


def test_only_steps_are_timed_and_the_first_one_is_left_out() -> None:
    now = [0.0]
    speed = Speed(lambda: now[0])

    def step(seconds: float, tokens: float) -> None:
        speed.begins()
        now[0] += seconds
        speed.finished(tokens)
        now[0] += 100  # a save

    step(50, 10)
    assert speed.fields(left=9) == {}
    step(2, 30)
    step(4, 60)
    found = speed.fields(left=7, flops_per_token=3.0)
    assert found == {
        "step_seconds": 3,
        "seconds_left": 21,
        "tokens_per_second": pytest.approx(50 / 6),
        "flops_per_second": 25,
    }
    for number in range(30):
        step(1, 70 + number)
    assert speed.fields(left=0)["step_seconds"] == 1


def test_where_nobody_counts_tokens_steps_are_timed_alone() -> None:
    now = [0.0]
    speed = Speed(lambda: now[0])
    speed.begins()
    for _ in range(3):
        now[0] += 5
        speed.finished()
    assert speed.fields(left=2) == {"step_seconds": 5, "seconds_left": 10}


def test_tokens_that_are_counted_once_a_generation_belong_to_all_of_its_steps() -> None:
    now = [0.0]
    speed = Speed(lambda: now[0])
    speed.begins()
    for tokens in (288.0, None, 576.0, None, 864.0):
        now[0] += 2
        speed.finished(tokens)
    assert speed.fields(left=0)["tokens_per_second"] == pytest.approx(2 * 288 / 8)


def test_memory_is_that_of_the_process_or_of_its_gpu() -> None:
    assert memory_fields(None, "cpu")["memory_bytes"] > 1 << 20
    properties = SimpleNamespace(total_memory=9)
    cuda = SimpleNamespace(
        max_memory_allocated=lambda: 7,
        current_device=lambda: 0,
        get_device_properties=lambda _number: properties,
    )
    found = memory_fields(SimpleNamespace(cuda=cuda), "cuda")
    assert found == {"memory_bytes": 7, "memory_limit_bytes": 9}
