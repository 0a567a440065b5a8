"""Who is told: what may be written, and how it comes into a submission."""

import pytest
import yaml
from tests.nemo_gym.orchestration.submit_files import write

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.resolve import resolve

HOOK = {"url": "https://hooks.example.org/x", "headers": {"Authorization": "host:HOOK_TOKEN"}}


def notify(folder, value):
    return resolve(write(folder, {"notify": value}), cwd=folder).config.notify


def test_a_command_a_webhook_or_both_may_be_told(tmp_path):
    found = notify(tmp_path, {"webhook": HOOK, "command": "cat"})
    assert found.values() == {
        "notify.webhook.url": HOOK["url"],
        "notify.webhook.headers.Authorization": "host:HOOK_TOKEN",
    }
    assert found.on == ["end", "failure", "no_progress"]
    assert notify(tmp_path, {"webhook": {"url": "host:HOOK_URL"}, "on": ["failure"]}).on == ["failure"]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"on": ["end"]}, "needs a command or a webhook"),
        ({"webhook": {"url": "ftp://x"}}, "must be an address with http"),
        ({"webhook": {"url": "host:"}}, "no name follows"),
        (
            {"webhook": {**HOOK, "headers": {"Authorization": "Bearer s3same"}}},
            "as host:VAR, never the value",
        ),
        ({"webhook": {**HOOK, "headers": {"X-Api-Key": "s3same"}}}, "as host:VAR, never the value"),
        ({"webhook": {**HOOK, "headers": {"X y": "lit:1"}}}, "'X y' is not a name of a header"),
        ({"command": "cat", "on": ["ends"]}, "notify.on"),
        ({"webhok": HOOK}, "did you mean 'notify.webhook'?"),
    ],
)
def test_what_cannot_be_is_said_and_no_secret_is_repeated(tmp_path, value, sentence):
    with pytest.raises(ConfigError) as caught:
        notify(tmp_path, value)
    assert sentence in str(caught.value)
    assert "s3same" not in str(caught.value)


def test_the_settings_say_it_for_submissions_that_do_not(tmp_path, monkeypatch):
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"notify": {"command": "mine"}}))
    monkeypatch.setenv("NEMO_GYM_SETTINGS", str(settings))
    assert resolve(write(tmp_path), cwd=tmp_path).config.notify.command == "mine"
    assert notify(tmp_path, {"command": "its own"}).command == "its own"
    assert notify(tmp_path, None) is None
