"""The documentation says what is true: links, commands, options, keys, statuses, files, and no addresses."""

import ast
import asyncio
import contextlib
import importlib.util
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Annotated, Union, get_args, get_origin

import click
import pytest
import yaml
from pydantic import BaseModel
from tests.source_tree import parsed

import nemo_gym
from nemo_gym import errors, job_paths
from nemo_gym.agents.registry import AGENTS
from nemo_gym.cli.program import gym
from nemo_gym.events import ChainEvent
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.orchestration.config.settings import GymSettings
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.plugins import load_class
from nemo_gym.rollouts.data import benchmark_list, dataset
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config
from nemo_gym.rollouts.scores.whole_answers import WholeAnswers
from nemo_gym.tools.toolbox import TOOLS
from nemo_gym.types import Episode, GradedRollout, Task, Verifier
from nemo_gym.verifiers.registry import VERIFIERS, load_verifier
from nemo_helix_plugin import errors as nemo_errors
from nemo_helix_plugin.cli.program import nemo
from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.storage import run_files
from nemo_slurm import states
from nemo_trainer.contract import allocation

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "bench" / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]


def identify(value):
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else None


def headings(page):
    """Anchors of a page, as web views of Markdown make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def code_blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (anchor and anchor not in headings(other)):
            dead.append(target)
    assert not dead


def test_every_page_can_be_reached_from_the_first_one():
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link).resolve() for link in links]
    assert sorted(set(PAGES) - seen) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_starts_a_server_on_a_port_on_which_its_reader_has_one(page):
    """A page is followed in one terminal, where what one block left in the background is still there."""
    taken: set[str] = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if started := re.search(r"^gym serve\b.*--port (\d+)\b.*&(?: +#.*)?$", line):
            assert started[1] not in taken, f"{page.name}: {line}"
            taken.add(started[1])
        elif re.match(r"kill %\d", line):
            taken.clear()


def test_the_first_page_is_short():
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(words) <= 700


# Commands


def visible(group, words):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from visible(command, (*words, name))


PROGRAMS = {"gym": gym, "nemo": nemo}
COMMANDS = {(name,): program for name, program in PROGRAMS.items()} | {
    words: command for name, program in PROGRAMS.items() for words, command in visible(program, (name,))
}


def test_the_command_reference_is_what_the_programs_say():
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.page() == writer.PAGE.read_text(encoding="utf-8"), "run `make reference` to write it anew"


def test_the_reference_of_python_is_what_the_code_says():
    writer = runpy.run_path(str(ROOT / "scripts" / "write_python_reference.py"))
    assert writer["page"]() == writer["PAGE"].read_text(encoding="utf-8"), "`make reference` writes it again"
    offered = {*writer["FUNCTIONS"], *writer["CLASSES"], "errors", "__version__"}
    assert offered == set(nemo_gym.__all__)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_is_documented_and_explained(words):
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    section = re.search(rf"^##+ `{' '.join(words)}`\n(.*?)(?=^##|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert section
    options = [p for p in COMMANDS[words].params if isinstance(p, click.Option) and not p.hidden]
    keys_of_run = {path.rpartition(".")[2] for path in documented("run-config.md")}
    assert [option.name for option in options if not option.help and option.name not in keys_of_run] == []
    assert [name for option in options for name in option.opts if f"`{name}`" not in section[1]] == []


def shown_commands():
    for page in PAGES:
        for block in code_blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith(tuple(f"{name} " for name in PROGRAMS)):
                    yield pytest.param(re.split(" [|>] ", line)[0], id=f"{identify(page)}: {line[:60]}")


def is_called_itself(group, words):
    """Whether a group is called with options, not a command: a backend, or a program for its version."""
    ends = {name for option in group.params if option.is_eager for name in option.opts}
    return words[0] in ends or (group.invoke_without_command and words[0].startswith("-"))


@pytest.mark.parametrize("line", list(shown_commands()))
def test_every_command_line_shown_can_be_typed(line, tmp_path, monkeypatch):
    words = shlex.split(line, comments=True)
    command, typed = PROGRAMS[words[0]], (words[0],)
    while isinstance(command, click.Group) and not is_called_itself(command, words[len(typed) :]):
        typed = (*typed, words[len(typed)])
        command = COMMANDS[typed]
    arguments = [word for word in words[len(typed) :] if word != "&"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-benchmarks").mkdir()
    for path in (Path(word) for word in arguments if re.fullmatch(r"[\w./-]+/[\w.-]+", word)):
        path.parent.mkdir(parents=True, exist_ok=True)  # some commands look whether their files are there
        path.touch()
    with contextlib.suppress(click.exceptions.Exit):
        command.make_context(words[len(typed) - 1], arguments)  # raises what a person would be told


# Configuration


def below(annotation):
    """Pairs of (path between, model) inside a type."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return below(args[0])
    if origin in (Union, types.UnionType):
        return [pair for arm in args for pair in below(arm)]
    if origin is dict:
        return [("<name>.", model) for _, model in below(args[1])]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [("", annotation)]
    return []


