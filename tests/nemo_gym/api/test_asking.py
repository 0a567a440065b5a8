"""Arguments as settings: each value arrives as it was given, or is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.api.asking import Asked, overrides_of
from nemo_gym.errors import UsageError
from nemo_gym.rollouts.data.run_request import config_of


def asked(folder: Path, **more: Any) -> Asked:
    given: dict[str, Any] = {"questions": "gsm8k", "output": folder / "out", "verifier": None}
    given |= {"prompt": None, "system": None, "config": (), "settings": None}
    return Asked(**{**given, **more})


def test_a_setting_that_is_none_is_null_and_an_argument_that_is_none_is_not_given(tmp_path: Path) -> None:
    settings = {"benchmark.prompt.examples": None}
    found = config_of(asked(tmp_path, settings=settings).request({}), cwd=tmp_path, report=print)
    assert found.benchmark.prompt is not None
    assert (found.benchmark.prompt.examples, found.benchmark.prompt.user) == (None, "Q: {question}\nA:")
    with_examples = config_of(asked(tmp_path).request({}), cwd=tmp_path, report=print)
    assert with_examples.benchmark.prompt is not None
    assert with_examples.benchmark.prompt.examples is not None


@pytest.mark.parametrize(
    "value", ["1", "null", "😀 \u007f\u0085", "a: b #c", " ", "${x}", 1e-5, None, [{"a": True}]]
)
def test_a_value_is_what_it_was(value: Any) -> None:
    (found,) = overrides_of({"a.b": value}, "overrides")
    assert (found.key, found.value, found.prefix) == ("a.b", value, "++")


def test_paths_and_tuples_are_as_json_has_them() -> None:
    found = overrides_of({"a": Path("/x/y"), "b": ("c", Path("d"))}, "overrides")
    assert [one.value for one in found] == ["/x/y", ["c", "d"]]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"a": {1, 2}}, "overrides: the value of a cannot be written as JSON (set has no form in JSON)."),
        ({"a..b": 1}, "overrides: 'a..b' is not a dotted key, such as benchmark.prompt.user."),
        ({3: 1}, "overrides: 3 is not a dotted key, such as benchmark.prompt.user."),
    ],
)
def test_what_cannot_be_a_setting_is_refused(values: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        overrides_of(values, "overrides")
    assert str(refused.value) == sentence
