"""What our own programs keep of the login shell's environment in a job; found out by trying at submit.

A shell's ``PYTHON…`` variables are for its owner's programs: in ours they would put other packages in the
place of those that were installed with them. ``LD_LIBRARY_PATH`` and the packages of the user's own
(``pip install --user``) stay out as well, unless the interpreter does not start without. What ``driver.env``
names is meant for us, and stays.
"""

from __future__ import annotations

import os
import site
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_runs.secret_refs import Reference, parse_reference
from nemo_slurm.remote_script import remote_script

LIBRARIES, USER_SITE = "libraries", "user_site"
EVERYTHING = f"{LIBRARIES} {USER_SITE}"
_ATTEMPTS = ("", LIBRARIES, USER_SITE, EVERYTHING)
_SECONDS = 30
_SWITCHES = frozenset(
    {
        *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8"),
        *("PYTHONFAULTHANDLER", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONNOUSERSITE"),
    }
)
"""Variables that say how Python works and not where it finds anything: it starts without them."""

Run = Callable[[str], str]
"""Runs a script of bash in the environment that a job will inherit; its standard output."""


def kept(program: Path, config: SubmitConfig, run: Run) -> str:
    """What is kept: words of `EVERYTHING`. Raises `ConfigError` when the program does not start even so.

    Lines of the cluster's own setup may be what the program needs: then that is for the job to find out.
    """
    said = run(_script(program, _meant_for_us(config))).split("kept:")
    if len(said) == 2 and (words := said[1].strip()) in _ATTEMPTS:
        return words
    if getattr(config.machine, "setup", ""):
        return EVERYTHING
    raise ConfigError(
        f"driver.gym: {program} does not start without the PYTHON… variables of this shell, which it has not "
        "in a job; install it where it needs none, or set them in driver.env"
    )


def is_plain(environ: Mapping[str, str]) -> bool:
    """Whether a shell has nothing that a program could need in order to start."""
    for name in environ.keys() - _SWITCHES:
        if name == "LD_LIBRARY_PATH" or name.startswith("PYTHON"):
            return False
    return not os.path.isdir(site.getusersitepackages())


def run_here(script: str) -> str:
    """Run a script on this machine."""
    try:
        done = subprocess.run(
            ["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout


def _meant_for_us(config: SubmitConfig) -> dict[str, Reference]:
    found = {}
    for name, text in config.driver.env.items():
        if name.startswith("PYTHON") or name == "LD_LIBRARY_PATH":
            found[name] = parse_reference(text, where=f"driver.env.{name}")
    return found


def _script(program: Path, meant: Mapping[str, Reference]) -> str:
    """Prints ``kept:`` and the words with which the program starts; nothing when it never does."""
    return remote_script(
        __package__,
        "try_program",
        program=str(program),
        limit=_SECONDS,
        libraries=LIBRARIES,
        user_site=USER_SITE,
        attempts=_ATTEMPTS,
        meant=list(meant),
        values=[reference.text for reference in meant.values()],
        kinds=["literal" if each.kind == "lit" else "variable" for each in meant.values()],
    )
