"""What `gym` does with a command line before any command has begun."""

import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.cli.main import _status

PROGRAM = [sys.executable, "-c", "from nemo_gym.cli.main import main; main()"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("evel", "No such command 'evel' (did you mean 'eval'?). See 'gym --help'."),
        ("eval runn", "No such command 'runn' (did you mean 'run'?). See 'gym eval --help'."),
        (
            "list benchmark",
            "'benchmark' (did you mean 'benchmarks'?). See 'gym list --help'.",
        ),
        ("status", "No such command 'status' (did you mean 'gym job status'?). See 'gym --help'."),
        ("compare a b", "No such command 'compare' (did you mean 'gym eval compare'?). See 'gym --help'."),
        ("eval results", "'results' (did you mean 'gym job results'?). See 'gym eval --help'."),
        ("port", "No such command 'port'. See 'gym --help'."),
        ("eval gsm8k", "'gsm8k' (did you mean 'gym eval run --benchmark gsm8k'?). See 'gym eval --help'."),
        (
            "eval sums.py --model openai/m",
            "a benchmark with a command: argv [inspect, eval, sums.py]. See",
        ),
        ("list tasks", "No such command 'tasks' (did you mean 'benchmarks'?). See 'gym list --help'."),
        ("eval run --tasks a,b", "No such option '--tasks'; here it is --benchmark lm_eval/NAME; several"),
        ("eval run --num_fewshot 5", "; here it is benchmark.lm_eval.num_fewshot=N, of other benchmarks"),
        ("eval preview --num-fewshot 5", "; here it is benchmark.lm_eval.num_fewshot=N, of other benchmarks"),
        ("eval run --apply_chat_template", "; here it is benchmark.lm_eval.apply_chat_template=true; chat"),
        (
            "eval run --model_args pretrained=m",
            "; here it is --model NAME and --model-url URL; the token",
        ),
        ("eval run --base-url x", "No such option '--base-url'; here it is --model-url URL, with its /v1."),
        ("eval run --top-k 5", "'--top-k'; here it is responses_create_params.extra_body.top_k=VALUE. See"),
        (
            "eval run --limit 0.1",
            "'--limit': '0.1' is not a whole number; it is how many tasks are asked",
        ),
        ("eval run --limit x", "'--limit': 'x' is not a whole number. See 'gym eval run --help'."),
        (
            "eval run --benchmark a,b",
            "'--benchmark': 2 are named (a, b), and a run measures one; `gym",
        ),
        (
            "eval run --benchmark a --benchmark b",
            "'--benchmark': 2 are named (a, b), and a run measures",
        ),
        ("stepp", "No such command 'stepp'. See 'gym --help'."),
        (
            "eval run --benchmarks x",
            "No such option '--benchmarks' (did you mean '--benchmark'?). See 'gym eval",
        ),
        ("job status --lable a=b", "No such option '--lable' (did you mean '--label'?). See 'gym job status"),
        ("help", "No such command 'help' (did you mean 'gym --help'?). See 'gym --help'."),
        ("version", "No such command 'version' (did you mean 'gym --version'?). See 'gym --help'."),
        ("job help", "No such command 'help' (did you mean 'gym job --help'?). See 'gym job --help'."),
        ("job kill latest", "No such command 'kill' (did you mean 'cancel'?). See 'gym job --help'."),
        ("job delete latest", "No such command 'delete' (did you mean one of: 'rm', 'prune'?). See"),
        ("stop latest", "No such command 'stop' (did you mean 'gym job cancel'?). See 'gym --help'."),
        ("job ls", "No such command 'ls' (did you mean 'list'?). See 'gym job --help'."),
        ("eval resume", "(did you mean one of: 'gym eval run --resume', 'gym job resubmit'?). See"),
        ("eval validate", "No such command 'validate' (did you mean 'check'?). See 'gym eval --help'."),
        ("job export latest --to lm_eval", "'mlflow', 'model-card' (did you mean 'lm-eval'?). See 'gym job"),
        ("job export latest --to inspect-ai", "'model-card' (did you mean 'inspect'?). See 'gym job export"),
        ("job export latest -t csv", "No such option '-t' (did you mean '--to'?). See 'gym job export"),
        ("job fetch latest into", "Got unexpected extra argument (into). See 'gym job fetch --help'."),
        ("eval run --temperature hot", "'--temperature': 'hot' is not a number. See 'gym eval run --help'."),
        ("view pyproject.toml", "pyproject.toml is a file that holds no rollouts; name a run directory."),
        ("eval reverify latest", "; the results that are graded again are given with --rollouts FILE. See"),
        (
            "eval submit -c x --walltime 4h",
            "gym: Invalid value for '--walltime': '4h' is not a duration; write MM, MM:SS, HH:MM:SS, D-HH",
        ),
        ("job resubmit x y --max-walltime 0 --reason z", "'--max-walltime': a duration of zero; it must"),
        (
            "eval submit submit.yaml -c x",
            "; a configuration file is given with --config submit.yaml. See 'gym",
        ),
        ("eval run my.csv", "; a file of rows is given with --input my.csv. See 'gym eval run"),
        ("eval run my.jsonl", "; a file of rows is given with --input my.jsonl. See 'gym eval run"),
        ("eval run arithmetic", "; a benchmark is given with --benchmark arithmetic. See 'gym eval run"),
        ("eval reverify my.jsonl", "; a file of results is given with --rollouts my.jsonl. See 'gym"),
        (
            "eval submit -c x arithmetic",
            "is not an override, which looks like key=value, +key=value or ++key",
        ),
    ],
)
def test_a_mistyped_word_is_refused_with_the_nearest_one(words: str, hint: str, capsys) -> None:
    assert _status(words.split()) == 2
    assert hint in capsys.readouterr().err


INTERRUPT = """
import os, signal, sys
class Interrupted:
    def find_spec(self, name, *_more):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from {}.cli.main import main
main()
"""


@pytest.mark.parametrize(("name", "package"), [("gym", "nemo_gym"), ("nemo", "nemo_helix_plugin")])
def test_ctrl_c_while_a_program_is_still_imported_is_answered_with_a_word(name: str, package: str) -> None:
    program = [sys.executable, "-c", INTERRUPT.format(package)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{name}: interrupted.\n")


def test_a_list_that_is_empty_says_so(capsys) -> None:
    assert _status(["list", "benchmarks", "lm-eval/"]) == 0
    said = "gym: no benchmark begins with 'lm-eval/' (did you mean 'lm_eval/'?)\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    "command", ["list benchmarks", "eval prepare", "eval run", "eval reverify --rollouts /dev/null"]
)
def test_a_search_folder_that_is_not_there_is_refused(command: str, capsys) -> None:
    assert _status([*command.split(), "--search-dir", "nowhere"]) == 2
    assert "'--search-dir': Directory 'nowhere' does not exist" in capsys.readouterr().err


def test_the_help_of_a_group_is_shown_whole(capsys) -> None:
    assert _status(["--help"]) == 0
    assert "Prepare, run, submit, grade again and compare evaluations." in capsys.readouterr().out


def test_a_label_that_no_submission_has_is_told_as_that(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _status(["job", "list", "--label", "a=b"]) == 0
    assert capsys.readouterr().err == "gym: no submission has this label; `gym job list` shows all of them.\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.slow
def test_a_stream_that_is_closed_keeps_no_command_from_its_work(closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$@" {closed}', "bash", *PROGRAM, "list", "benchmarks"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("arithmetic" in done.stdout) is (closed not in (">&-", "<&- >&- 2>&-"))
