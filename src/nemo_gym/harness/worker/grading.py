"""Grades and scores by lm-eval's own functions: filters, metrics, aggregates, standard errors, groups."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.evaluator_utils import _process_results

from nemo_gym.harness.worker.building import doc_hash, plain, until_of
from nemo_gym.harness.worker.definitions import CannotRunError, Loaded

Said = str | list[list[Any]]
"""A text, or for each request of the document its log-likelihood and whether it is greedy."""


class TaskGrader:
    """Grades the answers to one task's documents."""

    def __init__(self, name: str, task: Any, repeats: int) -> None:
        self.name = name
        self.task = task
        self._repeats = repeats
        self._documents: Any = None
        self._until = until_of(task.get_config("generation_kwargs"))

    def document(self, doc_id: int) -> Any:
        """A document by its number."""
        if self._documents is None:
            self._documents = list(self.task.eval_docs)
        return self._documents[doc_id]

    def check(self, doc_id: int, digest: str) -> None:
        """Refuse a document that is not the one that the question was made of."""
        if doc_hash(self.document(doc_id)) != digest:
            raise CannotRunError(f"the data of the task {self.name} changed since its rows were made")

    def instances(self, doc_id: int, answers: Sequence[Said]) -> list[Instance]:
        """The requests of a document with what the model said each time: a text, or likelihoods."""
        meta, document = (self.name, doc_id, self._repeats), self.document(doc_id)
        if isinstance(answers[0], str):
            made = Instance("generate_until", document, ("", {}), 0, metadata=meta)
            made.resps = [self._cut(str(answer)) for answer in answers]
            return [made]
        found = []
        for number in range(len(answers[0])):
            made = Instance("loglikelihood", document, ("", ""), number, metadata=meta)
            made.resps = [self._likelihood(answer[number]) for answer in answers]
            found.append(made)
        return found

    def _likelihood(self, said: Any) -> Any:
        if self.task.OUTPUT_TYPE == "loglikelihood_rolling":
            return said[0]
        return said[0], said[1]

    def _cut(self, answer: str) -> str:
        for text in self._until:
            answer = answer.split(text, 1)[0]
        return answer

    def filtered(self, instances: list[Instance]) -> list[str]:
        """Put answers through the task's filters; the names of these."""
        for ensemble in self.task._filters:
            ensemble.apply(instances)
        return list(instances[0].filtered_resps)

    def grade(self, doc_id: int, answer: Said) -> dict[str, Any]:
        """The metrics of one answer, as though all repeats had given it, by ``metric,filter``."""
        instances = self.instances(doc_id, [answer] * self._repeats)
        found, extracted = {}, {}
        for name in self.filtered(instances):
            values = [instance.filtered_resps[name] for instance in instances]
            metrics = self.task.process_results(instances[0].doc, values)
            found.update({f"{metric},{name}": plain(score) for metric, score in metrics.items()})
            extracted[name] = _one_text(values)
        return {"metrics": found, "extracted": extracted}

    def raw_metrics(self, answers: Mapping[int, Mapping[int, Said]]) -> dict[tuple[str, str], list[Any]]:
        """The metrics of all documents whose repeats are all there, as lm-eval's loop gathers them."""
        whole = [doc_id for doc_id in sorted(answers) if len(answers[doc_id]) == self._repeats]
        each = [
            self.instances(doc_id, [answers[doc_id][k] for k in sorted(answers[doc_id])]) for doc_id in whole
        ]
        found: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for name in self.filtered([instance for instances in each for instance in instances]) if each else ():
            for instances in each:
                values = [instance.filtered_resps[name] for instance in instances]
                for metric, value in self.task.process_results(instances[0].doc, values).items():
                    found[metric, name].append(value)
        return found


def _one_text(value: Any) -> str | None:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value if isinstance(value, str) else None


class AnswersToAdd:
    """All answers of a run, until they are added up."""

    def __init__(self) -> None:
        self._by_task: dict[str, dict[int, dict[int, Said]]] = defaultdict(lambda: defaultdict(dict))

    def add(self, rows: Iterable[tuple[str, int, int, Said]]) -> None:
        """Take answers: task, document, repeat and text of each."""
        for task, doc_id, repeat, text in rows:
            self._by_task[task][doc_id].setdefault(repeat, text)

    def of(self, task: str) -> Mapping[int, Mapping[int, Said]]:
        """The answers to a task's documents."""
        return self._by_task.get(task, {})


def results(
    loaded: Loaded, graders: Mapping[str, TaskGrader], answers: AnswersToAdd, bootstrap_iters: int
) -> dict[str, Any]:
    """What lm-eval reports: results and standard errors of tasks and groups, versions, shots, numbers."""
    gathered = {
        name: {
            "task": grader.task,
            "raw_metrics": grader.raw_metrics(answers.of(name)),
            "logged_samples": [],
        }
        for name, grader in graders.items()
    }
    gathered = {name: found for name, found in gathered.items() if found["raw_metrics"]}
    if not gathered:
        return {"results": {}}
    found = _process_results(gathered, loaded.groups, bootstrap_iters)._to_eval_results()
    kept = ("results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples")
    text = json.dumps(
        {key: found[key] for key in kept if key in found}, default=utils.handle_non_serializable
    )
    made: dict[str, Any] = json.loads(text)
    return made
