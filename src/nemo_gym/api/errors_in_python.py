"""What is said to a person who calls functions: their arguments in place of the options of the commands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from nemo_gym.errors import GymError
from nemo_gym.rollouts.data.run_request import OPTIONS
from nemo_runs.errors import RunsError

_SAME = (*OPTIONS, "output", "verifier", "config", "only", "walltime")
_ARGUMENTS = {name.replace("_", "-"): name for name in _SAME} | {
    "again": "again=True",
    "benchmark": "questions",
    "input": "questions",
    "label": "labels",
    "resume": "resume=True",
}
"""Options of our commands, and the arguments that say the same."""
_FOUND = re.compile(rf"`gym [^`]*`|(?<![\w/.-])--({'|'.join(_ARGUMENTS)})(?![\w-])")
"""A whole command, in which options stay what they are, or an option by itself."""


@contextlib.contextmanager
def in_words_of_python() -> Iterator[None]:
    """Have errors name the arguments of `run` in place of the options of the command."""
    try:
        yield
    except GymError as error:
        error.args = (in_python(str(error)), *error.args[1:])
        raise
    except RunsError as error:
        raise GymError(in_python(str(error))) from error


def in_python(sentence: str) -> str:
    """The sentence with arguments in place of options, and functions in place of commands.

    Options of other commands and of other programs, and names of files, stay as they are.
    """
    named = sentence.replace("`gym eval reverify`", "nemo_gym.reverify")
    return _FOUND.sub(lambda found: _ARGUMENTS[found[1]] if found[1] else found[0], named)
