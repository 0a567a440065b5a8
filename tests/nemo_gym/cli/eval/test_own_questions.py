"""One's own questions from the command line: asked without a configuration, previewed, written as one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.mock_server import MockServer

from nemo_gym.cli.main import _status

pytestmark = pytest.mark.services

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text("prompt,gold,level\n1 + 1?,2,easy\n20 + 22?,42,hard\n3 + 4?,7,easy\n")


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command of `gym eval`: status, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        status = _status(["eval", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_rows_and_a_verifier_are_enough_and_what_is_guessed_is_said(typed: Typed) -> None:
    with MockServer() as server:
        status, out, err = typed(
            *("run", "--input", "q.csv", "--verifier", "match", "--model", "mock"),
            *("--model-url", server.base_url, "--output", "out/rollouts.jsonl", "--json"),
        )
    assert status == 0
    assert (json.loads(out)["score"]["mean"], json.loads(out)["expected"]) == (1.0, 3)
    assert (
        "guessed from 3 rows of q.csv: the question is in the field prompt; the right answers are numbers"
        in err
    )
    manifest = json.loads(Path("out/rollouts_manifest.json").read_text())
    assert manifest["identity"]["generation"]["benchmark"]["fields"] == {"expected_answer": "gold"}


def test_what_is_said_goes_before_what_is_guessed(typed: Typed) -> None:
    given = ("--input", "q.csv", "--verifier", "{type: match, mode: exact, answer_field: gold}")
    status, out, err = typed("preview", *given, "benchmark.prompt.user='{prompt} Think.'", "--json")
    assert status == 0
    assert "guessed" not in err
    asked = json.loads(out)["requests"]
    assert [request["body"]["messages"] for request in asked] == [
        [{"role": "user", "content": f"{question} Think."}] for question in ("1 + 1?", "20 + 22?", "3 + 4?")
    ]


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (("--input", "q.csv"), 2, "say how its answers are graded, say --verifier match (known: "),
        (("--input", "none.csv", "--verifier", "match"), 1, "none.csv: there is no such file."),
        (("--input", "q.csv", "--verifier", "{type"), 2, "--verifier: "),
        (("--input", "q.csv", "--verifier", "{mode: exact}"), 2, "--verifier: needs a type"),
        (("--input", "q.csv", "--verifier", "matsch"), 1, "did you mean 'match'"),
        ((), 1, "benchmark: none is given"),
        (
            ("--input", "q.csv", "--verifier", "match", "--temperature", "-3"),
            1,
            "gym: --temperature (must be 0 o",
        ),
        (
            ("--input", "q.csv", "--verifier", "match", "--model-url", "h:8"),
            1,
            "gym: --model-url (must look like",
        ),
        (
            ("--input", "q.csv", "--verifier", "match", "--max-output-tokens", "0"),
            *(1, "gym: --max-output-tokens (must be 1 or more)."),
        ),
        (
            ("--input", "q.csv", "--verifier", "match", "--judge", "m"),
            1,
            "judge_models.judge (needs either a bas",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    typed: Typed, words: tuple[str, ...], status: int, problem: str
) -> None:
    found, _, err = typed("preview", *words)
    assert found == status
    assert problem in err


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_a_preview_shows_what_the_server_gets(typed: Typed, api: str) -> None:
    with MockServer() as server:
        words = (
            *("--input", "q.csv", "--verifier", "match", "--model", "mock", "--model-url", server.base_url),
            *("--temperature", "0.5", "--max-output-tokens", "9", f"policy_api={api}"),
            *("responses_create_params.stop=[x]", "+responses_create_params.extra_body.min_p=0.1"),
        )
        _, out, _ = typed("preview", *words, "--json", "--tasks", "3")
        status, _, _ = typed("run", *words, "--output", "out/rollouts.jsonl", "--concurrency", "1")
        sent = server.bodies
    assert status == 0
    shown = json.loads(out)["requests"]
    assert [list(request["body"].items()) for request in shown] == [list(body.items()) for body in sent]
    assert {request["url"] for request in shown} == {
        server.base_url + {"chat": "/chat/completions"}.get(api, f"/{api}")
    }


def test_a_preview_needs_no_server_and_no_model_and_is_readable(typed: Typed) -> None:
    status, out, err = typed("preview", "--input", "q.csv", "--verifier", "match", "-n", "1")
    assert status == 0
    head, _, body = out.partition("\n")
    assert head == "task 0: POST /chat/completions"
    assert json.loads(body) == {"model": "MODEL", "messages": [{"role": "user", "content": "1 + 1?"}]}
    assert "MODEL stands for its name" in err


def test_init_writes_a_benchmark_that_runs_and_says_what_it_guessed(typed: Typed) -> None:
    status, out, err = typed("init", "sums", "--from", "q.csv")
    assert status == 0
    path = Path(out.strip())
    assert path == Path("benchmarks/sums/config.yaml").absolute()
    assert "gym: guessed for benchmark.verifier: the right answers are numbers" in err
    assert "gym eval preview --benchmark sums" in err
    text = path.read_text()
    assert "# guessed: the right answers are in the field gold" in text
    assert yaml.safe_load(text)["benchmark"]["datasets"]["benchmark"]["jsonl_fpath"] == "../../q.csv"
    with MockServer() as server:
        status, out, _ = typed(
            *("run", "--benchmark", "sums", "--model", "mock", "--model-url", server.base_url),
            *("--output", "out/rollouts.jsonl", "--json"),
        )
    assert (status, json.loads(out)["score"]["mean"]) == (0, 1.0)


def test_init_replaces_nothing_and_leaves_nothing_behind(typed: Typed) -> None:
    assert typed("init", "sums", "--from", "q.csv", "--verifier", "{type: match, mode: exact}")[0] == 0
    before = Path("benchmarks/sums/config.yaml").read_text()
    assert "mode: exact" in before
    status, _, err = typed("init", "sums", "--from", "q.csv")
    assert status == 1
    assert "there is such a file already" in err
    assert Path("benchmarks/sums/config.yaml").read_text() == before
    Path("bad.csv").write_text("question,answer\na,1 or 2\n")
    status, _, err = typed("init", "bad", "--from", "bad.csv", "--verifier", "{type: match, mode: numeric}")
    assert status == 1
    assert "bad.csv:2: " in err
    assert not Path("benchmarks/bad").exists()
    assert typed("init", "a/b", "--from", "q.csv")[0] == 2


def test_a_judge_need_not_be_named_to_look_or_to_write(typed: Typed) -> None:
    Path("talks.jsonl").write_text('{"turns": ["a", "b"]}\n')
    status, out, err = typed("preview", "--input", "talks.jsonl", "--verifier", "judge")
    assert (status, '"content": "a"' in out) == (0, True), err
    status, out, err = typed("init", "talks", "--from", "talks.jsonl", "--verifier", "judge")
    assert status == 0, err
    assert (
        "{conversation}" in yaml.safe_load(Path(out.strip()).read_text())["benchmark"]["verifier"]["prompt"]
    )
    asked = ("--model", "m", "--model-url", "http://127.0.0.1:9/v1", "--output", "g/r.jsonl")
    status, _, err = typed("run", "--input", "talks.jsonl", "--verifier", "judge", *asked)
    assert status == 1
    assert "there is no judge model 'judge'" in err


def test_a_python_file_is_a_verifier(typed: Typed) -> None:
    Path("grade.py").write_text("def grade(answer, row):\n    return float(row['gold'] in answer)\n")
    with MockServer() as server:
        status, out, err = typed(
            *("run", "--input", "q.csv", "--verifier", "grade.py", "--model", "mock", "--json"),
            *("--model-url", server.base_url, "--output", "out/rollouts.jsonl"),
        )
    assert status == 0, err
    assert json.loads(out)["score"]["mean"] == 1.0


def test_init_says_as_json_what_it_wrote(typed: Typed) -> None:
    status, out, _ = typed("init", "sums", "--from", "q.csv", "--folder", "mine", "--json")
    document = json.loads(out)
    assert status == 0
    assert document["path"] == str(Path("mine/sums/config.yaml").absolute())
    assert document["benchmark"]["verifier"] == {"type": "match", "mode": "numeric"}
    assert set(document["guessed"]) == {"prompt", "verifier", "fields"}
