"""A whole run with a judge: recorded first, judged then, its requests apart."""

import json

import pytest
from click.testing import CliRunner
from tests.mock_server import MockServer
from tests.result_rows import benchmark_config

from nemo_gym.cli.program import gym
from nemo_gym.errors import ResumeRefusedError

pytestmark = pytest.mark.services


RUBRIC = "{type: judge, prompt: 'Rate {answer}', attempts: 1}"


def run(tmp_path, policy, judge_url, *more, out="out", verifier=RUBRIC):
    folder = tmp_path / "b"
    path = benchmark_config(folder, verifier=verifier)
    rows = [{"question": f"What is {n} + 1?", "expected_answer": str(n + 1)} for n in range(20)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["eval", "run", "-c", str(path), "-m", "mock", "--model-url", policy.base_url, "--json"]
    command += ["--judge", "mock", "--judge-url", judge_url, "-o", str(tmp_path / out / "rollouts.jsonl")]
    command += ["++judge_models.judge.max_request_attempts=1", *more]
    ran = CliRunner().invoke(gym, command)
    return ran, json.loads(ran.stdout) if ran.stdout else None


def test_answers_are_judged_and_the_judges_tokens_are_apart(tmp_path):
    with MockServer() as policy, MockServer(answer="Score: 10") as judge:
        ran, found = run(tmp_path, policy, judge.base_url)
        assert (policy.requests, judge.requests) == (20, 20)
    assert ran.exit_code == 0, ran.output
    assert found["score"]["mean"] == 1.0
    assert found["judges"]["judge"]["requests"] == 20
    assert found["metrics"]["unreadable"]["value"] == 0.0


def test_a_judge_that_is_down_costs_no_answer_and_a_resume_asks_the_judge_alone(tmp_path):
    with MockServer() as policy:
        ran, found = run(tmp_path, policy, "http://127.0.0.1:9/v1")
        assert policy.requests == 20
        assert found["end"]["status"] == 75, ran.output
        sentence = found["end"]["sentence"]
        assert "the judge kept failing" in sentence
        assert "20 answers are stored and not graded" in sentence
        with MockServer(answer="Score: 10") as judge:
            ran, found = run(tmp_path, policy, judge.base_url, "--resume")
            assert (policy.requests, judge.requests) == (20, 20)
    assert ran.exit_code == 0, ran.output
    assert found["score"]["mean"] == 1.0


def test_another_judge_is_another_grading_and_no_other_answers(tmp_path):
    with MockServer() as policy, MockServer(answer="Score: 10", models=["mock", "other"]) as judge:
        run(tmp_path, policy, judge.base_url)
        ran, _ = run(tmp_path, policy, judge.base_url, "--resume", "--judge", "other")
        assert policy.requests == 20
    assert isinstance(ran.exception, ResumeRefusedError)
    assert 'judge_models.judge.model: "mock" → "other"' in str(ran.exception)
    assert "gym eval reverify" in str(ran.exception)


def test_a_reference_run_with_other_answers_is_another_grading(tmp_path):
    pairwise = f"{{type: pairwise, reference: {tmp_path / 'before.jsonl'}}}"
    with MockServer() as policy, MockServer(answer="[[A]]") as judge:
        ran, _ = run(tmp_path, policy, judge.base_url, out="before")
        assert ran.exit_code == 0, ran.output
        before = (tmp_path / "before" / "rollouts.jsonl").read_text()
        (tmp_path / "before.jsonl").write_text(before)
        ran, found = run(tmp_path, policy, judge.base_url, verifier=pairwise)
        assert found["score"]["mean"] == 0.5, ran.output
        ran, _ = run(tmp_path, policy, judge.base_url, "--resume", verifier=pairwise)
        assert ran.exit_code == 0, ran.output
        asked = policy.requests, judge.requests
        (tmp_path / "before.jsonl").write_text("".join(before.splitlines(keepends=True)[:-1]))
        ran, _ = run(tmp_path, policy, judge.base_url, "--resume", verifier=pairwise)
        assert (policy.requests, judge.requests) == asked
    assert isinstance(ran.exception, ResumeRefusedError)
    assert "graded_with.reference_sha256" in str(ran.exception)
    assert "gym eval reverify" in str(ran.exception)
