"""What is said to a person who calls functions: their arguments in place of the options of the commands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from nemo_gym.errors import GymError
from nemo_runs.errors import RunsError

_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])")
_IN_PYTHON = {"resume": "resume=True", "again": "again=True", "input": "questions"}


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
    """The sentence with arguments in place of options, and functions in place of commands."""
    named = sentence.replace("`gym eval reverify`", "nemo_gym.reverify")
    return _OPTION.sub(lambda found: _IN_PYTHON.get(found[1], found[1].replace("-", "_")), named)
