"""How the pages about evaluations are followed."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from tests.benchmarks.test_humaneval import PROBLEMS, wheel
from tests.docs import worlds
from tests.docs.pages import PROGRAMS, ROOT, Page, merged
from tests.engines import bfcl_python, engine_python, harness_python, shared_cache, tiny_model
from tests.nemo_gym.harness import local_tasks
from tests.nemo_gym.harness.answering import AnsweringServer

from nemo_gym.agents.registry import load_agent
from nemo_gym.rollouts.run_config.schema import BenchmarkConfig
from nemo_gym.serving import models

BENCHMARK = """\
benchmark:
  name: {name}
  datasets: {{benchmark: {{jsonl_fpath: rows.jsonl}}}}
  prompt: {{user: "{{question}}"}}
"""
ROWS = '{"question": "3 + 4?", "expected_answer": "A", "options": [{"A": "7"}, {"B": "8"}]}\n'


SOLUTIONS = '{"question": "3 + 4?", "answer": "3 and 4 make 7. #### 7"}\n'


def benchmark(page: Page, fragment: dict[str, Any], name: str, rows: str = ROWS, **more: Any) -> None:
    """Make a benchmark with what a page says of one, and evaluate it."""
    base = yaml.safe_load(BENCHMARK.format(name=name))
    folder = f"mine/benchmarks/{name}"
    whole = merged(base, fragment if "benchmark" in fragment else {"benchmark": fragment})
    page.write(f"{folder}/config.yaml", yaml.safe_dump(merged(whole, {"benchmark": more})))
    page.write(f"{folder}/rows.jsonl", rows)
    page.type(
        f"gym eval run --search-dir mine --benchmark {name} --model m "
        + page.filled(f"--model-url http://127.0.0.1:8000/v1 --output {name}/rollouts.jsonl")
    )


def readme(page: Page) -> None:
    worlds.few_questions(page)
    page.run()
    assert "4/4" in page.said
    assert "CERTIFIED: complete and intact." in page.said


def contributing(page: Page) -> None:
    shutil.copy(ROOT / ".pre-commit-config.yaml", page.folder)
    (page.folder / ".venv").symlink_to(PROGRAMS.parent)
    page.type("git init --quiet && .venv/bin/pre-commit validate-config")
    page.run()
    assert (page.folder / ".git" / "hooks" / "pre-commit").exists()


def demos(page: Page) -> None:
    worlds.own_port(page)
    worlds.few_questions(page)
    page.replaced["--benchmark arithmetic "] = "--benchmark arithmetic --limit 4 "
    page.run()
    assert page.said.count("CERTIFIED: complete and intact.") == 1


def first_evaluation(page: Page) -> None:
    worlds.few_questions(page)
    page.run()
    page.run()
    assert "4/4" in page.said
    # the reader follows this page for the second time, and has two runs
    page.type("cp -r runs/gym-job-* runs/gym-job-20990101T000000Z-000000")
    page.run()
    assert "arithmetic task 1, repeat 0: " in page.said
    assert (page.folder / "first-evaluation.zip").exists()
    page.run()


def add_a_benchmark(page: Page) -> None:
    worlds.own_port(page)
    page.save("my-benchmarks/benchmarks/capitals/config.yaml")
    page.save("my-benchmarks/benchmarks/capitals/data/capitals.jsonl", "json")
    page.run()
    assert "score      100.0%" in page.said
    page.replaced.clear()
    worlds.model_server(page)
    benchmark(page, page.yaml(), "ends", verifier={"type": "match"})
    benchmark(page, page.yaml(), "choices")
    benchmark(page, page.yaml(), "solutions", rows=SOLUTIONS)
    folder = "my-benchmarks/benchmarks/capitals"
    whole = yaml.safe_load((page.folder / folder / "config.yaml").read_text())
    page.write(f"{folder}/config.yaml", yaml.safe_dump(merged(whole, {"benchmark": page.yaml()})))
    makes = "    output.write_text('{}\\n' * num_tasks)\n"
    page.save(f"{folder}/prepare.py", "python", more=makes)
    page.run()
    assert Path(page.said.splitlines()[-1]).read_text() == "{}\n" * 50


def see_runs(page: Page) -> None:
    """Servers come and end; `tests/browser` opens the pages in a browser."""
    record = worlds.finished(page)
    page.write("results/empty", "")
    page.replaced |= {port: worlds.free_port() for port in ("8123", "8124", "8125")}
    for _ in range(3):
        page.serve("/?key=")
    page.run()
    assert record["gym_job_id"] in (page.folder / "report" / "index.html").read_text()
    assert "written to" in page.said


def shape_questions(page: Page) -> None:
    """Each fragment makes a benchmark of rows that fit it; a server reads sums out of what it is asked."""
    worlds.model_server(page)
    row = {"question": "3 + 4?", "expected_answer": "7"}
    lines = json.dumps(row) + "\n"
    grades: dict[str, Any] = {"verifier": {"type": "match", "mode": "numeric"}}
    page.run()
    assert "task 1: POST /chat/completions" in page.said
    page.write("mine/benchmarks/table/data/questions.csv", "question,expected_answer\n3 + 4?,7\n")
    benchmark(page, page.yaml(), "table", **grades)
    assert "100.0%" in page.said
    page.write("mine/benchmarks/hub/data/gsm8k/test.jsonl", lines)
    fragment = page.yaml()
    fragment["benchmark"]["datasets"]["benchmark"]["jsonl_fpath"] = None
    benchmark(page, fragment, "hub", **grades)
    assert "100.0%" in page.said
    renamed = json.dumps({"prompt": "3 + 4?", "gold": {"value": "7"}}) + "\n"
    benchmark(page, page.yaml(), "renamed", rows=renamed, **grades)
    assert "100.0%" in page.said
    lists = {"question": "3 + 4?", "possible_answers": '["7", "7.0"]'}
    lists["messages"] = "[{'role': 'user', 'content': '3 + 4?'}]"
    parsed = page.yaml()
    parsed["benchmark"]["prompt"] = {"user": None, "conversation": "messages"}
    benchmark(page, parsed, "parsed", rows=json.dumps(lists), **grades)
    assert "100.0%" in page.said
    ending = page.yaml()
    benchmark(page, ending, "ending", rows=json.dumps({"ctx": "3 + 4?", "endings": ["7", "8"], "label": 0}))
    assert "100.0%" in page.said
    apart = {"question": "3 + 4?", "Correct Answer": "7"} | {
        f"Incorrect Answer {n}": f"{n}" for n in (1, 2, 3)
    }
    chosen = {**ending["benchmark"], **page.yaml(), "prompt": {"user": "{question}\n\n{options_text}"}}
    benchmark(page, {"benchmark": chosen}, "apart", rows=json.dumps(apart))
    assert "100.0%" in page.said
    letters = json.dumps({**row, "choices": ["7", "8"], "expected_answer": "A"})
    benchmark(
        page,
        page.yaml(),
        "jinja",
        rows=letters,
        verifier={"type": "match", "mode": "regex", "pattern": "([A-D])$"},
    )
    assert "100.0%" in page.said
    page.write("mine/benchmarks/shots/data/train.jsonl", lines * 3)
    benchmark(page, page.yaml(), "shots", rows=lines, **grades)
    assert "100.0%" in page.said
    grouped = json.dumps({**row, "category": "sums", "level": 1})
    benchmark(page, page.yaml(), "grouped", rows=grouped, **grades)
    assert "category=sums  100.0%" in page.said
    talk = json.dumps({**row, "messages": [{"role": "user", "content": "3 + 4?"}]})
    benchmark(page, page.yaml(), "talk", rows=talk, prompt={"user": None}, **grades)
    assert "100.0%" in page.said
    turns = json.dumps({**row, "turns": ["1 + 1?", "3 + 4?"]})
    benchmark(page, page.yaml(), "turns", rows=turns, prompt={"user": None}, **grades)
    assert "100.0%" in page.said
    page.write("mine/benchmarks/seen/picture.png", "\x89PNG")
    seen = {**row, "picture": "https://e.example/a.png", "tools": [{"type": "function", "name": "add"}]}
    benchmark(page, page.yaml(), "seen", rows=json.dumps(seen), **grades)
    assert "100.0%" in page.said
    place = [{"type": "image"}, {"type": "text", "text": "3 + 4?"}]
    placed = {**row, "images": ["https://e.example/a.png"], "messages": [{"role": "user", "content": place}]}
    benchmark(page, page.yaml(), "placed", rows=json.dumps(placed), prompt={"user": None}, **grades)
    assert "100.0%" in page.said


def add_a_verifier(page: Page) -> None:
    worlds.model_server(page)
    page.environ["PYTHONPATH"] = str(page.folder / "installed")
    page.write("installed/my_package/__init__.py", "")
    page.save("installed/my_package/length.py", "python")
    entries = page.next("toml").text
    assert entries.startswith('[project.entry-points."nemo_gym.verifiers"]\n')
    group, _, lines = entries.partition("\n")
    points = f"[{group.split(chr(34))[1]}]\n{lines.replace(chr(34), '')}"
    page.write(
        "installed/my_package-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: my-package\nVersion: 1\n"
    )
    page.write("installed/my_package-1.dist-info/entry_points.txt", points)
    benchmark(page, page.yaml(), "short")
    assert "score      100.0%" in page.said
    agent, refusal, wordy = (page.next("python").text for _ in range(3))
    page.write("installed/my_package/twice.py", agent)
    length = (page.folder / "installed/my_package/length.py").read_text()
    page.write("installed/my_package/length.py", length + refusal + wordy)
    more = "refusal = my_package.length:RefusalVerifier\nwordy = my_package.length:WordyVerifier\n"
    more += "[nemo_gym.agents]\ntwice = my_package.twice:TwiceAgent\n"
    page.write("installed/my_package-1.dist-info/entry_points.txt", points + more)
    benchmark(page, {"agent": {"type": "twice"}, "verifier": {"type": "refusal"}}, "twice")
    assert "score      0.0%" in page.said
    benchmark(page, {"verifier": {"type": "wordy"}}, "wordy")
    assert "metric     longest 9; of the whole run" in page.said


def grade_with_a_judge(page: Page) -> None:
    worlds.model_server(page, models=["tiny"])
    worlds.judge_server(page, "judge-host", "Score: 5", "big")
    worlds.judge_server(page, "other-host", "Score: 2", "other")
    page.save("essays.yaml")
    page.write("essays.jsonl", '{"question": "3 + 4?", "human_score": 5}\n')
    page.run()
    assert "score      100.0%" in page.said
    page.run()
    assert "score      25.0%" in page.said


def run_lm_eval_tasks(page: Page) -> None:
    """Tasks of the reader stand for those whose data would be downloaded; a server says what is right."""
    harness_python()
    server = page.rest.enter_context(AnsweringServer())
    page.environ |= {"XDG_CACHE_HOME": shared_cache(page.folder / "cache"), "HF_HUB_OFFLINE": "1"}
    tasks = page.folder / "my-benchmarks"
    tasks.mkdir()
    local_tasks.write(tasks)
    for name in ("my_task", "gsm8k_of_mine"):
        local_tasks.write_task(tasks, name, local_tasks.TASKS["filters"])
    local_tasks.write_task(tasks, "hellaswag_of_mine", local_tasks.LIKELIHOOD_TASKS["choices"])
    mine = "--include-path my-benchmarks --benchmark lm_eval"
    page.replaced |= {
        "http://127.0.0.1:8000/v1": server.base_url,
        "--model smollm2": "--model m",
        "--model my-model": "--model m",
        "--benchmark lm_eval/gsm8k_cot": f"{mine}/gsm8k_of_mine",
        "--benchmark lm_eval/gsm8k ": f"{mine}/gsm8k_of_mine ",
        "--benchmark lm_eval/hellaswag": f"{mine}/hellaswag_of_mine",
        "/models/my-model": str(tiny_model()),
    }
    page.run()
    assert "lm_eval/gsm8k_cot" in page.said
    assert "exact_match,strict-match" in page.said
    assert page.yaml()["driver"]["benchmarks"]["gsm8k"]["run"]["config_paths"] == ["lm_eval/gsm8k"]
    page.run()
    assert "exact_match,flexible-extract" in page.said
    page.run()
    page.run()
    assert "acc_norm,none" in page.said


def verifiers(page: Page) -> None:
    """Each fragment grades a row that it fits."""
    worlds.model_server(page)
    right = '{"question": "3 + 4?", "expected_answer": "7"}\n'
    fragment = page.yaml()
    page.save("mine/benchmarks/own/grade.py", "python")
    benchmark(page, fragment, "own", rows=right)
    assert "100.0%" in page.said
    worlds.judge_server(page, "judge-host", "Score: 10", "big-model")
    judges = page.yaml()
    benchmark(page, judges, "scored", rows=right)
    assert "100.0%" in page.said
    grades = (page.folder / "own/rollouts.jsonl").read_text()
    page.write("mine/benchmarks/baseline/rollouts.jsonl", grades)
    for name, says, score in (("labelled", "Grade: INCORRECT", "0.0%"), ("pairs", "[[A]]", "50.0%")):
        worlds.judge_server(page, name, says, "big-model")
        judge = {**judges["judge_models"]["judge"], "base_url": page.filled(f"http://{name}:8000/v1")}
        benchmark(page, {"judge_models": {"judge": judge}, "benchmark": page.yaml()}, name, rows=right)
        assert f"score      {score}" in page.said
    problem = json.dumps({**PROBLEMS[0], "question": "3 + 4?"}) + "\n"
    benchmark(page, page.yaml(), "coded", rows=problem)
    assert "score      0.0%" in page.said
    benchmark(page, page.yaml(), "several", rows=right)
    assert "metric     number 1 " in page.said


def verify(page: Page) -> None:
    worlds.finished(page)
    page.run()
    assert "CERTIFIED" in page.said


def compare(page: Page) -> None:
    runs = [worlds.finished(page)["run_dir"], worlds.finished(page, answer="wrong")["run_dir"]]
    page.replaced |= {
        "runs/gym-job-A": runs[0],
        "runs/gym-job-B": runs[1],
        "results-a": f"{runs[0]}/gpqa/artifacts",
        "results-b": f"{runs[1]}/gpqa/artifacts",
        "gym job results leaderboard": f"gym job results {Path(runs[0]).parent}",
    }
    page.run()
    assert "-100.0" in page.said
    page.run()
    assert "against the first" in page.said
    page.run()
    assert "RESPONSES_CREATE_PARAMS.TEMPERATURE" in page.said
    page.run()
    assert f"{runs[0]}/gpqa/artifacts" in page.said


def complete_in_the_shell(page: Page) -> None:
    page.run()


def export_results(page: Page) -> None:
    run = worlds.submit(page, worlds.submission("arithmetic"))
    page.type(f"gym job watch {run['gym_job_id']}")
    page.replaced |= {
        "results/rollouts.jsonl": f"{run['run_dir']}/arithmetic/artifacts/rollouts.jsonl",
        "~/my-env/bin/python": str(engine_python("trackers")),
    }
    page.run()
    assert page.said.rstrip().endswith("-model-card")
    page.run()
    assert page.said.rstrip().endswith("-mlflow")
    fragment = merged(yaml.safe_load(BENCHMARK.format(name="secret")), page.yaml())
    fragment["benchmark"]["verifier"] = {"type": "match"}
    assert BenchmarkConfig.model_validate(fragment["benchmark"]).unpublished
    page.run()
    assert page.said.rstrip().endswith("/report.html")


def benchmarks(page: Page) -> None:
    """Local data sets stand for the hub's, and a category of sixteen rows for four hundred."""
    worlds.model_server(page)
    bfcl_python()
    page.environ |= {"XDG_CACHE_HOME": shared_cache(page.folder / "cache")}
    page.write("gsm8k/main/test.jsonl", SOLUTIONS)
    problem = {"problem": "3 + 4?", "level": "Level 1", "solution": "It is \\boxed{7}."}
    for subject in ("algebra", "counting_and_probability", "geometry", "intermediate_algebra"):
        page.write(f"math/{subject}/test.jsonl", json.dumps(problem) + "\n")
    for subject in ("number_theory", "prealgebra", "precalculus"):
        page.write(f"math/{subject}/test.jsonl", json.dumps(problem) + "\n")
    local = f"benchmark.datasets.benchmark.huggingface.path={page.folder}/gsm8k"
    page.replaced |= {
        "--benchmark gsm8k --model": f"--benchmark gsm8k {local} --model",
        "/data/gsm8k": f"{page.folder}/gsm8k",
        "/data/hendrycks_math": f"{page.folder}/math",
        "[simple_python,multi_turn_base]": "[live_relevance]",
    }
    page.run()
    assert "100.0%" in page.said
    page.run()
    assert page.said.rstrip().endswith(".jsonl")
    path, digest = wheel(page.folder, PROBLEMS)
    page.replaced[f"/data/{path.name}"] = f"{path} +prepare_script_args.sha256={digest}"
    rows = f"+prepare_script_args.source={path} +prepare_script_args.sha256={digest}"
    page.replaced["--benchmark humaneval --model"] = f"--benchmark humaneval {rows} --model"
    page.run()
    page.run()
    assert "pass@10" in page.said
    page.run()
    assert "category=live_relevance" in page.said


