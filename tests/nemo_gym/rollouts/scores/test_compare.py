"""Two runs, task by task."""

import json
import math
import random
import statistics as std

import pytest
from click.testing import CliRunner
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.cli.program import gym
from nemo_gym.errors import DataError
from nemo_gym.job_paths import RunPaths
from nemo_gym.rollouts.scores.compare import UnlikeRunsError, _shortened, compare, pair
from nemo_gym.rollouts.scores.statistics import t_quantile, wilson

A = {0: [1, 0], 1: [0, 0], 2: [1, 1], 3: [0, 1]}
B = {0: [1, 1], 1: [0, 0], 2: [1, 0], 3: [1, 1]}


def make(folder, rewards, *overrides, model="m", **options):
    tasks, repeats = len(rewards), max(map(len, rewards.values()))
    results = {
        (task, repeat): result(reward=reward)
        for task, of_task in rewards.items()
        for repeat, reward in enumerate(of_task)
        if reward is not None
    }
    paths = write_output(folder, results, tasks=tasks, repeats=repeats)
    config = run_config(
        benchmark_config(folder / "benchmark", **options), f"policy_model_name={model}", *overrides
    )
    write_manifest(paths, config, tasks=tasks, repeats=repeats)
    return paths


def test_differences_are_paired_by_task(tmp_path):
    a, b = make(tmp_path / "a", A), make(tmp_path / "b", B, model="n")
    (found,) = compare(a.output, b.output).shared
    deltas = [0.5, 0.0, -0.5, 0.5]
    error = std.stdev(deltas) / 2
    assert found.benchmark == "sums"
    assert (found.paired.mean_a, found.paired.mean_b) == (0.5, 0.625)
    assert found.paired.difference == pytest.approx(0.125)
    assert found.paired.std_error == pytest.approx(error)
    assert found.paired.low == pytest.approx(0.125 - t_quantile(0.975, 3) * error)
    assert (found.paired.better, found.paired.worse, found.paired.same) == (2, 1, 1)
    assert found.paired.sentence == "no difference is shown"
    assert found.differs == ['model.name: "m" → "n"', 'policy_model_name: "m" → "n"']


def test_swapping_the_runs_turns_the_difference_round(tmp_path):
    a, b = make(tmp_path / "a", A), make(tmp_path / "b", B)
    there, back = (compare(*paths).shared[0].paired for paths in ((a.output, b.output), (b.output, a.output)))
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_runs_with_unlike_numbers_of_repeats_are_compared_by_their_task_means(tmp_path):
    a, b = (
        make(tmp_path / "a", A),
        make(tmp_path / "b", {task: rewards[:1] for task, rewards in B.items()}, "num_repeats=1"),
    )
    (found,) = compare(a.output, b.output).shared
    assert found.paired.mean_b == 0.75


def test_tasks_that_only_one_side_measured_are_left_out_and_counted(tmp_path):
    a = make(tmp_path / "a", {**A, 0: [None, None]})
    b = make(tmp_path / "b", {**B, 1: [None, None], 2: [None, 0]})
    (found,) = compare(a.output, b.output).shared
    assert (found.paired.tasks, found.unpaired_a, found.unpaired_b) == (2, 1, 1)
    assert found.paired.difference == pytest.approx((-1 + 0.5) / 2)


def test_runs_that_share_no_measured_task_cannot_be_compared(tmp_path):
    a = make(tmp_path / "a", {0: [1], 1: [None]})
    b = make(tmp_path / "b", {0: [None], 1: [1]})
    with pytest.raises(DataError, match="none of the 2 tasks"):
        compare(a.output, b.output)


@pytest.mark.parametrize(
    ("options", "override", "key"),
    [
        ({"prompt": "Say {question}"}, "limit=4", r"prompt\.user: .*limit: \(unset\) → 4"),
        (
            {"verifier": "{type: match, mode: exact}"},
            "limit=0",
            r"benchmark\.verifier\.mode: .*gym eval reverify",
        ),
    ],
)
def test_unlike_tasks_or_grading_are_refused_with_every_key(tmp_path, options, override, key):
    a, b = make(tmp_path / "a", A), make(tmp_path / "b", B, override, **options)
    with pytest.raises(UnlikeRunsError, match=key):
        compare(a.output, b.output)


def test_runs_on_other_questions_are_refused_with_what_can_be_compared(tmp_path):
    a, b = make(tmp_path / "a", A), make(tmp_path / "b", B, prompt="Say {question}")
    both = make(tmp_path / "both", B, prompt="Say {question}", verifier="{type: match, mode: exact}")
    for other in (b, both):
        with pytest.raises(UnlikeRunsError, match=r"\. Only runs on the same questions can be compared\.$"):
            compare(a.output, other.output)


