"""Grading stored answers again."""

import json
import os
import sys

import orjson
import pytest
from click.testing import CliRunner
from tests.result_rows import (
    benchmark_config,
    result,
    run_config,
    source,
    write_manifest,
    write_output,
)

from nemo_gym.cli.program import gym
from nemo_gym.errors import BusyError, ConfigError, DataError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import lock
from nemo_gym.rollouts.output.manifest import load_manifest
from nemo_gym.rollouts.output.result_rows import Answer
from nemo_gym.rollouts.output.rows import check_line, decode_row, encode_row
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_gym.rollouts.scores.compare import compare
from nemo_gym.rollouts.scores.reverify import reverify
from nemo_gym.types import Episode, Task, Verdict
from nemo_runs.clock import MovableClock
from nemo_runs.processes.trees import identify

TEXTS = {0: "it is 0", 1: "1.001", 2: "5", 3: ""}


@pytest.fixture
def output(tmp_path):
    """Four answers, all wrongly graded 0 by some earlier verifier."""
    results = {
        (task, 0): result(text, reward=0.0, answer=None, note="kept")
        for task, text in reversed(TEXTS.items())
    }
    paths = write_output(tmp_path / "out", results, tasks=5, repeats=1, failures=[(4, 0, "agent_run_error")])
    config = run_config(benchmark_config(tmp_path / "old", verifier="{type: match}"), "policy_model_name=m")
    write_manifest(paths, config, tasks=5, repeats=1)
    aggregate(paths, num_tasks=5, num_repeats=1)
    return paths


@pytest.fixture
def config(tmp_path):
    return run_config(benchmark_config(tmp_path / "new"))


def stored(paths):
    lines = paths.output.read_bytes().splitlines()
    assert all(check_line(line) for line in lines)
    return [decode_row(line) for line in lines]


def test_rows_get_their_new_grades_and_keep_everything_else_and_their_order(output, config):
    before = stored(output)
    done = reverify(output, config)
    after = stored(output)
    assert [(row["reward"], row["extracted_answer"]) for row in after] == [
        (0, None),
        (0, "5"),
        (0, "1.001"),
        (1, "0"),
    ]
    for old, new in zip(before, after, strict=True):
        assert new.pop("_ng_agent_fields") == ["note"]
        for row in (old, new):
            del row["reward"], row["extracted_answer"]
        assert old == new
    assert (done.grades.rows, done.grades.changed, done.grades.after) == (4, 3, 1.0)
    assert done.summary.score.mean == 0.25
    assert json.loads(output.coverage.read_text())["failed"] == 1


def test_the_old_rows_are_kept_and_the_manifest_says_what_grades_now(output, config):
    old_rows = output.output.read_bytes()
    old = load_manifest(output.manifest)
    done = reverify(output, config, clock=MovableClock(0))
    new = load_manifest(output.manifest)
    assert done.superseded.read_bytes() == old_rows
    assert new.generation == old.generation
    assert new.scoring == identity_of(config, dataset_sha256="", model=None).scoring != old.scoring
    assert new.links[-1]["scoring_before"] == old.scoring
    assert (new.links[-1]["at"], new.links[-1]["changed"]) == ("1970-01-01T00:00:00.000Z", 3)
    again = reverify(output, config)
    assert again.grades.changed == 0
    assert again.superseded != done.superseded


def test_a_new_output_stands_on_its_own_and_leaves_the_old_one_alone(output, config, tmp_path):
    before = {path.name: path.read_bytes() for path in output.output.parent.iterdir() if path.is_file()}
    target = RolloutPaths(tmp_path / "again" / "graded.jsonl")
    done = reverify(output, config, output=target.output)
    assert done.superseded is None
    assert [row["reward"] for row in stored(target)] == [0, 0, 0, 1]
    assert target.materialized_inputs.read_bytes() == output.materialized_inputs.read_bytes()
    assert done.summary.coverage.failed == 1
    after = {path.name: path.read_bytes() for path in output.output.parent.iterdir() if path.is_file()}
    assert after == before
    with pytest.raises(ConfigError, match="is there already"):
        reverify(output, config, output=target.output)
    compare(target.output, target.output)


def test_answers_to_another_prompt_are_not_graded(output, tmp_path):
    before = output.output.read_bytes()
    other = run_config(benchmark_config(tmp_path / "other", prompt="Say: {question}"))
    with pytest.raises(ResumeRefusedError, match=r"benchmark\.prompt\.user: .* → "):
        reverify(output, other)
    assert output.output.read_bytes() == before


