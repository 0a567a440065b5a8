"""Profiles come from the settings, from what is built in, and from executors of other packages."""

from types import SimpleNamespace

import pytest

from nemo_helix_server import executor_kinds
from nemo_helix_server.executors.base import ExecutorKind
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import JobsSettings, ProfileSettings


class OwnSettings(ProfileSettings):
    """What an executor of another package has."""

    queue: str = "short"


class NeedsSettings(ProfileSettings):
    """Nothing can be made of this without a queue."""

    queue: str


def offer(monkeypatch, **kinds):
    """Have packages that bring these kinds of executors; one that is an exception cannot be loaded."""
    real = executor_kinds.load

    def load(name):
        found = kinds.get(name) or real(name)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(executor_kinds, "load", load)
    monkeypatch.setattr(executor_kinds, "added", lambda: tuple(sorted(kinds)))


def shown(profiles):
    return {
        (one["provider"], one["profile"]): (one["backend"], one["config"].get("queue"))
        for one in profiles.all()
    }


def test_an_executor_of_another_package_brings_its_profiles(monkeypatch):
    kind = ExecutorKind(open=list, config=OwnSettings, profiles=(("gpu", "big"), ("cpu", "default")))
    other = ExecutorKind(open=list, profiles=(("gpu", "big"),))
    offer(monkeypatch, beta=kind, zeta=other)
    found = shown(Profiles(JobsSettings()))
    assert found["gpu", "big"] == ("beta", "short")  # the first by name
    assert found["cpu", "default"] == (executor_kinds.DEFAULT, None)  # what is built in stays


def test_what_the_operator_has_set_is_named_beside_the_defaults(monkeypatch):
    offer(monkeypatch)
    config = {"ttl_seconds_active": 60, "env": {"TOKEN": "x"}}
    given = {"provider": "gpu", "profile": "big", "config": config}
    found = {
        one["profile"]: one for one in Profiles(JobsSettings.model_validate({"executors": [given]})).all()
    }
    assert found["big"]["given"] == ["ttl_seconds_active"]
    assert found["big"]["config"]["graceful_shutdown_timeout_seconds"] == 10
    assert found["default"]["given"] == []


def test_the_settings_of_the_service_win(monkeypatch):
    offer(monkeypatch, beta=ExecutorKind(open=list, config=OwnSettings, profiles=(("gpu", "big"),)))
    given = {"provider": "gpu", "profile": "big", "config": {"ttl_seconds_active": 60}}
    found = shown(Profiles(JobsSettings.model_validate({"executors": [given]})))
    assert found["gpu", "big"] == (executor_kinds.DEFAULT, None)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (ExecutorKind(open=list, profiles=("gpu", "big")), "they have to be pairs of a provider (cpu, gpu, "),
        (ExecutorKind(open=list, profiles=(("tpu", "big"),)), "and are (('tpu', 'big'),)"),
        (ExecutorKind(open=list, profiles=None), "and are None"),
        (ExecutorKind(open=list, profiles=((["gpu"], "big"),)), "they have to be pairs"),
        (ExecutorKind(open=list, config=NeedsSettings, profiles=(("gpu", "big"),)), "queue"),
        (SimpleNamespace(open=list), "has no attribute 'profiles'"),
        (executor_kinds.UnknownExecutorError("it cannot be loaded"), "it cannot be loaded"),
        (SystemExit("bye"), "SystemExit: bye"),
    ],
)
def test_one_that_brings_what_is_none_keeps_no_service_from_starting(monkeypatch, caplog, kind, says):
    offer(monkeypatch, beta=kind)
    assert {backend for backend, _ in shown(Profiles(JobsSettings())).values()} == {executor_kinds.DEFAULT}
    assert says in caplog.messages[0]
