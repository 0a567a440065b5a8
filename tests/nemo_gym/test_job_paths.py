"""Files of runs have their names from `nemo_gym.job_paths`; the shell of jobs writes the same ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import SOURCES, modules, nodes, texts

from nemo_gym import job_paths
from nemo_gym.job_paths import JobPaths, LinkPaths, ResubmissionPaths, RunPaths

SHELL = sorted((SOURCES / "nemo_gym" / "shell").glob("*.sh"))
REMOTE = sorted((SOURCES / "nemo_gym").rglob("remote/*.sh"))


def names_in(place: object) -> list[str]:
    """The names that one class of paths gives."""
    found = [getattr(place, name) for name, value in vars(type(place)).items() if isinstance(value, property)]
    return [path.name for path in found if isinstance(path, Path)]


_JOB = JobPaths(Path())
PLACES = (LinkPaths(Path()), ResubmissionPaths(Path()), RunPaths(Path()), _JOB, _JOB.rollouts)
NAMES = {name for place in PLACES for name in names_in(place)} | {_JOB.rollouts.output.name}
COMMON = {path.name for path in (_JOB.sealed, _JOB.config, _JOB.inputs, _JOB.logs, _JOB.links, _JOB.otel)}
"""Folders whose names are words and keys elsewhere."""
FOLDERS = COMMON | {_JOB.artifacts.name, _JOB.resubmissions.name}
TELLING = {name for name in NAMES if "." in name} | (FOLDERS - COMMON)
"""Names that mean nothing else wherever they stand."""


def written_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name where a module writes down what a file of a run is called.

    In a text without blanks: a telling name wherever it stands, a common word in a path, joined to one, or
    among other names of folders.
    """
    for join in nodes(tree, ast.BinOp):
        name = join.right.value if isinstance(join.right, ast.Constant) else None
        if isinstance(join.op, ast.Div) and name in NAMES - TELLING:
            yield join.lineno, str(name)
    groups = [each.elts for each in nodes(tree, ast.Tuple)]
    groups += [each.elts for each in nodes(tree, ast.List)]
    groups += [each.elts for each in nodes(tree, ast.Set)]
    for group in groups:
        values = [str(each.value) for each in group if isinstance(each, ast.Constant)]
        if len(FOLDERS.intersection(values)) > 1:
            yield from ((group[0].lineno, value) for value in values if value in COMMON)
    for line, text in texts(tree, docstrings=False):
        known = NAMES if "/" in text else TELLING
        if not re.search(r"\s", text):
            parts = re.split(r"[/*()|\"']", text.rstrip(":"))
            yield from ((line, part) for part in parts if part in known)


def test_no_module_but_one_writes_names_of_files_down() -> None:
    found = [
        f"{module}:{line}: {name}"
        for module, tree in modules().items()
        if module.startswith("nemo_gym.") and module != "nemo_gym.job_paths"
        for line, name in written_names(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x = folder / 'started'", "started"),
        ("x = '*/.gym_job_chain'", ".gym_job_chain"),
        ("x = f'{name}/links/'", "links"),
        ("x = f'{where}/collected'", "collected"),
        ("x = ('run.yaml',)", "run.yaml"),
        ("x = name == 'gym-job.json'", "gym-job.json"),
        ("x = 'resubmits'", "resubmits"),
    ],
)
def test_a_name_that_is_written_down_is_found(text: str, name: str) -> None:
    assert [found for _, found in written_names(ast.parse(text))] == [name]


def test_names_of_folders_together_are_found() -> None:
    assert len(list(written_names(ast.parse("x = ('logs', 'config')")))) == 2


@pytest.mark.parametrize("text", ["x = 'end'", "x = {'logs': 1}", "x = 'logs are in run.yaml'", "'run.yaml'"])
def test_common_words_and_sentences_are_not_names(text: str) -> None:
    assert list(written_names(ast.parse(text))) == []


def code(path: Path) -> str:
    """A shell file without its comments."""
    return re.sub(r"(?m)(?:^|(?<=\s))#.*$", "", path.read_text(encoding="utf-8"))


_FOLDER_OF_RUN = r"\{?(?:gym_link|gym_before|gym_found|gym_earlier|GYM_JOB_DIR)(?::-\$\w+)?\}?"
FOLDER = rf"\$(?:{_FOLDER_OF_RUN}|folder|link|run|unseen|1)"
_IN_FOLDER = re.compile(rf"\"?{FOLDER}\"?/([A-Za-z.][\w.]*)")
_IN_LINKS = re.compile(r"(?:links|resubmits)\"?/[^/\s]+/([a-z.][\w.]*)")
_HIDDEN = re.compile(r"(?<!\w)\.gym_\w+(?:\.jsonl)?")


def shell_names(text: str) -> set[str]:
    """What the shell of a job calls files of a run: behind a folder of it, and hidden ones."""
    found = _IN_FOLDER.findall(text) + _IN_LINKS.findall(text) + _HIDDEN.findall(text)
    return {name.removesuffix(".") for name in found}


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_the_shell_of_jobs_writes_and_reads_files_of_these_names(path: Path) -> None:
    known = NAMES | job_paths.OF_THE_SHELL.keys()
    assert shell_names(code(path)) - known == set()


def test_all_that_the_shell_alone_writes_is_written_there() -> None:
    written = {name for path in SHELL for name in shell_names(code(path))}
    assert job_paths.OF_THE_SHELL.keys() - written == set()
    assert len(written.intersection(names_in(LinkPaths(Path())))) > 20


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('gym_put "$gym_link/new_one" 1', "new_one"),
        ('gym_one "${gym_before:-$gym_link}/new_one"', "new_one"),
        ('for file in "$gym_links"/*/new_one; do', "new_one"),
        ('read -r x <links/"${1%%;*}".*/new_one', "new_one"),
        ("[[ -e $GYM_JOB_DIR/.gym_new ]]", ".gym_new"),
        ("sort -u .gym_new", ".gym_new"),
    ],
)
def test_a_new_name_in_the_shell_is_found(text: str, name: str) -> None:
    assert shell_names(text) == {name}


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.name)
def test_a_script_for_another_machine_is_given_names(path: Path) -> None:
    text = re.sub(r"\$\{?\w+|^declare .*$", "", code(path), flags=re.M)
    assert set(re.findall(r"[\w.-]+", text)) & (TELLING | {"logs", "links"}) == set()


@pytest.mark.parametrize("place", PLACES)
def test_no_name_means_two_things_in_one_folder(place: object) -> None:
    names = names_in(place)
    assert len(names) == len(set(names)) > 0