def test_a_damaged_row_is_named_and_nothing_is_replaced(output, config):
    text = output.output.read_bytes().replace(b"1.001", b"1.002", 1)
    output.output.write_bytes(text)
    with pytest.raises(DataError, match=r"rollouts\.jsonl:3: a damaged row"):
        reverify(output, config)
    assert output.output.read_bytes() == text
    assert not list(output.output.parent.glob(".tmp-*"))


def test_a_row_without_an_answer_is_named(output, config):
    output.output.write_bytes(b'{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1}\n')
    with pytest.raises(DataError, match=r"rollouts\.jsonl:1: the row has no response"):
        reverify(output, config)


def test_a_pipe_in_the_place_of_the_rows_is_refused_and_not_waited_for(output, config):
    output.output.unlink()
    os.mkfifo(output.output)
    with pytest.raises(DataError, match=r"rollouts\.jsonl: there is no such file"):
        reverify(output, config)


def test_rows_without_a_manifest_are_refused(output, config):
    output.manifest.unlink()
    with pytest.raises(DataError, match="only outputs of `gym eval run`"):
        reverify(output, config)


def test_an_output_that_is_being_collected_is_refused(output, config):
    held = lock.acquire(output.lock, lock.Claimant(identify()), output=output.output)
    with pytest.raises(BusyError):
        reverify(output, config)
    held.release()
    reverify(output, config)
    reverify(output, config)


def test_a_crash_between_rows_and_manifest_leaves_a_scoring_that_nobody_asks_for(output, config, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("nemo_gym.rollouts.scores.reverify._link", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reverify(output, config)
    assert [row["reward"] for row in stored(output)] == [0, 0, 0, 1]
    assert load_manifest(output.manifest).scoring["unfinished"] == "gym eval reverify"
    reverify(output, config)
    assert "unfinished" not in load_manifest(output.manifest).scoring


FAILING = """
from pydantic import BaseModel
from nemo_gym.types import Verdict

class Fails:
    class Options(BaseModel):
        pass
    def __init__(self, options, models): pass
    def check_row(self, row): return None
    async def verify(self, task, episode):
        if episode.fields != {"note": "kept"}: raise AssertionError(episode.fields)
        if task.task_index == 1: raise OSError("judge away")
        return Verdict(1.0)

class Live(Fails):
    grades_stored_answers = False
"""


@pytest.fixture
def outsider(tmp_path, monkeypatch):
    info = tmp_path / "site" / "failing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nemo_gym.verifiers]\nfails = failing_verifier:Fails\nlive = failing_verifier:Live\n"
    )
    (tmp_path / "site" / "failing_verifier.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("failing_verifier", None)


def test_a_verifier_that_fails_on_one_row_replaces_nothing(output, tmp_path, outsider):
    before = output.output.read_bytes()
    config = run_config(benchmark_config(tmp_path / "f", verifier="{type: fails}"))
    with pytest.raises(
        DataError,
        match=r"rollouts\.jsonl:3: the verifier failed: OSError: .*: judge away \(/"
        r".*failing_verifier\.py:12, in verify\)",
    ):
        reverify(output, config)
    assert output.output.read_bytes() == before
    assert load_manifest(output.manifest).scoring["benchmark"]["verifier"]["type"] == "match"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("{type: match, answer_field: solution}", "no 'solution'; answer_field names the field, one of"),
        ("{type: multiple_choice}", "no 'options'"),
        ("{type: match, answer_pattern: '#### (.*)'}", "has nothing that answer_pattern finds"),
    ],
)
def test_options_that_the_stored_rows_do_not_fit_are_refused_with_their_line(
    output, tmp_path, options, problem
):
    config = run_config(benchmark_config(tmp_path / "other", verifier=options))
    before = output.output.read_bytes()
    with pytest.raises(
        DataError, match=r"rollouts\.jsonl:1: the verifier cannot grade this row: .*" + problem
    ):
        reverify(output, config)
    assert output.output.read_bytes() == before


def test_a_verifier_of_live_environments_is_refused(output, tmp_path, outsider):
    config = run_config(benchmark_config(tmp_path / "l", verifier="{type: live}"))
    with pytest.raises(ConfigError, match="'live' cannot grade stored answers"):
        reverify(output, config)