def read_rollouts(page: Page) -> None:
    run = worlds.finished(page, answer="wrong")["run_dir"]
    page.replaced |= {
        "results/rollouts.jsonl": f"{run}/gpqa/artifacts/rollouts.jsonl",
        "--task 3": "--task 1",
    }
    page.run()
    assert '"outcome": "wrong"' in page.said
    page.serve("http://127.0.0.1:")


def operate_runs(page: Page) -> None:
    page.replaced["--all"] = "--all --yes"
    worlds.finished(page)
    page.run()
    assert "succeeded" in page.said
    page.run()
    page.run()
    record = worlds.at_work(page)
    wishes = itertools.count()

    def work(line: str) -> None:
        if next(wishes):  # what the first command ended is at work again
            page.type(f"gym job resubmit {record['gym_job_id']} gpqa")

    page.run(each=work)

    def end(_line: str) -> None:
        page.type("gym job cancel latest --all --yes")

    page.run(each=end)
    end("")
    page.run()
    assert "nothing to delete" in page.said
    page.run()


def in_parts(page: Page, whole: dict[str, Any]) -> None:
    """The same submission, whose cluster is a file of its own."""
    page.save("parts.yaml")
    shared = {**whole, "driver": {"policy_model": whole["driver"]["policy_model"]}}
    page.write("cluster.yaml", yaml.safe_dump(shared))
    page.type("gym eval submit -c parts.yaml --resolve-only")
    assert yaml.safe_load(page.said)["driver"]["policy_model"] == whole["driver"]["policy_model"]


