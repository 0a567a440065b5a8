"""Grading stored answers by a judge: what it said is kept, and nothing is asked twice."""

import json

import pytest
from click.testing import CliRunner
from tests.mock_server import MockServer
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.cli.program import gym
from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.output.rows import decode_row
from nemo_gym.rollouts.scores.grading_pass import GradingJournal
from nemo_gym.rollouts.scores.reverify import reverify

VERIFIER = "{type: judge, prompt: 'About {question} rate {answer}', attempts: 1}"


@pytest.fixture
def output(tmp_path):
    """Six answers, graded by something else before."""
    results = {(task, 0): result(f"answer {task}", reward=0.0) for task in range(6)}
    paths = write_output(tmp_path / "out", results, tasks=6, repeats=1)
    before = run_config(benchmark_config(tmp_path / "old", verifier="{type: match}"), "policy_model_name=m")
    write_manifest(paths, before, tasks=6, repeats=1)
    return paths


def config(tmp_path, server, *overrides, verifier=VERIFIER):
    judge = f"{{model: mock, base_url: '{server.base_url}', max_request_attempts: 1}}"
    return run_config(
        benchmark_config(tmp_path / "new", verifier=verifier),
        f"++judge_models.judge={judge}",
        "++judge_models.judge.price_per_million_tokens={input: 1000000, output: 0}",
        *overrides,
    )


def journals(paths):
    return [path.name for path in paths.output.parent.iterdir() if ".grading-" in path.name]


def test_a_judge_grades_and_what_it_took_is_counted_apart(output, tmp_path):
    with MockServer(answer="Score: 10") as server:
        done = reverify(output, config(tmp_path, server))
        assert server.requests == 6
    assert done.summary.score.mean == 1.0
    use = done.summary.judges["judge"]
    assert (use["requests"], use["cost"]) == (6, use["prompt_tokens"])
    assert use["completion_tokens"] > 0
    assert done.summary.tokens["input"] == 60, "the tokens of the answers are as they were"
    assert any(line.startswith("judge: 6 requests") for name, line in done.summary.lines() if name == "judge")
    assert journals(output) == []
    rows = [decode_row(line) for line in output.output.read_bytes().splitlines()]
    assert [row["_ng_task_index"] for row in rows] == list(range(6)), "rows keep their order"
    assert rows[0]["_ng_judges"]["judge"]["requests"] == 1


def test_a_grading_that_was_ended_goes_on_and_asks_nothing_twice(output, tmp_path):
    before = output.output.read_bytes()
    said = []
    with MockServer(answer="Score: 4", faults_for={"answer 3": ["400"]}) as server:
        with pytest.raises(DataError) as failed:
            reverify(output, config(tmp_path, server, "++judge_models.judge.num_in_parallel=1"))
        assert "rollouts.jsonl:4: the verifier failed: agent_run_error" in str(failed.value)
        assert "the same command goes on from there" in str(failed.value)
        assert output.output.read_bytes() == before, "nothing is replaced"
        first = server.requests
        assert first >= 4
        done = reverify(
            output, config(tmp_path, server, "++judge_models.judge.num_in_parallel=1"), report=said.append
        )
        assert server.requests == 7, "the one that failed is asked again, no other"
    assert any("kept from a grading that was ended" in line for line in said)
    assert done.grades.rows == 6
    assert done.summary.judges["judge"]["requests"] == 6
    assert journals(output) == []


def test_another_prompt_asks_everything_again(output, tmp_path):
    with MockServer(answer="Score: 4", faults_for={"answer 5": ["400*"]}) as server:
        with pytest.raises(DataError):
            reverify(output, config(tmp_path, server))
        asked = server.requests
        other = VERIFIER.replace("rate", "judge")
        with pytest.raises(DataError):
            reverify(output, config(tmp_path, server, verifier=other))
        assert server.requests > asked + 1
    assert len(journals(output)) == 2


def test_a_judge_that_cannot_be_read_leaves_answers_unscored(output, tmp_path):
    with MockServer(answer="no idea") as server:
        done = reverify(output, config(tmp_path, server))
    assert (done.summary.score, done.summary.coverage.unscored) == (None, 6)
    assert done.summary.metrics["unreadable"].value == 1.0


def test_a_torn_journal_counts_up_to_its_last_whole_row(tmp_path):
    path = tmp_path / "rows.grading-x"
    with GradingJournal(path) as journal:
        journal.put((0, 0), {"response": {"a": 1}})
        journal.put((1, 0), {"response": {"a": 2}})
    path.write_bytes(path.read_bytes()[:-9])
    with GradingJournal(path) as journal:
        assert journal.kept == 1


def test_a_pass_without_a_single_grade_leaves_no_file(tmp_path):
    with GradingJournal(tmp_path / "rows.grading-x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_service_outside_of_a_job_is_refused_with_its_place(output, tmp_path):
    found = run_config(
        benchmark_config(tmp_path / "new", verifier=VERIFIER), "++judge_models.judge={service: grader}"
    )
    with pytest.raises(
        ConfigError, match=r"judge_models\.judge\.service: 'grader' is not a service of this job"
    ):
        reverify(output, found, environ={})


def test_a_service_of_the_job_judges(output, tmp_path):
    found = run_config(
        benchmark_config(tmp_path / "new", verifier=VERIFIER), "++judge_models.judge={service: grader}"
    )
    with MockServer(answer="Score: 10", api_key="k", models=["m"]) as server:
        environ = {
            "NEMO_GYM_SERVICES": f"other http://localhost:1/v1 x\ngrader {server.base_url} m\n",
            "NEMO_GYM_SERVICE_API_KEY": "k",
        }
        assert reverify(output, found, environ=environ).summary.score.mean == 1.0
        assert server.bodies[0]["model"] == "m"


def test_the_command_takes_another_judge(output, tmp_path):
    benchmark_config(tmp_path / "new", verifier=VERIFIER)
    with MockServer(answer="Score: 10", models=["big"], api_key="secret") as server:
        command = [
            "eval",
            "reverify",
            "--rollouts",
            str(output.output),
            "-c",
            str(tmp_path / "new/config.yaml"),
        ]
        command += ["--judge", "big", "--judge-url", server.base_url, "--judge-api-key", "host:KEY", "--json"]
        ran = CliRunner().invoke(gym, command, env={"KEY": "secret"})
        assert ran.exit_code == 0, ran.output
        assert server.bodies[0]["model"] == "big"
    assert json.loads(ran.stdout)["summary"]["judges"]["judge"]["requests"] == 6
    assert "secret" not in ran.output
    assert "secret" not in output.manifest.read_text()


def test_a_key_is_never_typed(output):
    command = ["eval", "reverify", "--rollouts", str(output.output), "--judge-api-key", "judge=sk-1"]
    ran = CliRunner().invoke(gym, command)
    assert (ran.exit_code, "never the key itself" in ran.output) == (2, True)
