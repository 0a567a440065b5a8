"""Run lm-eval's own loop with the answers of `answering.answer`; in the interpreter that has lm-eval.

python theirs.py FOLDER JOBS OUTPUT      JOBS is JSON: [{"task": NAME, "chat": true, …}, …]
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

from lm_eval import evaluator, utils
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

spec = importlib.util.spec_from_file_location("answering", Path(__file__).with_name("answering.py"))
answering = importlib.util.module_from_spec(spec)
spec.loader.exec_module(answering)


class StandIn(LM):
    """Says the same as the server does."""

    def __init__(self):
        super().__init__()
        self._asked = Counter()

    def generate_until(self, requests, **_how):
        found = []
        for request in requests:
            found.append(answering.answer(request.args[0], self._asked[id(request)]))
            self._asked[id(request)] += 1
        return found

    def loglikelihood(self, requests, **_how):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def apply_chat_template(self, messages, add_generation_prompt=True):
        return json.dumps(messages)

    @property
    def tokenizer_name(self):
        return ""


def main():
    folder, jobs, output = sys.argv[1:]
    manager = TaskManager(include_path=folder, include_defaults=False)
    found = {}
    for job in json.loads(jobs):
        name, chat = job.pop("task"), job.pop("chat")
        done = evaluator.simple_evaluate(
            model=StandIn(),
            tasks=[name],
            task_manager=manager,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
            log_samples=True,
            bootstrap_iters=1000,
            **job,
        )
        found[name] = {key: done[key] for key in ("results", "samples", "versions")}
    Path(output).write_text(json.dumps(found, default=utils.handle_non_serializable))


if __name__ == "__main__":
    main()
