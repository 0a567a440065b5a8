"""What a library raises while it sets a run up is its refusal; what the machine lacks is not."""

from __future__ import annotations

import pytest

from nemo_engines import errors


def test_a_refusal_is_one_line_that_says_something() -> None:
    for raised, said in (
        (ValueError("no\nsuch  thing"), "no such thing"),
        (AssertionError(), "AssertionError: "),
        (KeyError("added"), "KeyError: 'added'"),
        (ValueError("got no trainable parameters"), "modules that lora.target_modules names?"),
    ):
        with (
            pytest.raises(errors.BadSpecError, match="the library refuses this run: ") as caught,
            errors.setting_up(),
        ):
            raise raised
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(errors.EngineUnavailableError), errors.setting_up():
        raise ImportError("peft")


@pytest.mark.parametrize(
    "raised", [MemoryError(), RuntimeError("CUDA out of memory"), errors.DivergedError("x")]
)
def test_what_is_no_refusal_stays_what_it_is(raised: Exception) -> None:
    with pytest.raises(type(raised)), errors.setting_up():
        raise raised


def test_what_comes_later_is_no_refusal() -> None:
    with pytest.raises(ValueError, match="late"), errors.setting_up(lambda: False):
        raise ValueError("late")