def keys(model, prefix=""):
    """Dotted path of every key -> its field."""
    found = {}
    for name, field in model.model_fields.items():
        found[prefix + name] = field
        for between, inner in below(field.annotation):
            found |= keys(inner, f"{prefix}{name}.{between}")
    return found


def documented(page):
    """Dotted path -> what the column Default says."""
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \|", (REFERENCE / page).read_text(encoding="utf-8"), re.MULTILINE
    )
    return {path: default.strip().strip("`") for path, default in rows}


@pytest.mark.parametrize(
    ("page", "model"),
    [("run-config.md", RunConfig), ("submit-config.md", SubmitConfig), ("gym-settings.md", GymSettings)],
)
def test_every_configuration_key_is_documented_with_its_default_and_no_other(page, model):
    wanted = {}
    for path, field in keys(model).items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = {}
        wanted[path] = "required" if field.is_required() else yaml_text(default)
    assert documented(page) == wanted


def yaml_text(value):
    """A default as the pages write it: as JSON, whole numbers without a point."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", VERIFIERS.built_in)
def test_every_option_of_a_verifier_is_documented_with_its_default_and_no_other(name):
    text = (REFERENCE / "verifiers.md").read_text(encoding="utf-8")
    table = runpy.run_path(str(ROOT / "scripts" / "write_verifier_reference.py"))["table"](name)
    section = re.search(rf"^## `{name}`\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert table in section[1], "`make reference` writes the tables again"
    shown = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", table, re.MULTILINE))
    options = load_class(VERIFIERS, {"type": name}, where="verifier").cls.Options
    assert shown.keys() == options.model_fields.keys()


@pytest.mark.parametrize(
    ("kind", "name"),
    [(AGENTS, "tools"), (AGENTS, "bfcl"), *((TOOLS, name) for name in TOOLS.built_in)],
    ids=str,
)
def test_every_option_of_an_agent_and_its_tools_is_documented_with_its_default_and_no_other(kind, name):
    text = (REFERENCE / "agents.md").read_text(encoding="utf-8")
    table = runpy.run_path(str(ROOT / "scripts" / "write_verifier_reference.py"))["table"](name, kind)
    section = re.search(rf"^## `{name}`\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert table in section[1], "`make reference` writes the tables again"


def test_every_yaml_example_of_a_submission_is_one(tmp_path):
    checked = 0
    for page in PAGES:
        for block in code_blocks(page, "yaml"):
            content = yaml.safe_load(block)
            if isinstance(content, dict) and {"compute", "driver", "job"} <= content.keys():
                SubmitConfig.model_validate(content)
                checked += 1
    assert checked


def test_the_benchmark_of_the_how_to_page_can_be_used(tmp_path):
    page = ROOT / "docs" / "how-to" / "add-a-benchmark.md"
    folder = tmp_path / "benchmarks" / "capitals"
    (folder / "data").mkdir(parents=True)
    (folder / "config.yaml").write_text(code_blocks(page, "yaml")[0])
    (folder / "data" / "capitals.jsonl").write_text(code_blocks(page, "json")[0])
    (entry,) = (e for e in benchmark_list.list_benchmarks([tmp_path], cwd=tmp_path) if e.name == "capitals")
    assert entry.prepared
    config = load_run_config([], "capitals", [], search_dirs=[tmp_path], cwd=tmp_path).config
    verifier = load_verifier(config.benchmark.verifier, {})
    rows = list(dataset.read_rows(config.benchmark.datasets["benchmark"].jsonl_fpath))
    assert [verifier.check_row(row) for row in rows] == [None] * 3


def test_the_verifier_of_the_how_to_page_keeps_the_protocol():
    page = ROOT / "docs" / "how-to" / "add-a-verifier.md"
    space = {}
    exec(code_blocks(page, "python")[0], space)
    verifier = space["LengthVerifier"](space["LengthOptions"](at_most=5), {})
    assert isinstance(verifier, Verifier)
    part = {"type": "message", "content": [{"type": "output_text", "text": "short"}]}
    verdict = asyncio.run(verifier.verify(Task(0, 0, {}), Episode({"output": [part]})))
    assert (verdict.reward, verdict.extracted_answer) == (1.0, "short")


def test_the_verifier_of_the_how_to_page_that_grades_refusals_sees_them():
    blocks = code_blocks(ROOT / "docs" / "how-to" / "add-a-verifier.md", "python")
    space = {}
    exec(blocks[0] + blocks[2], space)
    verifier = WholeAnswers(space["RefusalVerifier"](space["LengthOptions"](), {}))
    for part, reward in (
        ({"type": "refusal", "refusal": "No."}, 1.0),
        ({"type": "output_text", "text": "4"}, 0.0),
    ):
        episode = Episode({"output": [{"type": "message", "content": [part]}]})
        verdict = asyncio.run(verifier.verify(Task(0, 0, {}), episode))
        assert (verdict.reward, verdict.extracted_answer) == (reward, episode.refusal or episode.text)


def test_the_verifier_of_the_how_to_page_that_measures_has_its_metrics():
    blocks = code_blocks(ROOT / "docs" / "how-to" / "add-a-verifier.md", "python")
    space = {}
    exec(blocks[0] + blocks[3], space)
    verifier = space["WordyVerifier"](space["LengthOptions"](), {})
    task, part = Task(0, 0, {}), {"type": "output_text", "text": "long"}
    episode = Episode({"output": [{"type": "message", "content": [part]}]})
    verdict = asyncio.run(verifier.verify(task, episode))
    assert verdict.metrics == {"characters": 4.0}
    graded = [GradedRollout(task, episode, verdict)]
    assert verifier.grade_group(graded) == {"steady": 1.0}
    assert verifier.aggregate(graded)["longest"].value == 4.0


def test_the_agent_of_the_how_to_page_asks_twice():
    space = {}
    exec(code_blocks(ROOT / "docs" / "how-to" / "add-a-verifier.md", "python")[1], space)
    asked = []

    class Model:
        async def respond(self, params):
            asked.append(params["input"])
            part = {"type": "message", "content": [{"type": "output_text", "text": str(len(asked))}]}
            return {"output": [part]}

    agent = space["TwiceAgent"](space["TwiceOptions"]())
    task = Task(0, 0, {"responses_create_params": {"input": [{"role": "user", "content": "?"}]}})
    episode = asyncio.run(agent.run(task, Model()))
    assert (episode.text, episode.turns) == ("2", 2)
    assert [turn["content"] for turn in asked[1]] == ["?", "1", "Are you sure? Answer again."]


def test_every_key_of_a_profile_of_a_cluster_is_explained_with_its_default():
    text = (ROOT / "docs" / "how-to" / "train-on-slurm.md").read_text(encoding="utf-8")
    table = text.partition("## 4.")[2].partition("## 5.")[0]
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]*)\|", table, re.MULTILINE)
    told = {name: cell.strip().strip("`") for names, cell in rows for name in re.findall(r"`(\w+)`", names)}
    wanted = {}
    for name, field in SlurmSettings.model_fields.items():
        default = "required" if field.is_required() else field.get_default(call_default_factory=True)
        shown = json.dumps(list(default) if isinstance(default, tuple) else default)
        wanted[name] = "" if default is None else default if isinstance(default, str) else shown
    assert told == wanted


# Exit statuses


def statuses(module):
    return {value for name, value in vars(module).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize(("program", "module"), [("gym", errors), ("nemo", nemo_errors)])
def test_the_exit_statuses_documented_are_those_of_the_code(program, module):
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `{program}`\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert {int(status) for status in re.findall(r"^\| (\d+) \|", section[1], re.MULTILINE)} == statuses(
        module
    )


# Records and files


def test_every_field_of_a_job_record_is_documented():
    text = (REFERENCE / "record.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    fields = [*SubmissionRecord.__dataclass_fields__, *BenchmarkEntry.__dataclass_fields__]
    assert sorted(rows) == sorted(fields)


def named_files():
    run = job_paths.RunPaths(Path("run"))
    job = run.job("bench")
    objects = [run, job, job.rollouts, job.link("local-1")]
    for thing in objects:
        for name, member in vars(type(thing)).items():
            if isinstance(member, property):
                value = getattr(thing, name)
                if isinstance(value, Path):
                    yield value.name
    yield job.output("local-1").name.replace("local-1", "<job id>")
    yield job.log("driver", "local-1").name.replace("local-1", "<job id>")


def test_every_file_that_is_left_behind_is_documented():
    text = (REFERENCE / "files.md").read_text(encoding="utf-8")
    assert [name for name in named_files() if f"{name}" not in text] == []


def test_every_file_of_a_job_that_the_shell_writes_is_documented():
    shell = "".join(path.read_text("utf-8") for path in sorted(ROOT.glob("src/nemo_gym/shell/*.sh")))
    written = set(re.findall(r'gym_put "\$gym_link/([\w.]+)"', shell))
    assert {"started", "end", "ready"} <= written
    text = (REFERENCE / "files.md").read_text(encoding="utf-8").partition("links/<job id>")[2]
    named = {
        name
        for line in re.findall(r"^      (\w[\w.]*(?:, [\w.]+)*) ", text, re.MULTILINE)
        for name in line.split(", ")
    }
    assert sorted(written - named) == []


def test_every_file_of_a_start_on_a_cluster_is_documented():
    text = (REFERENCE / "files.md").read_text(encoding="utf-8").partition("### On a cluster")[2]
    names = [value for name, value in vars(folders).items() if name.isupper()]
    names += [submissions.NAME, allocation.FILE, run_files.SHIM_LOG, run_files.STOP, run_files.EXIT]
    assert len(names) > 10
    assert [name for name in names if name not in text] == []


def test_every_event_is_documented_and_no_other():
    text = (
        (REFERENCE / "files.md").read_text(encoding="utf-8").partition("## Events")[2].partition("\n## ")[0]
    )
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [event.value for event in ChainEvent]


def environment_variables():
    """Names of our variables in code and shell, comments and docstrings included."""
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.sh")]
    return {
        name for path in sources for name in re.findall(r"\bNEMO_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))
    }


def test_every_variable_that_the_client_reads_is_documented():
    sources = (ROOT / "src" / "nemo_helix_plugin").glob("**/*.py")
    read = {name for path in sources for name in re.findall(r'"(NHX_[A-Z_]+)"', path.read_text("utf-8"))}
    text = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    assert sorted(read - set(re.findall(r"^\| `(NHX_[A-Z_]+)` \|", text, re.MULTILINE))) == []


def test_every_environment_variable_is_documented_and_no_other():
    text = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(NEMO_[A-Z_]+)` \|", text, re.MULTILINE)) == environment_variables()


def test_every_state_of_the_scheduler_is_explained_as_the_table_of_states_has_it():
    text = (ROOT / "docs" / "explanation" / "chains.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (`[^|]+`) \|", text, re.MULTILINE)
    explained = {state: meaning for meaning, names in rows for state in re.findall(r"`(\w+)`", names)}
    assert explained == {name: state.meaning.value for name, state in states.table().items()}


# What must be nowhere

SPLIT = [  # split, so that this file does not hold what it looks for
    ("/wo", r"rk/(main|shared)"),
    ("/ro", r"ot/"),
    ("/opt", r"/(wheels|pypi)"),
    ("py", r"pi\.org"),
    ("python", r"hosted\.org"),
    ("deb\\.", r"debian\.org"),
    ("registry\\.", r"npmjs"),
    ("--index", "-url "),
    ("--find", "-links "),
]


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_file_names_a_folder_of_one_machine_or_the_host_of_a_registry():
    forbidden = re.compile("|".join(a + b for a, b in SPLIT).encode())
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if path.is_file()
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1)
        if forbidden.search(line)
    ]
    assert found == []


def test_every_pinned_package_has_a_hash():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        pins = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        assert pins
        assert [pin for pin in pins if not re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:", pin)] == []


def test_every_module_of_the_package_says_what_it_is():
    silent = [
        path.relative_to(ROOT) for path in ROOT.glob("src/**/*.py") if not ast.get_docstring(parsed(path))
    ]
    assert silent == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", ["write_reference", "write_settings_reference", "write_customization_reference"]
)
def test_other_packages_of_the_environment_are_no_part_of_the_reference(tmp_path, script):
    site = tmp_path / "site-packages"
    metadata = site / "broken_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    groups = ("nemo.commands", "nemo_helix.backends", "nemo_helix.executors", "nemo_gym.verifiers")
    (metadata / "entry_points.txt").write_text("".join(f"[{group}]\nbroken = gone:x\n" for group in groups))
    made = re.search(r"^reference: REFERENCE := (\w+)=1 ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made is not None
    env = {**os.environ, "PYTHONPATH": str(site), made[1]: "1"}
    argv = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--check"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
