"""What removes something, or acts on many things at once, asks first; without anybody to ask the answer is
no.
"""

import os

import click
import pytest
from tests.nemo_helix_plugin.cli.test_terminal import Terminal

from nemo_gym.cli.program import gym
from nemo_helix_plugin.cli.program import nemo as nemo_program

VERBS = ("delete", "remove", "unpin", "revoke", "drain", "purge", "prune", "uninstall")
MANY = {"nemo jobs pause": "--all", "gym job cancel": "--all"}
"""Commands that act on many things with this option, and on one thing without asking."""
VALUES = {"job": "done-1", "checkpoint": "ckpt-40-0a1b2c3d4e", "token_id": "token-1", "path": "a.txt"}


def commands(words, command):
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(f"{words} {name}", command.get_command(context, name))


def askers():
    """Every command that must ask, with words that make it act."""
    for program, group in (("gym", gym), ("nemo", nemo_program)):
        for words, command in commands(program, group):
            verb = words.rpartition(" ")[2].partition("-")[0]
            if verb in VERBS or words in MANY:
                yield words, command


ASKERS = dict(askers())


def given(words):
    required = [p for p in ASKERS[words].params if p.required]
    if words in MANY:
        return [*words.split()[1:], MANY[words]]
    arguments = []
    for parameter in required:
        value = VALUES.get(parameter.name, "done-1")
        arguments += [parameter.opts[0], value] if isinstance(parameter, click.Option) else [value]
    return [*words.split()[1:], *arguments]


def test_all_of_them_are_known():
    assert len(ASKERS) >= 12
    for words, command in ASKERS.items():
        assert any("--yes" in parameter.opts for parameter in command.params), words


@pytest.mark.parametrize("words", [words for words in ASKERS if words.startswith("nemo ")])
def test_nobody_to_ask_is_refused(service, nemo, words, tmp_path, monkeypatch):
    monkeypatch.setenv("NHX_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("NHX_CONFIG_FILE", str(tmp_path / "config.yaml"))
    ran = nemo(*given(words))
    assert (ran.status, ran.out) == (2, "")
    assert "There is nobody to ask; add --yes." in ran.err
    assert len(ran.err.splitlines()) == 1
    assert service.requests == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words", ["nemo jobs delete", "nemo jobs pause", "nemo files delete", "nemo auth token revoke"]
)
def test_on_a_terminal_no_means_no(service, words):
    terminal = Terminal(80, *given(words))
    terminal.until(b"[y/N]")
    os.write(terminal._control, b"n\n")
    terminal.until()
    assert terminal.close() == 130
    assert service.requests == []


@pytest.mark.e2e
def test_on_a_terminal_yes_means_yes(service):
    terminal = Terminal(80, "jobs", "delete", "done-1")
    terminal.until(b"[y/N]")
    os.write(terminal._control, b"y\n")
    terminal.until(b"is being deleted")
    assert terminal.close() == 0
    assert [request["method"] for request in service.requests] == ["DELETE"]
