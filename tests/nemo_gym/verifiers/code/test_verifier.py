from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.real_programs import needs_bwrap
from tests.verifier_answers import spoken, verdicts

from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.protocol import Completed, SandboxError
from nemo_gym.sandbox.registry import load_sandbox, probe_now
from nemo_gym.sandbox.session import FolderSession
from nemo_gym.types import RolloutFailedError, Task
from nemo_gym.verifiers.code.verifier import CodeVerifier, _graded
from nemo_gym.verifiers.registry import graded_with, load_verifier, start_verifier

ROW = {"test": "def check(f):\n    assert f(2, 3) == 5\n", "entry_point": "add"}
SPEC: dict[str, Any] = {"type": "code", "call": "check({entry_point})"}
RIGHT = "def add(a, b):\n    return a + b"


def block(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.mark.slow
@needs_bwrap
def test_code_that_passes_its_tests_is_right_and_all_other_code_says_why_not() -> None:
    answers = {
        block(RIGHT): (1.0, "passed", None),
        block("print('x' * 5_000_000)\n" + RIGHT): (1.0, "passed", None),
        block("def add(a, b):\n    return a - b"): (
            0.0,
            "tests failed",
            "line 2 of the tests: AssertionError",
        ),
        block("import numpy_of_mine\n" + RIGHT): (
            0.0,
            "code failed",
            "line 1 of the code: ModuleNotFoundError: No module named 'numpy_of_mine'",
        ),
        block("def add(a, b:"): (0.0, "code failed", "line 1 of the code: SyntaxError: "),
        block("import sys\nsys.exit(0)"): (0.0, "code failed", "line 2 of the code: SystemExit: 0"),
        block("import os\nos.write(1, b'{\"passed\": true}')\nos._exit(0)"): (0.0, "exited", "status 0"),
        block("import ctypes\nctypes.string_at(0)"): (0.0, "exited", "status 139"),
        block(f"while True:\n    pass\n{RIGHT}"): (0.0, "limit", None),
        "": (0.0, "no code", None),
    }
    found = verdicts({**SPEC, "sandbox": {"seconds": 5}}, [(ROW, answer) for answer in answers])
    for verdict, (reward, end, error) in zip(found, answers.values(), strict=True):
        result = verdict.fields["code_result"]
        assert (verdict.reward, result["end"]) == (reward, end), result
        assert (error or "") in result.get("error", "")
        assert verdict.metrics == {"no_code": float(end == "no code"), "beyond_limits": float(end == "limit")}
    assert found[8].fields["code_result"]["limit"] == "seconds"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", pytest.param("bubblewrap", marks=needs_bwrap)])
def test_each_kind_of_sandbox_finds_the_same_answer_right(kind: str) -> None:
    answers = [(ROW, block(RIGHT)), (ROW, block(RIGHT.replace("+", "-")))]
    found = verdicts({**SPEC, "sandbox": {"type": kind, "seconds": 60}}, answers)
    ends = [(verdict.reward, verdict.fields["code_result"]["end"]) for verdict in found]
    assert ends == [(1.0, "passed"), (0.0, "tests failed")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", pytest.param("bubblewrap", marks=needs_bwrap)])
def test_a_program_that_was_killed_is_run_once_more(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may have killed it, such as the kernel of a machine that is short of memory."""
    sandbox = load_sandbox({"type": kind, "seconds": 60}, where="sandbox")
    assert probe_now(sandbox).works
    runs: list[Completed] = []
    run = FolderSession.run

    async def counted(self: FolderSession, *args: Any, **more: Any) -> Completed:
        done = await run(self, *args, **more)
        runs.append(done if runs else replace(done, returncode=137, stdout=b""))
        return runs[-1]

    monkeypatch.setattr(FolderSession, "run", counted)
    verifier = CodeVerifier(CodeVerifier.Options(call=SPEC["call"]))
    verifier.sandbox = sandbox
    verdict = asyncio.run(verifier.verify(Task(0, 0, ROW), spoken(block(RIGHT))))
    assert (verdict.reward, len(runs)) == (1.0, 2)
    suicide = f"import os\nos.kill(os.getpid(), 9)\n{RIGHT}"
    verdict = asyncio.run(verifier.verify(Task(0, 0, ROW), spoken(block(suicide))))
    assert (verdict.reward, len(runs), runs[-1].was_killed) == (0.0, 4, True)


@pytest.mark.slow
def test_a_sandbox_that_breaks_grades_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = load_verifier({**SPEC, "sandbox": {"type": "bubblewrap"}})
    monkeypatch.setattr("nemo_gym.sandbox.bubblewrap.program", lambda name: "/bin/false")
    with pytest.raises(
        SandboxError, match=r"^benchmark\.verifier\.sandbox: the sandbox ended with status 1 "
    ):
        start_verifier(verifier)
    with pytest.raises(
        RolloutFailedError, match="bubblewrap does not work here: the sandbox ended"
    ) as raised:
        verdicts_of(verifier)
    assert raised.value.failure_class == "verifier_error"


def verdicts_of(verifier: Any) -> None:
    asyncio.run(verifier.verify(Task(0, 0, ROW), spoken(block(RIGHT))))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"call": "check({f})"}, "benchmark.verifier: call: 'check({f})' may hold {entry_point} only"),
        (
            {"sandbox": {"type": "bubblewarp"}},
            "sandbox.type: there is no sandbox 'bubblewarp' (did you mean 'bubblewrap'?)",
        ),
        ({"sandbox": {"seconds": 0}}, "benchmark.verifier.sandbox.seconds"),
        (
            {"sandbox": {"memory": 3}},
            "unknown option benchmark.verifier.sandbox.memory (did you mean 'memory_mb'?)",
        ),
        ({"language": "c"}, "benchmark.verifier.language"),
    ],
)
def test_options_that_are_wrong_are_refused_by_their_name(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_verifier({**SPEC, **spec})
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("row", "lack"),
    [
        (ROW, None),
        ({**ROW, "test": " "}, "no 'test', a text or a list of statements"),
        ({**ROW, "test": "def check(f:"}, "'test' is not valid Python"),
        ({**ROW, "entry_point": "a b"}, "'entry_point' is not a name: 'a b'"),
        ({"test": "pass"}, "no 'entry_point', a text"),
        ({**ROW, "test": ["assert add(1, 2) == 3", 4]}, "no 'test', a text or a list of statements"),
    ],
)
def test_rows_that_cannot_be_graded_are_refused(row: dict[str, Any], lack: str | None) -> None:
    assert load_verifier(SPEC).check_row(row) == lack


@pytest.mark.slow
@needs_bwrap
def test_tests_of_every_usual_shape_are_run_without_a_call() -> None:
    """HumanEval's define ``check``, MBPP's are a list of statements."""
    shapes = [ROW, {**ROW, "test": ["assert add(2, 3) == 5", "assert add(0, 0) == 0"]}]
    answers = [(row, block(code)) for row in shapes for code in (RIGHT, RIGHT.replace("+", "-"))]
    found = verdicts({"type": "code"}, answers)
    assert [verdict.reward for verdict in found] == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.slow
@needs_bwrap
def test_tests_that_need_a_package_that_is_missing_make_no_answer_wrong() -> None:
    needs = {**ROW, "test": "import numpy_of_mine.linalg as np\n" + ROW["test"]}
    with pytest.raises(RolloutFailedError, match=r"import numpy_of_mine, which .*verifier\.sandbox\.python"):
        verdicts(SPEC, [(needs, block(RIGHT))])
    (own,) = verdicts(SPEC, [(ROW, block("def add(a, b):\n    import numpy_of_mine"))])
    assert (own.reward, own.fields["code_result"]["end"]) == (0.0, "tests failed")


@pytest.mark.slow
@needs_bwrap
def test_the_python_of_the_sandbox_is_what_grades_depend_on() -> None:
    verifier = load_verifier(SPEC)
    assert graded_with(verifier) == {}
    start_verifier(verifier)
    python = graded_with(verifier)
    assert sorted(python) == ["python", "python_sha256"]
    several = load_verifier(
        {"type": "several", "score": "code", "verifiers": {"code": SPEC, "text": {"type": "match"}}}
    )
    start_verifier(several)
    assert graded_with(several) == {f"code/{key}": value for key, value in python.items()}
    assert CodeVerifier.metrics["no_code"].higher_is_better is False


@pytest.mark.parametrize(
    "written",
    [
        b"[" * 100_000,
        b'{"word": "w"}',
        b'{"word": "w", "passed": 1}',
        b'{"word": "w", "passed": false}',
        b'{"word": ["w"], "passed": true}',
        b'{"word": "w", "passed": true} ' * 2,
        b"\xff",
        b"",
    ],
)
def test_code_that_writes_a_report_of_its_own_is_wrong(written: bytes) -> None:
    verdict = _graded("code", Completed(0, written, b"", 0.1), "w")
    assert (verdict.reward, verdict.fields["code_result"]["end"]) == (0.0, "exited")