def test_digests_are_told_by_their_first_digits():
    change = f'dataset_sha256: "{"0a" * 32}" → "{"1b" * 32}"; limit: (unset) → 3; name: "{"0a" * 33}"'
    shown = f'dataset_sha256: 0a0a0a0a0a0a… → 1b1b1b1b1b1b…; limit: (unset) → 3; name: "{"0a" * 33}"'
    assert _shortened(change) == shown


def test_settings_of_how_to_answer_may_differ_and_are_told(tmp_path):
    a = make(tmp_path / "a", A)
    b = make(tmp_path / "b", B, "responses_create_params.temperature=0.7")
    (found,) = compare(a.output, b.output).shared
    assert found.differs == ["responses_create_params.temperature: (unset) → 0.7"]


def test_rows_without_a_manifest_are_refused(tmp_path):
    a = make(tmp_path / "a", A)
    a.manifest.unlink()
    with pytest.raises(DataError, match="unknown which tasks"):
        compare(a.output, a.output)


def test_equal_runs_show_no_difference_but_claim_no_certainty():
    found = pair([(1.0, 1.0)] * 20)
    assert (found.difference, found.method, found.sentence) == (0, "wilson", "no difference is shown")
    assert found.high == -found.low == wilson(0, 20)[1]


def test_a_single_task_proves_little():
    found = pair([(0.0, 1.0)])
    assert (found.difference, found.high) == (1.0, 1.0)
    assert found.low < 0.5


def test_the_paired_interval_covers_the_truth_as_often_as_it_says():
    rnd = random.Random(7)
    covered, runs = 0, 2_000
    for _ in range(runs):
        means = []
        for _ in range(40):
            difficulty = 0.8 * rnd.random()
            means.append((float(rnd.random() < difficulty), float(rnd.random() < difficulty + 0.1)))
        found = pair(means)
        covered += found.low <= 0.1 <= found.high
    assert 0.93 <= covered / runs <= 0.97


def run_dir(folder, **benchmarks):
    for name, rewards in benchmarks.items():
        make(RunPaths(folder).job(name).artifacts, rewards)
    return folder


def test_run_directories_are_paired_by_benchmark(tmp_path):
    a = run_dir(tmp_path / "a", sums=A, more=A, old=A)
    b = run_dir(tmp_path / "b", more=B, sums=A, new=B)
    found = compare(a, b)
    assert [comparison.benchmark for comparison in found.shared] == ["more", "sums"]
    assert [comparison.paired.difference for comparison in found.shared] == [0.125, 0]
    assert (found.only_a, found.only_b) == (["old"], ["new"])


@pytest.mark.parametrize("inside", ["", "sums", "sums/artifacts", "sums/artifacts/rollouts.jsonl"])
def test_a_run_is_named_by_any_of_its_folders_or_its_rows(tmp_path, inside):
    a = run_dir(tmp_path / "a", sums=A)
    b = run_dir(tmp_path / "b", sums=B)
    assert compare(a / inside, b).shared[0].paired.difference == 0.125


def test_folders_without_rows_or_without_a_shared_benchmark_are_refused(tmp_path):
    a = run_dir(tmp_path / "a", one=A, two=A)
    b = run_dir(tmp_path / "b", three=A, four=A)
    with pytest.raises(DataError, match="share no benchmark: the first has one, two, the second four, three"):
        compare(a, b)
    with pytest.raises(DataError, match="no rollouts here"):
        compare(tmp_path, b)


def test_the_command_prints_a_table_and_one_document(tmp_path):
    a, b = run_dir(tmp_path / "a", sums=A, old=A), run_dir(tmp_path / "b", sums={**B, 3: [None, None]}, x=A)
    ran = CliRunner().invoke(gym, ["eval", "compare", str(a), str(b)])
    assert ran.exit_code == 0, ran.output
    assert [" ".join(line.split()) for line in ran.stdout.splitlines()] == [
        "benchmark A B B - A 95% interval tasks better worse same",
        "sums 50.0% 50.0% +0.0 -100.0 to +100.0 3 1 1 1 no difference is shown",
        "sums: left out are tasks that one side has not measured: 1 by B, 0 by A",
        "only in A: old",
        "only in B: x",
    ]
    ran = CliRunner().invoke(gym, ["eval", "compare", str(a), str(b), "--json"])
    document = json.loads(ran.stdout)
    assert document["benchmarks"][0]["difference"] == 0
    assert not math.isnan(document["benchmarks"][0]["low"])
    assert document["only_a"] == ["old"]