def submit(page: Page) -> None:
    page.environ |= {"HF_TOKEN": "hf_secret", "SCRATCH": "/scratch"}
    page.replaced |= {"num_tasks: 40": "num_tasks: 4", "--all": "--all --yes"}
    page.save("submit.yaml")
    whole = yaml.safe_load((page.folder / "submit.yaml").read_text())
    page.run()
    assert "4/4" in page.said
    in_parts(page, whole)
    page.run()
    several_models(page, whole)
    page.write("submit.yaml", yaml.safe_dump(merged(whole, page.yaml())))
    page.type("gym eval submit -c submit.yaml --dry-run")
    assert "hf_secret" not in page.said
    assert "<host:HF_TOKEN>" in page.said
    page.write("submit.yaml", yaml.safe_dump(whole))
    page.run()
    assert "gym_job_id,benchmark," in page.said
    worlds.at_work(page, "arithmetic")
    page.run()
    record = worlds.at_work(page, "arithmetic")
    job_id = record["benchmarks"][0]["job_id"]
    page.replaced |= {
        "<gym_job_id>": record["gym_job_id"],
        "<benchmark>": "arithmetic",
        "<job id>": job_id,
    }
    page.run()
    page.type(f"gym job watch {record['gym_job_id']} --exit-status")
    assert "stopped" in page.said


