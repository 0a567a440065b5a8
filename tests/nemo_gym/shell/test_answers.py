"""Functions of the shell answer in variables `gym_…` that they name, never in their caller's locals.

Bash has dynamic scope: a function can read and set what its caller declared ``local``, and nothing in the
text of either shows it. What stands in ``$(…)`` or before a pipe is a program's output, no function's answer.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import nemo_gym
import nemo_slurm

SOURCES = Path(nemo_gym.__file__).parents[1]
FILES = sorted((SOURCES / "nemo_gym" / "shell").glob("*.sh"))
CLEAN = Path(nemo_slurm.__file__).parent / "clean_environment.sh"
REMOTE = sorted(path for path in SOURCES.rglob("remote/*.sh") if path.name != "gym.sh")
"""Scripts for other machines; ``gym.sh`` is no part of one, but a program of its own, for any shell."""
PROGRAMS = {
    "gym_slurm": "one of Slurm's commands",
    "gym_accounting": "sacct",
    "gym_ask_queue": "squeue",
    "gym_slurm_aloud": "one of Slurm's commands, with what it complains of",
    "gym_own_environment": "changes the environment of the program behind it",
}
"""Functions whose output a program writes."""

NAME = r"[A-Za-z_]\w*"
_COMMANDS = re.compile(r"\n|;|&&|\|\|?|&|\{ |\(|! |\b(?:if|then|elif|else|while|until|do)\b")
_ASSIGNED = re.compile(rf"({NAME})(?:\[[^]]*\])?\+?=")
_ARITHMETIC = re.compile(r"\(\((.*?)\)\)", re.S)
_COUNTED = re.compile(rf"(?:\+\+|--)({NAME})|({NAME})(?:\+\+|--|\s*[-+*/]?=(?!=))")
_TAKES = {"read": "adinNptu", "mapfile": "dnOsuCc"}
"""Commands that set what they are given, and their options with a value."""
_USED = re.compile(rf"\$({NAME})|\$\{{[#!]?({NAME})")
_CAPTURED = re.compile(r"[$<]\(\s*(\w+)|(?:\n|;|&|^)\s*(gym_\w+)[^\n;]*[^|\n;]\| ")
_COMMENT = re.compile(r"((?:^#[^\n]*\n)+)(\w+)\(\) [{(]", re.M)


def unquoted(text: str) -> tuple[str, str]:
    """A text without what stands in quotes, and one without what stands in single quotes alone."""
    code, expanding, double = [], [], False
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if char == "'" and not double:
            dollar = at and text[at - 1] == "$"
            end = at + 1
            while text[end] != "'":
                end += 2 if dollar and text[end] == "\\" else 1
            at = end + 1
            code.append("''")
            expanding.append("''")
            continue
        if char == '"':
            double = not double
            code.append(char)
        elif not double:
            code.append(char)
        expanding.append(char)
        at += 1
    return "".join(code), "".join(expanding)


def named(pattern: re.Pattern[str], text: str) -> set[str]:
    return {name for found in pattern.finditer(text) for name in found.groups() if name}


def set_by(words: list[str]) -> Iterator[str]:
    """What one command sets, its first word and its arguments given."""
    while words and (found := _ASSIGNED.match(words[0])):
        yield found[1]
        words = words[1:]
    if not words:
        return
    first, *rest = words
    if first == "for":
        yield from rest[:1]
    elif first == "printf" and rest[:1] == ["-v"]:
        yield rest[1]
    elif first == "exec" and rest and (found := re.match(rf"\{{({NAME})\}}", rest[0])):
        yield found[1]
    elif first in _TAKES:
        takes_value = False
        for word in rest:
            if takes_value:
                takes_value = False
            elif word.startswith("-"):
                takes_value = word[-1] in _TAKES[first]
            elif re.fullmatch(NAME, word):
                yield word
            else:
                break


def assigned(code: str) -> set[str]:
    """What a text without quotes sets, declarations left out."""
    code = re.sub(r"=\([^()]*\)", "=", code)  # the words of an array are no commands
    counted = {name for part in _ARITHMETIC.findall(code) for name in named(_COUNTED, part)}
    return counted | {name for part in _COMMANDS.split(code) for name in set_by(part.split())}


def declared(code: str) -> set[str]:
    """What a text without quotes declares to be local."""
    found = set()
    for part in re.split(r"\n|;|&&|\|\|", code):
        words = re.sub(r"\$\(\(.*?\)\)|\$\{.*?\}", "", part).split()
        if words[:1] == ["local"]:
            found |= {each[0] for word in words[1:] if (each := re.match(NAME, word))}
    return found


@dataclass
class Function:
    """What one function declares, sets, reads and captures."""

    local: set[str] = field(default_factory=set)
    set_here: set[str] = field(default_factory=set)
    read_here: set[str] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, body: str) -> Function:
        """From a body as bash prints it: a command on each line, without comments."""
        code, expanding = unquoted(body)
        set_here = assigned(code)
        # what a process of its own sets is gone with it
        own = set_here if re.match(r"\s*\{\s*\((?!\()", code) else set()
        return cls(
            local=declared(code) | own,
            set_here=set_here,
            read_here=named(_USED, expanding),
            captured=named(_CAPTURED, expanding),
            words=set(re.findall(r"\b\w+\b", code)),
        )


def functions_of(*paths: Path) -> dict[str, Function]:
    """The functions of some files, as bash itself has understood them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return functions_in(text)


