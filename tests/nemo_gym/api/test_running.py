"""Evaluations from Python, in scripts and in a running event loop, against a small server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mock_server import MockServer

import nemo_gym

pytestmark = pytest.mark.services
PENALTY = 1.0


def rows(count: int = 4) -> list[dict[str, Any]]:
    return [{"question": f"What is {n} + 1?", "expected_answer": str(n + 1)} for n in range(count)]


def grade(answer: str, row: dict[str, Any]) -> float:
    return float(answer.endswith(row["expected_answer"])) * PENALTY


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(server: MockServer, **more: Any) -> nemo_gym.EvalResult:
    given: dict[str, Any] = {"verifier": grade, "output": "out", "model": "mock", "progress": False}
    return nemo_gym.run(**{"questions": rows(), "model_url": server.base_url, **given, **more})


@contextlib.contextmanager
def interrupted_after(server: MockServer, requests: int) -> Iterator[None]:
    """Ctrl-C once so many requests have come."""

    def wait() -> None:
        while server.requests < requests:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def test_rows_and_a_function_make_an_evaluation_that_is_shown_and_read(folder: Path) -> None:
    with MockServer() as server:
        found = asked(server)
        again = asked(server, resume=True)
        assert server.requests == 4
    assert (found.score, found.state, found.benchmark, found.model) == (1.0, "complete", "questions", "mock")
    assert found.interval is not None
    assert found.interval[0] < 1.0
    assert (again.score, again.state) == (1.0, "complete")
    assert repr(found) == (
        f"<EvalResult questions of mock: 100.0% ({found.interval[0]:.1%} to 100.0%), 4 of 4 measured, "
        f"complete; {folder}/out/rollouts.jsonl>"
    )
    assert "<td>score</td><td>100.0%" in found._repr_html_()
    assert [rollout.task for rollout in found.rollouts(limit=2)] == [0, 1]
    assert found.rollouts(wrong=True) == []
    assert list(found.to_pandas()["reward"]) == [1.0] * 4
    assert found.to_arrow().num_rows == 4
    known = nemo_gym.results("out")
    assert [(one.benchmark, one.score, one.state) for one in known] == [("questions", 1.0, "complete")]
    assert known["questions"].output == found.output
    assert "questions  complete  100.0%" in repr(known)
    assert nemo_gym.compare("out", found)[0].conclusions() == ["no difference is shown"]


def test_another_function_does_not_resume_and_grades_again_without_a_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MockServer() as server:
        asked(server)
        monkeypatch.setattr(f"{__name__}.PENALTY", 0.5)
        with pytest.raises(nemo_gym.errors.ResumeRefusedError) as refused:
            asked(server, resume=True)
        with pytest.raises(nemo_gym.errors.ResumeRefusedError, match="add resume=True"):
            asked(server)
        requests = server.requests
        found = nemo_gym.reverify(rows(), output="out", verifier=grade, progress=False)
        assert server.requests == requests
    assert "benchmark.verifier.sha256" in str(refused.value)
    assert "nemo_gym.reverify grades the recorded answers again" in str(refused.value)
    assert found.score == 0.5
    (kept,) = folder.glob("out/*superseded*")
    assert json.loads(kept.read_text().splitlines()[0])["reward"] == 1.0


def test_an_async_function_grades_in_a_running_loop_and_a_benchmark_has_its_own_grader() -> None:
    async def patient(answer: str, row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"reward": grade(answer, row), "metrics": {"characters": len(answer)}}

    async def notebook(server: MockServer) -> nemo_gym.EvalResult:
        return asked(server, verifier=patient)

    with MockServer() as server:
        found = asyncio.run(notebook(server))
        named = asked(server, questions="arithmetic", verifier=None, limit=3, output="named.jsonl")
    assert found.score == 1.0
    assert found.metrics["characters"] == 9.0
    assert (named.benchmark, named.score, named.output.name) == ("arithmetic", 1.0, "named.jsonl")


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_ctrl_c_leaves_a_run_that_the_same_call_finishes(in_a_loop: bool) -> None:
    def call(server: MockServer) -> nemo_gym.EvalResult:
        return asked(server, questions=rows(40), concurrency=1, resume=True)

    async def notebook(server: MockServer) -> nemo_gym.EvalResult:
        return call(server)

    before = signal.getsignal(signal.SIGINT)
    with MockServer(faults_for={"2 + 1": ["hang"]}) as server, interrupted_after(server, 3):
        threading.Timer(1.0, server.released.set).start()
        with pytest.raises(KeyboardInterrupt, match="resume=True goes on from there"):
            asyncio.run(notebook(server)) if in_a_loop else call(server)
    assert signal.getsignal(signal.SIGINT) is before
    (left,) = nemo_gym.results("out")
    assert left.state == "incomplete"
    with MockServer() as server:
        found = call(server)
        assert server.requests < 40
    assert (found.score, found.state) == (1.0, "complete")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"verifier": None}, "verifier: say how answers are graded: a function"),
        ({"verifier": print}, "verifier: the source of <built-in function print> cannot be read"),
        ({"verifier": lambda answer, gold: 1.0}, "<lambda> has a parameter 'gold' that is not known"),
        ({"verifier": {"type": "match", "mod": "exact"}}, "benchmark.verifier.mod"),
        ({"questions": [{"question": {1, 2}}]}, "questions[0]: cannot be written as JSON"),
        ({"questions": ["3 + 4?"]}, "questions[0]: must be a mapping of fields to values"),
        ({"questions": []}, "questions: holds no rows"),
        ({"questions": "arithmetix"}, "questions: there is no benchmark arithmetix (did you mean"),
        ({"questions": "none.jsonl", "verifier": "match"}, "none.jsonl"),
        ({"model_api_key": "sk-1"}, "model_api_key: takes host:VAR"),
        ({"settings": {"num_samples": 3}}, "num_samples"),
        ({"model": None}, "missing policy_model_name (model)"),
        ({"concurrency": 0}, "num_samples_in_parallel"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with MockServer() as server, pytest.raises(nemo_gym.errors.GymError) as refused:
        asked(server, **given)
    assert sentence in str(refused.value)
    assert "--" not in str(refused.value)
    assert server.requests == 0
