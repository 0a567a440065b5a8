"""What a task of lm-eval costs: by `gym` as `lm_eval/NAME`, as a benchmark of our own, and by lm-eval itself.

The same questions go to `bench/servers/mock_openai.py`, three commands in turns. CPU is that of each command
with all its processes, start and results included; rows are made before (`gym eval prepare`, measured apart),
as they are made once. Limit: 3 times the CPU of our own benchmark (aim: twice); loading lm-eval takes once
what 2,000 questions take. Ends with 1 when it is passed.

    python bench/lm_eval_tasks.py [--items 2000] [--rounds 3] [--without-lm-eval]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tenacity

from nemo_gym.harness import environment

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from collector import server  # noqa: E402 - beside this file

GYM = Path(sys.executable).parent / "gym"
MOST = 3.0
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{expected_answer}}}}"
generation_kwargs: {{until: ["\\n\\n"], do_sample: false, max_gen_toks: 16}}
filter_list:
- name: number
  filter: [{{function: regex, regex_pattern: "(-?[0-9]+)"}}, {{function: take_first}}]
metric_list:
- {{metric: exact_match, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""
OURS = """
benchmark:
  name: sums
  datasets: {{benchmark: {{jsonl_fpath: {data}}}}}
  prompt: {{user: "{{question}}"}}
  verifier: {{type: match, mode: numeric}}
responses_create_params: {{temperature: 0, max_output_tokens: 16}}
"""


@dataclass(frozen=True)
class Cost:
    """One command."""

    seconds: float
    cpu: float
    """Seconds of user and system time, of its processes too."""


def cost(argv: list[str], environ: dict[str, str]) -> Cost:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{argv[:4]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return Cost(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def questions(path: Path, items: int) -> None:
    rng = random.Random(1)
    with path.open("w") as file:
        for _ in range(items):
            first, second = rng.randint(2, 99), rng.randint(2, 99)
            row = {"question": f"What is {first} + {second}?", "expected_answer": str(first + second)}
            file.write(json.dumps(row) + "\n")


def commands(folder: Path, url: str, lm_eval: bool) -> dict[str, list[str]]:
    """The three commands by name; each output is a new one."""
    common = ["--model", "mock", "--model-url", f"{url}/v1", "--concurrency", "64", "-o"]
    own = [str(GYM), "eval", "run", "-c", str(folder / "ours.yaml"), *common]
    task = [str(GYM), "eval", "run", "--benchmark", "lm_eval/sums", "--include-path", str(folder), *common]
    found = {"own benchmark": own, "lm_eval/sums": task}
    if lm_eval:
        python = str(environment.ensure_python(print))
        asked = f"model=mock,base_url={url}/v1/chat/completions,num_concurrent=64,tokenizer_backend=None"
        found["lm-eval"] = [
            *(python, "-m", "lm_eval", "run", "--model", "local-chat-completions", "--model_args", asked),
            *("--tasks", "sums", "--include_path", str(folder), "--apply_chat_template", "--output_path"),
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-lm-eval", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, server(0) as url:
        folder = Path(made)
        data = folder / "sums.jsonl"
        questions(data, options.items)
        (folder / "sums.yaml").write_text(TASK.format(data=data))
        (folder / "ours.yaml").write_text(OURS.format(data=data))
        (folder / "packages").mkdir()
        # lm-eval's API models need a package that its own environment does not have
        (folder / "packages" / "tenacity").symlink_to(Path(tenacity.__file__).parent)
        environ = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "HF_HOME": str(folder / "hf")}
        environ |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder / "packages")}
        prepare = [str(GYM), "eval", "prepare", "--benchmark", "lm_eval/sums", "--include-path", str(folder)]
        once = cost(prepare, environ)
        print(f"rows made once: {once.seconds:.1f} s, {once.cpu:.1f} s of CPU")
        found: dict[str, list[Cost]] = {}
        for number in range(options.rounds):
            for name, argv in commands(folder, url, not options.without_lm_eval).items():
                output = folder / f"{name.replace('/', '-')}-{number}" / "rollouts.jsonl"
                found.setdefault(name, []).append(cost([*argv, str(output)], environ))
    for name, costs in found.items():
        seconds = statistics.median(one.seconds for one in costs)
        cpu = statistics.median(one.cpu for one in costs)
        print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of CPU (medians of {len(costs)})")
    own = statistics.median(one.cpu for one in found["own benchmark"])
    ratio = statistics.median(one.cpu for one in found["lm_eval/sums"]) / own
    print(f"lm_eval/sums takes {ratio:.2f} times the CPU of a benchmark of our own (limit {MOST})")
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