def several_models(page: Page, whole: dict[str, Any]) -> None:
    """With the services that the page's models name."""
    page.environ["HOSTED_KEY"] = "hosted_secret"
    one = whole["services"]["model"]
    vllm = {"type": "vllm", "model": "/ckpt/base"}
    base = {**whole, "driver": {"benchmarks": whole["driver"]["benchmarks"]}}
    base["services"] = {"small": one, "trained": vllm}
    page.write("submit.yaml", yaml.safe_dump(merged(base, page.yaml())))
    page.type("gym eval submit -c submit.yaml --dry-run")
    assert "tuned-2000: arithmetic (service trained serves /ckpt/step-2000)" in page.said
    assert "hosted_secret" not in page.said
    base |= {"services": {"small": one, "large": vllm}, "compute": {}}
    page.write("submit.yaml", yaml.safe_dump(merged(base, page.yaml())))
    page.type("gym eval submit -c submit.yaml --resolve-only")
    assert "output_path: /scratch/ada/runs" in page.said


def run_and_resume(page: Page) -> None:
    worlds.model_server(page)
    page.environ["MY_KEY"] = "key"
    page.replaced["--benchmark arithmetic --model"] = "--benchmark arithmetic --limit 4 --model"

    def fresh(_line: str) -> None:
        page.type("rm -rf results")

    page.run()
    fresh("")
    page.run()
    fresh("")
    page.run()
    fresh("")
    page.write("questions.csv", "question,answer\n3 + 4?,7\n")
    page.run()
    assert "guessed from 1 row of questions.csv" in page.said
    fresh("")
    page.run()
    fresh("")
    page.type(
        page.filled(
            "gym eval run --benchmark arithmetic --model my-model --output results/rollouts.jsonl "
            "--model-url http://127.0.0.1:8000/v1"
        )
    )
    page.run()
    assert "4 resumed" in page.said
    page.run()
    assert "3 tasks with 1 repeat were planned, now 100 tasks with 2 repeats are" in page.said
    page.run()


