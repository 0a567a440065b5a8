"""Whole runs that stop once their question is answered."""

import json

import pytest
from click.testing import CliRunner
from tests.mock_server import MockServer
from tests.result_rows import benchmark_config

import nemo_gym
from nemo_gym.cli.program import gym
from nemo_gym.errors import ConfigError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.scores.certificate import certify

pytestmark = pytest.mark.services
TASKS = 200


def run(tmp_path, policy, *more, out="out", wrong=(), question="What is {n} + 1?"):
    folder = tmp_path / f"b-{out}"
    path = benchmark_config(folder)
    rows = [
        {"question": question.format(n=n), "expected_answer": "no" if n in wrong else str(n + 1)}
        for n in range(TASKS)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["eval", "run", "-c", str(path), "-m", "mock", "--model-url", policy.base_url, "--json"]
    command += ["--concurrency", "4", "-o", str(tmp_path / out / "rollouts.jsonl"), *more]
    ran = CliRunner().invoke(gym, command)
    return ran, json.loads(ran.stdout) if ran.stdout else None


def test_a_run_stops_once_its_score_is_known_well_enough_and_says_so_everywhere(tmp_path):
    with MockServer() as policy:
        ran, found = run(tmp_path, policy, "until.half_width=0.1")
        asked = policy.requests
        assert ran.exit_code == 0, ran.output
        until = found["until"]
        assert (until["outcome"], until["rule"], until["seed"]) == ("precise", {"half_width": 0.1}, 0)
        assert until["tasks_used"] <= asked < 100
        assert found["end"]["state"] == "complete"
        assert f"decided after {until['tasks_used']} of 200 tasks" in found["end"]["sentence"]
        assert (found["missing"], found["not_needed"]) == (0, TASKS - asked)
        score = found["score"]
        assert (score["method"], score["clusters"]) == ("sequential", until["tasks_used"])
        assert (score["low"], score["high"]) == (until["score"]["low"], until["score"]["high"])
        paths = RolloutPaths(tmp_path / "out" / "rollouts.jsonl")
        progress = json.loads(paths.progress.read_bytes())
        assert (progress["done"], progress["expected"]) == (asked, asked)
        assert until["sentence"] == progress["until"]
        certificate = certify(paths)
        assert (certificate.problems, certificate.missing) == ([], 0)
        assert (certificate.until, certificate.not_needed) == (until, TASKS - asked)
    (read,) = nemo_gym.results(str(paths.output.parent))
    assert (read.state, read.score) == ("complete", score["mean"])
    ran, again = run(tmp_path, policy, "until.half_width=0.1", "--resume")  # the server is gone
    assert ran.exit_code == 0, ran.output
    assert again["until"] == until
    kept = json.loads(paths.until.read_bytes())
    kept["decision"]["tasks_used"] -= 1
    paths.until.write_text(json.dumps(kept))
    assert "the rows say precise after" in certify(paths).problems[0]


def test_another_question_of_the_same_run(tmp_path):
    with MockServer() as policy:
        run(tmp_path, policy, "until.half_width=0.1")
        first = policy.requests
        ran, found = run(tmp_path, policy, "until.half_width=0.05", "--resume")
        assert found["until"]["outcome"] == "precise"
        assert first < policy.requests < TASKS
        ran, _ = run(tmp_path, policy, "until.half_width=0.05", "until.seed=1", "--resume")
        assert isinstance(ran.exception, ResumeRefusedError)
        assert "until.seed: 0 → 1" in str(ran.exception)
        ran, found = run(tmp_path, policy, "--resume")
        assert (found["until"], found["measured"]) == (None, TASKS)
        assert policy.requests == TASKS


def test_a_run_stops_once_it_is_known_to_be_better_than_another(tmp_path):
    reference = str(tmp_path / "reference")
    better = f"until.better_than={reference}"
    with MockServer() as policy:
        run(tmp_path, policy, out="reference", wrong=())
        ran, found = run(tmp_path, policy, better, out="same")
        assert (found["until"]["outcome"], found["until"]["tasks_used"]) == ("equal", TASKS), ran.output
    with MockServer(answer="nothing") as policy:
        ran, found = run(tmp_path, policy, better, "--limit", "150", out="worse")
        assert found["until"]["outcome"] == "worse"
        assert found["until"]["tasks"] == 150
        assert found["until"]["difference"]["high"] < 0
        assert policy.requests < 60
        assert f"worse than {reference}" in found["end"]["sentence"]


def test_a_reference_with_other_tasks_or_too_few_is_refused_before_anything_is_asked(tmp_path):
    better = f"until.better_than={tmp_path / 'reference'}"
    with MockServer() as policy:
        run(tmp_path, policy, "--limit", "100", out="reference")
        asked = policy.requests
        ran, _ = run(tmp_path, policy, better, out="more")
        assert isinstance(ran.exception, ConfigError)
        assert "tasks 100, 101, 102, 103, 104 and 95 more" in str(ran.exception)
        ran, _ = run(tmp_path, policy, better, out="other", question="What is {n} plus 1?")
        assert "has other tasks" in str(ran.exception)
        ran, _ = run(tmp_path, policy, "until.better_than=nothing-here", out="none")
        assert isinstance(ran.exception, ConfigError)
        assert policy.requests == asked


def test_more_tasks_or_repeats_are_another_question_and_what_is_recorded_counts_for_it(tmp_path):
    with MockServer() as policy:
        run(tmp_path, policy, "until.half_width=0.1", "--limit", "100")
        asked = policy.requests
        for size, total in ((["--limit", "200"], 200), (["--limit", "200", "--num-repeats", "2"], 200)):
            ran, found = run(tmp_path, policy, "until.half_width=0.1", "--resume", *size)
            assert ran.exit_code == 0, ran.output
            assert (found["until"]["outcome"], found["until"]["tasks"]) == ("precise", total)
            assert found["run"]["resumed"] > 0
            assert certify(RolloutPaths(tmp_path / "out" / "rollouts.jsonl")).problems == []
        assert asked < policy.requests < 150


def test_a_run_that_is_not_decided_since_a_rollout_failed_for_good_speaks_of_all_tasks(tmp_path):
    fine = "until.half_width=0.001"
    with MockServer(faults_for={"What is 17 +": ["400", "400*"]}) as policy:
        ran, found = run(tmp_path, policy, fine, "--limit", "40")
        assert found["end"]["state"] == "exhausted", ran.output
    assert (found["until"]["tasks_used"], found["until"]["given_up"]) == (40, [17])
    assert found["until"]["score"]["low"] == pytest.approx(39 / 40)
    assert (found["score"]["method"] != "sequential", found["score"]["clusters"]) == (True, 39)
    paths = RolloutPaths(tmp_path / "out" / "rollouts.jsonl")
    certificate = certify(paths)
    assert (certificate.until, certificate.missing) == (found["until"], 1)
    assert json.loads(paths.progress.read_bytes())["until"] == found["until"]["sentence"]
