"""Completion: what the programs answer, and what real shells make of it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tests.nemo_gym.orchestration.results.test_scores import entry, record

from nemo_cli.completion import LineBash, completes, completion_command
from nemo_gym.cli.program import gym
from nemo_gym.job_paths import RunPaths, index_entry
from nemo_helix_plugin.cli.program import nemo
from nemo_helix_plugin.config import contexts

PROGRAMS = Path(sys.executable).parent
ID = "gym-job-20261129T000000Z-00000a"


def answer(program: click.Command, line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash gets for a line whose end the cursor is at: the lines of its answer."""
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line.encode())))
    name = line.split(maxsplit=1)[0]
    return LineBash(program, {}, name, f"_{name.upper()}_COMPLETE").complete().splitlines()


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    folder = tmp_path / ID
    folder.mkdir()
    made = record(folder, entry(folder / "sums"))
    RunPaths(folder).record.write_bytes(made.dumps())
    index_entry(ID).parent.mkdir(parents=True, exist_ok=True)
    index_entry(ID).write_bytes(made.dumps())
    return folder


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("gym jo", ["job"]),
        ("gym job sho", ["show"]),
        ("gym job show --tr", ["--truncated"]),
        ("gym job show lat", ["latest"]),
        ("gym job show gym-", [ID]),
        ("gym job show 2026", [ID.removeprefix("gym-job-")]),
        ("gym job results latest gym-", [ID]),
        ("gym job show latest ", ["sums"]),
        ("gym job cancel 2026 s", ["sums"]),
        ("gym job list --label ", ["n=1", "team=a"]),
        ("gym job list --label t", ["team=a"]),
        ("gym job list --label team=", ["a"]),
        ("gym job list --label=te", ["team=a"]),
        ("gym eval run --benchmark arithmetic_", ["arithmetic_mcq"]),
        ("gym completion z", ["zsh"]),
        ("gym job show nothing-like-this", []),
        ("gym job show nothing-like-this ", []),
        ("gym job show 'unfinished", []),
        ("gym job ☃", []),
    ],
)
@pytest.mark.usefixtures("submission")
def test_gym_completes_commands_options_and_names(
    line: str, values: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(gym, line, monkeypatch) == [f"plain,{value}" for value in values]


@pytest.mark.usefixtures("submission")
def test_a_word_with_a_slash_is_left_to_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(gym, "gym job show runs/g", monkeypatch) == ["file,runs/g"]


def test_nemo_completes_commands_and_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lab", "laptop"):
        contexts.set_context(contexts.Changes(base_url="http://127.0.0.1:1"), context=name)
    assert answer(nemo, "nemo jobs pau", monkeypatch) == ["plain,pause"]
    assert answer(nemo, "nemo config use-context la", monkeypatch) == ["plain,lab", "plain,laptop"]
    assert answer(nemo, "nemo jobs list --context lab", monkeypatch) == ["plain,lab"]


def test_a_service_that_is_not_there_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NHX_BASE_URL", "http://127.0.0.1:1")
    assert answer(nemo, "nemo jobs pause ", monkeypatch) == []
    assert answer(nemo, "nemo profiles check ", monkeypatch) == []


def test_an_error_while_completing_completes_nothing() -> None:
    def broken(_ctx: click.Context, _incomplete: str) -> Any:
        raise OSError("a disk is gone")

    argument = click.Argument(["name"])
    assert completes(broken)(click.Context(click.Command("x")), argument, "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", ["gym", "nemo"])
def test_a_script_is_printed_for_each_shell(
    program: str, shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = completion_command(program, lambda: gym)
    command.main([shell], standalone_mode=False)
    said = capsys.readouterr()
    assert f"_COMPLETE={shell}_complete" in said.out
    assert program in said.out.splitlines()[-1] or f"_{program.upper()}_COMPLETE" in said.out
    assert said.err == ""


class Terminal:
    """A shell in a terminal of its own, typed into as a person does."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        self._main, other = pty.openpty()
        self._shell = subprocess.Popen(
            argv, stdin=other, stdout=other, stderr=other, env=environ, start_new_session=True
        )
        os.close(other)

    def type(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """Read until something matches; fails after a minute."""
        seen, end = "", time.monotonic() + 60
        while not re.search(pattern, seen):
            assert time.monotonic() < end, f"no {pattern!r} in {seen!r}"
            if select.select([self._main], [], [], 1)[0]:
                seen += os.read(self._main, 65536).decode(errors="replace")
        return seen

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._main)


STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$({program} completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$({program} completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "{program} completion fish | source"),
}


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("shell", STARTS)
@pytest.mark.usefixtures("submission")
def test_a_real_shell_completes(shell: str, tmp_path: Path) -> None:
    argv, start = STARTS[shell]
    if shutil.which(shell) is None:
        reason = f"{shell} is not installed; scripts/system-packages.sh installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    environ = {
        **os.environ,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "TERM": "vt100",
        "PS1": "> ",
    }
    if shell == "fish":  # its own command asks as its editor would
        for line, value in (
            ("gym job sho", "show"),
            ("gym job show lat", "latest"),
            ("nemo jobs pau", "pause"),
        ):
            program = line.split(maxsplit=1)[0]
            script = f"{start.format(program=program)}; complete --do-complete '{line}'"
            done = subprocess.run(
                ["fish", "--no-config", "-c", script],
                env=environ,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.stdout.split("\t")[0].strip() == value, done.stderr
        return
    terminal = Terminal(argv, environ)
    try:
        terminal.type(f"{start.format(program='gym')}; {start.format(program='nemo')}; echo re''ady\n")
        terminal.wait_for(r"(?s)ready\r?\n.*> ")
        terminal.type("gym job sho\tlat\t\n")
        assert "No such command" not in terminal.wait_for("nothing is recorded yet|No such command")
    finally:
        terminal.close()


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, click.Context(inner, info_name=name, parent=context))


@pytest.mark.parametrize("program", [gym, nemo], ids=["gym", "nemo"])
def test_whatever_takes_a_file_completes_files(program: click.Command) -> None:
    silent = []
    for command, context in commands(program, click.Context(program, info_name=program.name)):
        for parameter in command.params:
            takes_file = re.search(r"\b(FILE|DIR|DIRECTORY|NAME\|PATH)\b", parameter.metavar or "")
            kinds = {item.type for item in parameter.shell_complete(context, "x/")}
            if takes_file and not kinds & {"file", "dir"}:
                silent.append(f"{context.command_path} {parameter.opts[-1]}")
    assert silent == []


def test_types_of_verifiers_and_models_to_serve_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(gym, "gym eval preview --verifier ma", monkeypatch) == ["plain,match", "plain,math"]
    assert answer(gym, "gym serve --model s", monkeypatch) == ["plain,smollm2"]