def resume_across_jobs(page: Page) -> None:
    base = worlds.submission("arithmetic")
    fragment = page.yaml()
    whole = merged(base, {"driver": {**fragment["driver"], "policy_model": "policy"}})
    page.write("submit.yaml", yaml.safe_dump(whole))
    page.type("gym eval submit -c submit.yaml --resolve-only")
    assert "resume_from_cache: true" in page.said
    tuned = {"driver": {"benchmarks": {"gpqa": page.yaml()}}}
    page.write("submit.yaml", yaml.safe_dump(merged(whole, tuned)))
    page.type("gym eval submit -c submit.yaml --resolve-only")
    assert "max_retries: 5" in page.said


def serve_a_model(page: Page) -> None:
    worlds.own_port(page)
    page.serve("answers at")
    shutil.copy(models.find_model("smollm2").path, page.folder / "tuned.gguf")
    page.replaced["tuned.gguf"] = f"tuned.gguf --port {worlds.free_port()}"
    page.serve("my-tuned-model answers at")
    page.serve("answers at")


def record(page: Page) -> None:
    made = worlds.finished(page)
    page.environ["PYTHONWARNINGS"] = "error"
    page.save("read.py", "python", more="print(record.gym_job_id)\n")
    page.type(f"cp {made['run_dir']}/gym-job.json . && python read.py")
    assert page.said.strip() == made["gym_job_id"]


