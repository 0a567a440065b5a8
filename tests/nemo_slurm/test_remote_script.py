"""Scripts for other machines are files that shellcheck reads, and their values reach bash as they are."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import functions, nodes, parsed

import nemo_slurm
from nemo_slurm.errors import UnusableValueError
from nemo_slurm.hosts import LocalHost
from nemo_slurm.remote_script import missing_paths, quoted_header, remote_script

SOURCES = Path(nemo_slurm.__file__).parents[1]
SCRIPTS = sorted(SOURCES.glob("**/remote/*.sh"))
ODD = ["", " ", "a b", "it's", '"$HOME"', "$(touch /tmp/x)", "`id`", "*", "-n", "a\nb", "\\", "ü€", "!x"]
FRAMES = {"nemo_slurm/channel.py", "nemo_gym/orchestration/plan/job_script.py"}
"""What stands around a script: the marks that frame its output, and the lines of a job script that differ."""
_SHELL = re.compile(
    r"^\s*(for \w+ in [^:\n]*$|if \[|while [^:\n]*$|until \[|case \S+ in|fi\b|done\b|esac\b|cd -- |exec [^(]|"
    r"trap |printf '|exit \d|export \w+=|\[ -\w |mkdir -|mv -|rm -|cat [>-]|find [.\"$]|[a-z_]+\(\) [{(])",
    re.MULTILINE,
)


def test_values_reach_bash_as_they_are() -> None:
    script = quoted_header(word=ODD[4], words=ODD, number=7, none=[])
    script += 'printf \'%s\\0\' "$word" "${#words[@]}" "${words[@]}" "$number" "${#none[@]}"\n'
    done = LocalHost().run(script)
    assert done.stdout.split("\0")[:-1] == [ODD[4], str(len(ODD)), *ODD, "7", "0"]


@pytest.mark.parametrize("values", [{"x": "a\0"}, {"x": ["a", "b\0"]}, {"x y": "a"}, {"PATH": "/"}])
def test_what_cannot_be_a_value_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(UnusableValueError):
        remote_script("nemo_slurm", "missing_paths", **values)


def test_a_script_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        remote_script("nemo_slurm", "no_such_script")


def test_missing_paths_are_told_by_where_they_stand(tmp_path: Path) -> None:
    there, odd = tmp_path / "there", tmp_path / "it's\nodd"
    there.touch()
    odd.mkdir()
    paths = [str(path) for path in (tmp_path / "x", there, odd, tmp_path / "$(echo there)")]
    assert missing_paths(LocalHost(), paths) == [0, 3]
    assert missing_paths(LocalHost(), paths, test="-f") == [0, 2, 3]
    assert missing_paths(LocalHost(), []) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_says_what_it_does_and_which_values_it_takes(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False).returncode == 0
    head = re.match(r"(?:#!/bin/sh|# shellcheck shell=bash)\n((?:#.*\n)+)", text)
    assert head is not None
    values = head[1]
    needed = re.findall(r'^(?:: |)(?:declare -a (.*)|.*"\$\{(\w+)[:=])', text, re.MULTILINE)
    for names in needed:
        for name in " ".join(names).split():
            assert re.search(rf"\b{name}\b", values), (script, name)


def shell_in(tree: ast.AST) -> Iterator[int]:
    """Lines of strings that hold several commands of a shell on lines of their own."""
    documented = {
        id(node.body[0].value)
        for node in (*nodes(tree, ast.Module), *nodes(tree, ast.ClassDef), *functions(tree))
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in (*nodes(tree, ast.JoinedStr), *nodes(tree, ast.Constant)):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            text = node.value
        else:
            continue
        if "\n" in text.strip() and len(_SHELL.findall(text)) > 1:
            yield node.lineno


def test_no_module_holds_a_shell_program_of_several_lines() -> None:
    found = {
        f"{path.relative_to(SOURCES)}:{line}"
        for path in SOURCES.glob("nemo_*/**/*.py")
        if str(path.relative_to(SOURCES)) not in FRAMES
        for line in shell_in(parsed(path))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('x = f"cd -- {there} || exit\\nexit 0"', True),
        ('x = "for a in b; do\\n  exec c\\ndone"', True),
        ('x = "for a in b:\\n    exec(c)\\n"', False),
        ('x = "if it\\nis not"', False),
        ('x = "exit 0"', False),
    ],
)
def test_a_shell_program_in_a_string_is_found(text: str, *, found: bool) -> None:
    assert bool(list(shell_in(ast.parse(text)))) == found
