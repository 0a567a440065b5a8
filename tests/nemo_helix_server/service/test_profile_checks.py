"""A check asks the executor of the profile, whatever that can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_helix_server import executor_kinds
from nemo_helix_server.errors import UnknownNameError
from nemo_helix_server.executor_kinds import UnknownExecutorError
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.service.profile_checks import ProfileChecks
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import JobsSettings, ProfileSettings
from nemo_runs.findings import ok, problem, warning

SHORT = {"provider": "gpu", "profile": "short", "config": {"ttl_seconds_active": 60}}


class Silent:
    """An executor without a check."""

    def start(self, *_: Any, **__: Any) -> None:
        """Never called here, like the others."""

    observe = request_pause = withdraw_pause = stop = kill = last_request = close = start


class Checking(Silent):
    """An executor with one."""

    def __init__(self, *findings: Any) -> None:
        self.findings = findings
        self.asked: list[tuple[ProfileSettings, str]] = []

    def check(self, profile: ProfileSettings, provider: str) -> Any:
        self.asked.append((profile, provider))
        return self.findings


class Outer(Silent):
    """An executor that passes on to another one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Failing(Silent):
    """One whose check does not work."""

    def check(self, profile: ProfileSettings, provider: str) -> Any:
        raise ValueError(f"no {provider} for {profile.log_bytes}")


def checks(named: Callable[[str], Any]) -> ProfileChecks:
    executors = Executors(named, executor_kinds.DEFAULT, Path("/no/such/folder"))
    return ProfileChecks(Profiles(JobsSettings.model_validate({"executors": [SHORT]})), executors)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_executor_is_asked_with_the_profile_s_own_settings(wrapped: bool) -> None:
    executor = Checking(ok("devices", "2 GPUs"), warning("disk", "little"))
    found = checks(lambda name: Outer(executor) if wrapped else executor).check("gpu", "short")
    assert (found["backend"], found["ok"]) == ("subprocess", True)
    assert [finding["verdict"] for finding in found["findings"]] == ["ok", "warning"]
    ((settings, provider),) = executor.asked
    assert (getattr(settings, "ttl_seconds_active", None), provider) == (60, "gpu")


def test_one_problem_is_enough() -> None:
    assert (
        checks(lambda name: Checking(ok("a", "b"), problem("c", "d"))).check("cpu", "default")["ok"] is False
    )


def test_an_executor_without_a_check_has_nothing_to_check() -> None:
    found = checks(lambda name: Silent()).check("cpu", "default")
    assert found["ok"] is True
    assert found["findings"] == [
        {
            "verdict": "unknown",
            "about": "executor",
            "text": "nothing to check: it cannot try its profiles",
        }
    ]


def test_a_check_that_fails_is_a_problem_and_not_an_error_of_the_service() -> None:
    (found,) = checks(lambda name: Failing()).check("gpu", "short")["findings"]
    assert found["verdict"] == "problem"
    says = "the executor 'subprocess' fails in check: ValueError: no gpu for 67108864."
    assert found["text"] == says


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("fine", "it is 'fine', and has to be a sequence of Finding"),
        (None, "it is None, and has to be a sequence of Finding"),
        ([17], "it is [17], and has to be a sequence of Finding"),
    ],
)
def test_an_answer_that_is_no_findings_is_a_problem_and_not_an_error(answer: Any, says: str) -> None:
    class Odd(Silent):
        def check(self, profile: ProfileSettings, provider: str) -> Any:
            return answer

    (found,) = checks(lambda name: Odd()).check("gpu", "short")["findings"]
    assert found["text"] == f"the executor 'subprocess' answers wrongly to check: {says}."


def test_an_executor_that_cannot_be_loaded_is_a_problem() -> None:
    def named(name: str) -> Any:
        raise UnknownExecutorError(f"there is no executor '{name}' here")

    (found,) = checks(named).check("gpu", "short")["findings"]
    assert found == {
        "verdict": "problem",
        "about": "executor",
        "text": "there is no executor 'subprocess' here.",
    }


@pytest.mark.parametrize("name", [("gpu", "shrt"), ("tpu", "default"), ("short", "gpu")])
def test_a_profile_that_is_not_there_is_answered_with_those_that_are(name: tuple[str, str]) -> None:
    with pytest.raises(UnknownNameError) as raised:
        checks(lambda name: Silent()).check(*name)
    assert str(raised.value) == (
        f"there is no execution profile '{'/'.join(name)}'; there are cpu/default, cpu/gpu, gpu/default, "
        "gpu/gpu, gpu/short, subprocess/default"
    )