def evaluate_from_python(page: Page) -> None:
    worlds.model_server(page)
    page.save("evaluate.py", "python")
    page.type("python evaluate.py")
    assert "1.0 (0.3" in page.said
    rest = "".join(page.filled(page.next("python").text) for _ in range(3))
    page.write("evaluate.py", (page.folder / "evaluate.py").read_text().partition("\nfound =")[0] + rest)
    page.type("python evaluate.py")
    assert "2 of 2 grades changed" in page.said
    assert len([line for line in page.said.splitlines() if " complete  100.0% " in line]) == 2


def run_another_harness(page: Page) -> None:
    worlds.model_server(page)
    page.save("theirs/sums.py", "python")
    page.save("theirs/config.yaml")
    page.run()
    assert "metric     reported 1; of the whole run" in page.said
    assert "4 of 4 expected rollouts" in page.said
    assert page.yaml()["benchmark"]["command"]["stop_signal"] == "INT"  # read by a test of the mapping


def your_own_questions(page: Page) -> None:
    worlds.own_port(page)
    page.run()
    page.run()
    assert "task 0: POST /chat/completions" in page.said
    page.run()
    assert "score      " in page.said
    assert (
        "\nquestions task " in page.said or "\nfirst task " in page.said or "no rollout matches" in page.said
    )
    page.run()
    assert "guessed for benchmark.verifier: the right answers are text" in page.said
    written = "benchmarks/trivia/config.yaml"
    whole = yaml.safe_load((page.folder / written).read_text())
    page.write(written, yaml.safe_dump(merged(whole, page.yaml())))
    page.run()
    assert "topic=capitals" in page.said