def test_the_command_grades_in_place_and_takes_options_of_the_verifier(output, tmp_path):
    path = benchmark_config(tmp_path / "new")
    command = ["eval", "reverify", "--rollouts", str(output.output), "-c", str(path)]
    ran = CliRunner().invoke(gym, [*command, "--json", "++benchmark.verifier.abs_tolerance=0.01"])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert (document["rows"], document["mean_reward_after"]) == (4, 0.5)
    assert document["summary"]["measured"] == 4
    ran = CliRunner().invoke(gym, command)
    assert "25.0%" in ran.stdout
    assert "1 of 4 grades changed" in ran.stderr
    assert "superseded-reverify" in ran.stderr


OWN_NAMES = {"response": "3", "reward": 0.93, "extracted_answer": "z", "ng_perf": 1, "mask_sample": True}


@pytest.mark.parametrize("ours", [True, False], ids=["this version", "an earlier version"])
def test_data_with_names_of_ours_is_graded_the_same_every_time(tmp_path, ours):
    """The right answer stands in the data's own field `response`; a later row has one field more."""
    tasks = [{**source(task), **OWN_NAMES, "response": str(task)} for task in range(3)]
    tasks[2]["extra"] = 7
    lines = []
    for index, task in enumerate(tasks):
        episode = Episode(result(str(min(index, 1)))["response"])
        graded = Answer.of(Task(index, 0, task), episode, latency_ms=1.0, ended_at=1.0).graded(
            Verdict(float(index < 2), str(min(index, 1))), float(index < 2)
        )
        if not ours:
            graded.pop("_ng_agent_fields")
            assert graded.pop("_ng_covered").keys() == {"task"}
        lines.append(encode_row(index, 0, graded))
    paths = write_output(tmp_path / "out", {}, tasks=3, repeats=1)
    inputs = [
        orjson.dumps({"_ng_task_index": n, "_ng_rollout_index": 0, **task}) for n, task in enumerate(tasks)
    ]
    paths.materialized_inputs.write_bytes(b"".join(line + b"\n" for line in inputs))
    paths.output.write_bytes(b"".join(line + b"\n" for line in reversed(lines)))
    verifier = "{type: match, mode: exact, answer_field: response}"
    config = run_config(benchmark_config(tmp_path / "b", verifier=verifier), "policy_model_name=m")
    write_manifest(paths, config, tasks=3, repeats=1)
    for _ in range(2):
        done = reverify(paths, config)
        assert (done.grades.rows, done.grades.changed, done.grades.after) == (3, 0, 2.0)
        assert done.summary.coverage.measured == 3


def test_rows_in_another_framing_are_graded_and_written_as_they_should_be(output, config):
    data = output.output.read_bytes()
    output.output.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n", 2).rstrip(b"\n"))
    assert reverify(output, config).grades.rows == 4
    assert len(stored(output)) == 4


def test_answers_that_could_not_be_graded_get_their_grade(output, config):
    waiting = Answer.of(
        Task(4, 0, source(4)), Episode(result("it is 4")["response"]), latency_ms=1.0, ended_at=1.0
    )
    again = Answer.of_row(stored(output)[0])  # whose result was recorded before its collector was killed
    lines = [encode_row(4, 0, waiting.ungraded()), encode_row(3, 0, again.ungraded())]
    output.answers.write_bytes(b"".join(line + b"\n" for line in lines))
    done = reverify(output, config)
    assert (done.grades.rows, done.grades.first, done.grades.changed) == (5, 1, 3)
    assert [row["reward"] for row in stored(output)] == [0, 0, 0, 1, 1]
    assert not output.answers.exists()
    assert done.to_json()["first_graded"] == 1
    assert done.summary.coverage.measured == 5


def test_a_first_grading_that_fails_again_keeps_the_answer(output, tmp_path, outsider):
    waiting = Answer.of(
        Task(1, 0, source(1)),
        Episode(result("1")["response"], fields={"note": "kept"}),
        latency_ms=1,
        ended_at=1,
    )
    output.output.write_bytes(b"")
    output.answers.write_bytes(encode_row(1, 0, waiting.ungraded()) + b"\n")
    before = output.answers.read_bytes()
    config = run_config(benchmark_config(tmp_path / "f", verifier="{type: fails}"))
    with pytest.raises(DataError, match=r"rollouts_answers\.jsonl:1: the verifier failed: OSError"):
        reverify(output, config)
    assert output.answers.read_bytes() == before