def functions_in(text: str) -> dict[str, Function]:
    """The functions that a text defines; nothing else of it is executed."""
    whole = re.findall(r"(?ms)^\w+\(\) [{(].*?^[})]$|^\w+\(\) \{[^\n]*\}$", text)
    printed = subprocess.run(
        ["bash", "-c", "\n".join([*whole, "declare -f"])], capture_output=True, text=True, check=True, env={}
    ).stdout
    parts = re.split(r"(?m)^(\w+) \(\) *$", printed)
    return {name: Function.of(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def of_jobs() -> dict[str, Function]:
    return functions_of(*FILES, CLEAN)


def is_shared(name: str) -> bool:
    """Whether a name is meant for all functions: ours, or one that the environment may hold."""
    return name.startswith(("gym_", "slurm_")) or name.upper() == name


def strangers(functions: dict[str, Function], known: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names that a function sets or reads and that are neither its own nor everybody's."""
    for name, found in functions.items():
        for each in sorted((found.set_here | found.read_here) - found.local - known):
            if not is_shared(each):
                yield f"{name}: {each}"


def hiding(functions: dict[str, Function]) -> Iterator[str]:
    """Locals that hide a variable that is everybody's from the functions below."""
    for name, found in functions.items():
        yield from (f"{name}: {each}" for each in sorted(found.local) if each.startswith("gym_"))


def captured(functions: dict[str, Function]) -> Iterator[str]:
    """Functions that answer by what they print."""
    for name, found in functions.items():
        yield from (f"{name}: {each}" for each in sorted(found.captured & functions.keys() - PROGRAMS.keys()))


def comments(text: str) -> dict[str, str]:
    """What stands above each function."""
    return {found[2]: re.sub(r"\s*\n# ?", " ", found[1]) for found in _COMMENT.finditer(text)}


def promised(comment: str) -> set[str]:
    """The variables that a comment says the function sets."""
    found: set[str] = set()
    for part in re.split(r"\b[Ss]ets\b", comment)[1:]:
        found |= set(re.findall(r"\bgym_\w+", re.split(r"[.;:](?:\s|$)", part)[0]))
    return found


def reached(functions: dict[str, Function], name: str) -> set[str]:
    """What a function and those that it calls set."""
    seen: set[str] = set()
    todo = {name}
    while todo:
        seen |= todo
        todo = {word for each in todo for word in functions[each].words if word in functions} - seen
    return {each for found in seen for each in functions[found].set_here}


def test_no_function_of_a_job_uses_its_callers_locals() -> None:
    assert list(strangers(of_jobs())) == []


def test_no_local_hides_a_variable_of_all_functions() -> None:
    assert list(hiding(of_jobs())) == []


def test_no_function_of_a_job_prints_its_answer() -> None:
    assert list(captured(of_jobs())) == []


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.name)
def test_no_function_of_a_remote_script_uses_its_callers_locals(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    functions = functions_in(text)
    inside = {name for found in functions.values() for name in found.local}
    known = assigned(text) | set(re.findall(rf"\$\{{({NAME}):?[?=]", text))
    known |= {name for line in re.findall(r"(?m)^declare -a (.+)$", text) for name in line.split()}
    assert list(strangers(functions, frozenset(known - inside))) == []
    assert list(captured(functions)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_comment_promises_is_set(path: Path) -> None:
    functions = of_jobs()
    for name, comment in comments(path.read_text(encoding="utf-8")).items():
        assert promised(comment) - reached(functions, name) == set(), name


def begun(text: str) -> set[str]:
    """The variables that a file itself begins with, or names in its head."""
    head = re.match(r"(?:#[^\n]*\n)+", text)
    first = r"(?m)^(?:declare -A |\{ read -r |: \"\$\{)?(gym_\w+)(?:=|:=| _ <)"
    return set(re.findall(first, text)) | set(re.findall(r"\bgym_\w+", head[0] if head else ""))


def test_every_variable_is_named_where_it_begins() -> None:
    """In the head of a file, where a file begins with it, or in the comment of a function that sets it."""
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    known = {name for text in texts for name in begun(text)}
    said = [(name, comment) for text in texts for name, comment in comments(text).items()]
    for name, comment in said:
        known |= set(re.findall(r"\bgym_\w+", comment)) & of_jobs()[name].set_here
    held = {name for found in of_jobs().values() for name in found.set_here if name.startswith("gym_")}
    assert sorted(held - known) == []


BAD = {
    "f() { local a; g; }\ng() { a=1; }": "g: a",
    'f() { local a=1; g; }\ng() { echo "$a"; }': "g: a",
    "f() { local -a a=(); g; }\ng() { a+=(1); }": "g: a",
    "f() {\n  local a\n  read -r a b\n}": "f: b",
    "f() {\n  for a in 1 2; do :; done\n}": "f: a",
    "f() {\n  printf -v a %s 1\n}": "f: a",
    "f() {\n  mapfile -t a\n}": "f: a",
    "f() {\n  ((++a))\n}": "f: a",
    'f() {\n  echo "${a[*]}"\n}': "f: a",
    "f() {\n  a[1]=2\n}": "f: a",
    "f() {\n  if true; then LC_ALL=C a=2; fi\n}": "f: a",
    "f() {\n  exec {a}<>x\n}": "f: a",
    "f() {\n  a=(x=1 y)\n}": "f: a",
}


@pytest.mark.parametrize(("text", "found"), BAD.items())
def test_a_use_of_anothers_local_is_found(text: str, found: str) -> None:
    assert list(strangers(functions_in(text))) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "f() {\n  local a='x=1' b\n  read -r a b\n  echo \"$a x=2 '$b'\"\n}",
        'f() {\n  gym_a=1 LC_ALL=C sort --key=2 "--of=$1"\n}',
        'f() {\n  local -n a="$1"\n  [[ $a == x=* ]]\n}',
        "f() {\n  sh -c 'a=1; echo \"$b\"'\n}",
        "f() {\n  local a=1 rest=$((a / 2))\n  while read -r a rest; do :; done\n}",
    ],
)
def test_a_use_of_its_own_is_not(text: str) -> None:
    assert list(strangers(functions_in(text))) == []


def test_an_answer_that_is_printed_is_found() -> None:
    assert list(captured(functions_in('f() { printf x; }\ng() { gym_a="$(f) y"; }'))) == ["g: f"]
    assert list(captured(functions_in("f() { printf x; }\ng() { read -r gym_a < <(f); }"))) == ["g: f"]


def test_a_promise_is_read_of_a_comment() -> None:
    assert promised("# f A: x. Sets gym_a and gym_b, or nothing. gym_c is read") == {"gym_a", "gym_b"}