def agent_with_tools(page: Page) -> None:
    """The model is a server that calls the tools of the page by a script."""
    calls = [["price", {"item": "apples"}]], [["price", {"item": "apple"}], ["price", {"item": "melon"}]]
    worlds.model_server(page, script=[*calls, "It costs 14"])
    folder = "benchmarks/shop"
    page.save(f"{folder}/tools.py", "python")
    page.run()
    whole = yaml.safe_load(page.save(f"{folder}/config.yaml").read_text())
    page.run()
    assert "Look up what one piece costs" in page.said
    page.run()
    assert "6 calls in 6 turns, 2 errors" in page.said
    assert "the shop has no apples; it has apple, pear, melon" in page.said
    coded = merged(whole, page.yaml())
    page.write("benchmarks/coded/questions.jsonl", '{"question": "?", "expected_answer": "14"}\n')
    shutil.copy(page.folder / folder / "tools.py", page.folder / "benchmarks/coded")
    page.write(
        "benchmarks/coded/config.yaml", yaml.safe_dump(merged(coded, {"benchmark": {"name": "coded"}}))
    )
    page.type("gym eval preview --benchmark coded --tasks 1")
    assert "Run a shell command" in page.said
    page.write(f"{folder}/config.yaml", yaml.safe_dump(merged(whole, page.yaml())))
    page.run()
    assert "score      50.0%" in page.said


def agents(page: Page) -> None:
    """The toolset of the page is in a package, and the model rolls its die."""
    load_agent(page.yaml()["agent"])
    worlds.model_server(page, script=[[["roll", {}]], "{result}"])
    page.environ["PYTHONPATH"] = str(page.folder / "installed")
    page.write("installed/my_package/__init__.py", "")
    page.save("installed/my_package/dice.py", "python")
    page.write(
        "installed/my_package-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: my-package\nVersion: 1\n"
    )
    group, _, lines = page.next("toml").text.partition("\n")
    points = f"[{group.split(chr(34))[1]}]\n{lines.replace(chr(34), '')}"
    page.write("installed/my_package-1.dist-info/entry_points.txt", points)
    right = '{"question": "?", "expected_answer": "7"}\n'
    benchmark(page, page.yaml(), "dice", rows=right, verifier={"type": "match"})
    assert "score      100.0%" in page.said


def three_models(page: Page) -> None:
    worlds.few_questions(page)
    page.replaced |= {
        "command: gym serve --model smollm2 --port {port}": "command: "
        + json.dumps(f"{worlds.MOCK} '{json.dumps({'models': ['smollm2']})}'"),
        "num_tasks: 20": "num_tasks: 4",
    }
    page.save("campaign.yaml")
    page.run()
    assert "hot: sums, long-sums, differences, products, choices" in page.said
    page.run()
    rows = [
        line.split() for line in page.said.splitlines() if line.split()[:1] in (["plain"], ["warm"], ["hot"])
    ]
    assert len(rows) == 3
    assert all("100.0" in row for row in rows)
    page.run()
    assert (page.folder / "table.csv").read_text().count("tutorial") == 3
    page.run()


READERS = {
    "README.md": readme,
    "CONTRIBUTING.md": contributing,
    "docs/how-to/add-a-benchmark.md": add_a_benchmark,
    "docs/how-to/add-a-verifier.md": add_a_verifier,
    "docs/how-to/compare.md": compare,
    "docs/how-to/complete-in-the-shell.md": complete_in_the_shell,
    "docs/how-to/evaluate-from-python.md": evaluate_from_python,
    "docs/how-to/export-results.md": export_results,
    "docs/how-to/grade-with-a-judge.md": grade_with_a_judge,
    "docs/how-to/operate-runs.md": operate_runs,
    "docs/how-to/read-rollouts.md": read_rollouts,
    "docs/how-to/resume-across-jobs.md": resume_across_jobs,
    "docs/how-to/run-and-resume.md": run_and_resume,
    "docs/how-to/run-another-harness.md": run_another_harness,
    "docs/how-to/run-lm-eval-tasks.md": run_lm_eval_tasks,
    "docs/how-to/see-runs-in-a-browser.md": see_runs,
    "docs/how-to/serve-a-model.md": serve_a_model,
    "docs/how-to/shape-questions.md": shape_questions,
    "docs/how-to/submit.md": submit,
    "docs/how-to/verify.md": verify,
    "docs/reference/agents.md": agents,
    "docs/reference/benchmarks.md": benchmarks,
    "docs/reference/record.md": record,
    "docs/reference/verifiers.md": verifiers,
    "docs/tutorial/agent-with-tools.md": agent_with_tools,
    "docs/tutorial/demos.md": demos,
    "docs/tutorial/first-evaluation.md": first_evaluation,
    "docs/tutorial/three-models-one-table.md": three_models,
    "docs/tutorial/your-own-questions.md": your_own_questions,
}
"""Page -> how it is followed."""
