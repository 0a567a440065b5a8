"""What our programs keep of the login shell's environment, tried with real programs."""

import os
import sys
from types import SimpleNamespace

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.plan import interpreter


@pytest.fixture
def try_out(tmp_path, monkeypatch):
    """Let a program be tried that starts only when a shell's test holds."""

    def tried(condition, *, env=None, setup="", **environ):
        program = tmp_path / "gym program"
        program.write_text(f"#!/bin/bash\n{condition}\n")
        program.chmod(0o755)
        for name in [name for name in os.environ if name.startswith("PYTHON")]:
            monkeypatch.delenv(name)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        config = SimpleNamespace(driver=SimpleNamespace(env=env or {}), machine=SimpleNamespace(setup=setup))
        return interpreter.kept(program, config, interpreter.run_here)

    return tried


FOREIGN = {
    "PYTHONPATH": "/theirs",
    "PYTHONHOME": "/nowhere",
    "PYTHONSTARTUP": "/x",
    "LD_LIBRARY_PATH": "/lib/x",
}


def test_what_is_not_needed_stays_out(try_out):
    clean = '[ -z "$PYTHONPATH$PYTHONHOME$PYTHONSTARTUP$LD_LIBRARY_PATH" ] && [ -n "$PYTHONNOUSERSITE" ]'
    assert try_out(clean, **FOREIGN) == ""


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ('[ "$LD_LIBRARY_PATH" = /lib/x ]', "libraries"),
        ('[ -z "$PYTHONNOUSERSITE" ]', "user_site"),
        ('[ -z "$PYTHONNOUSERSITE" ] && [ -n "$LD_LIBRARY_PATH" ]', "libraries user_site"),
    ],
)
def test_what_the_interpreter_needs_stays(try_out, condition, kept):
    assert try_out(f'{condition} && [ -z "$PYTHONPATH" ]', **FOREIGN) == kept


def test_what_driver_env_names_is_meant_for_us(try_out):
    ours = {"PYTHONPATH": "/our plug-ins", "OTHER": "x"}
    assert try_out('[ "$PYTHONPATH" = "/our plug-ins" ]', env=ours, **FOREIGN) == ""


def test_a_program_that_never_starts_is_refused_at_submit_unless_the_setup_may_help(try_out):
    with pytest.raises(ConfigError, match=r"gym program does not start without the PYTHON… variables"):
        try_out('[ -n "$PYTHONPATH" ]', **FOREIGN)
    assert try_out("exit 1", setup="module load python") == "libraries user_site"


def test_a_plain_shell_needs_no_try(tmp_path, monkeypatch):
    monkeypatch.setattr("site.getusersitepackages", lambda: str(tmp_path / "none"))
    assert interpreter.is_plain({"PATH": "/bin"})
    assert interpreter.is_plain({"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    assert not interpreter.is_plain({"PYTHONUNBUFFERED": "1", "PYTHONHOME": "/x"})
    assert not interpreter.is_plain({"PYTHONPATH": "/x"})
    assert not interpreter.is_plain({"LD_LIBRARY_PATH": "/x"})
    monkeypatch.setattr("site.getusersitepackages", lambda: str(tmp_path))
    assert not interpreter.is_plain({"PATH": "/bin"})


def test_the_gym_of_this_test_needs_nothing(try_out):
    gym = os.path.join(os.path.dirname(sys.executable), "gym")
    assert try_out(f'exec "{gym}" --version', PYTHONPATH="/nowhere", LD_LIBRARY_PATH="/nowhere") == ""


def test_what_driver_env_takes_from_a_variable_is_what_that_holds_before_anything_is_taken_away(try_out):
    ours = {"PYTHONPATH": "host:PYTHONHOME", "LD_LIBRARY_PATH": "host:OUR_LIBRARIES"}
    condition = '[ "$PYTHONPATH" = "it\'s $x" ] && [ "$LD_LIBRARY_PATH" = "/a b" ] && [ -z "$PYTHONHOME" ]'
    environ = {"PYTHONHOME": "it's $x", "OUR_LIBRARIES": "/a b"}
    assert try_out(condition.replace("$x", "\\$x"), env=ours, **environ) == ""
