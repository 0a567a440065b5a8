"""Lines of JSON in, lines of JSON out: ``{"id": 1, "op": "grade", …}`` is answered by ``{"id": 1, "ok": …}``.

Where something is wrong the answer is ``{"id": 1, "error": KIND, "message": SENTENCE}``; the process goes on.
It ends when its input does. What tasks print goes to stderr.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nemo_gym.harness.worker import building, definitions, grading, nltk_data
from nemo_gym.harness.worker.definitions import CannotRunError, NoSuchNameError, NoTokenizerError
from nemo_gym.harness.worker.requests import lines_while_asked


class OpenTask:
    """One name of a task, opened; its tasks are made when they are needed."""

    def __init__(self) -> None:
        self._loaded: definitions.Loaded | None = None
        self._settings = building.Settings()
        self._repeats: int | None = None
        self._graders: dict[str, grading.TaskGrader] | None = None
        self._answers = grading.AnswersToAdd()

    def names(self, include_path: list[str], *, shipped: bool) -> list[dict[str, Any]]:
        """The names of lm-eval's own tasks, or of a user's."""
        if shipped:
            return definitions.make_index()
        return definitions.own_names([Path(folder) for folder in include_path])

    def open(
        self,
        task: str,
        include_path: list[str],
        index: str | None,
        settings: Mapping[str, Any],
        repeats: int | None,
    ) -> dict[str, Any]:
        """Read definitions. ``{"needs_index": true}`` where lm-eval's own names are needed first."""
        shipped = None if index is None else json.loads(Path(index).read_text(encoding="utf-8"))
        loaded = definitions.load(task, [Path(folder) for folder in include_path], shipped)
        if loaded is None:
            return {"needs_index": True}
        definitions.refuse_unsupported(loaded)
        self._loaded, self._settings = loaded, building.Settings(**settings)
        self._repeats, self._graders = repeats, None
        return {
            "version": version("lm-eval"),
            "tasks": list(loaded.definitions),
            "files": definitions.files_of(loaded),
            "data": definitions.data_files(loaded),
            "downloads": definitions.downloads(loaded),
            "nltk": nltk_data.missing(),
        }

    def rows(self, output: str) -> dict[str, Any]:
        """Write the rows of all tasks into a file, once what they want of NLTK's data is there."""
        loaded = self._opened()
        nltk = nltk_data.bring()
        tasks = building.make_tasks(loaded, self._settings)
        count = 0
        with Path(output).open("w", encoding="utf-8") as file:
            for row in building.rows(tasks, self._settings):
                text = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
                _written(lambda text=text: file.write(text), output)  # type: ignore[misc]
                count += 1
            _written(file.flush, output)
        repeats = building.repeats_of(tasks)
        return {"rows": count, "repeats": repeats, "versions": self._versions(tasks), "nltk": nltk}

    def grade(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Grade answers: for each its grade, or under ``problem`` why there is none."""
        return [self._grade(**row) for row in rows]

    def _grade(self, task: str, doc_id: int, doc_hash: str, answer: grading.Said) -> dict[str, Any]:
        try:
            grader = self._grader(task)
            grader.check(doc_id, doc_hash)
            return grader.grade(doc_id, answer)
        except CannotRunError as error:
            return {"problem": str(error)}
        except Exception as error:  # noqa: BLE001 - tasks are code of others
            traceback.print_exc()
            return {"problem": definitions.said(error)}

    def answers(self, rows: list[tuple[str, int, int, grading.Said]]) -> None:
        """Take answers that will be added up."""
        self._answers.add(rows)

    def results(self, bootstrap_iters: int) -> dict[str, Any]:
        """Add up what was taken."""
        found = grading.results(self._opened(), self._all_graders(), self._answers, bootstrap_iters)
        self._answers = grading.AnswersToAdd()
        return found

    @staticmethod
    def _versions(tasks: Mapping[str, Any]) -> dict[str, Any]:
        return {name: building.plain(task.VERSION) for name, task in tasks.items()}

    def _opened(self) -> definitions.Loaded:
        if self._loaded is None:
            raise CannotRunError("no task is open")
        return self._loaded

    def _all_graders(self) -> dict[str, grading.TaskGrader]:
        if self._graders is None:
            tasks = building.make_tasks(self._opened(), self._settings)
            repeats = self._repeats if self._repeats is not None else building.repeats_of(tasks)
            self._graders = {name: grading.TaskGrader(name, task, repeats) for name, task in tasks.items()}
        return self._graders

    def _grader(self, task: str) -> grading.TaskGrader:
        graders = self._all_graders()
        if task not in graders:
            raise CannotRunError(f"its rows are of a task {task}, which it does not have any more")
        return graders[task]


def _written(write: Callable[[], object], path: str) -> None:
    try:
        write()
    except OSError as error:
        raise CannotRunError(f"its rows cannot be written to {path} ({error.strerror})") from None


def serve(lines: Iterable[str], write: Callable[[str], object]) -> None:
    """Answer requests until there are no more."""
    session = OpenTask()
    operations = {
        name: getattr(session, name) for name in ("names", "open", "rows", "grade", "answers", "results")
    }
    for line in lines:
        request = json.loads(line)
        number, name = request.pop("id"), request.pop("op")
        try:
            answer: dict[str, Any] = {"id": number, "ok": operations[name](**request)}
        except NoSuchNameError as error:
            answer = {"id": number, "error": "unknown", "message": str(error)}
        except NoTokenizerError as error:
            answer = {"id": number, "error": "no_tokenizer", "message": str(error)}
        except CannotRunError as error:
            answer = {"id": number, "error": "refused", "message": str(error)}
        except Exception as error:  # noqa: BLE001 - tasks are code of others
            traceback.print_exc()
            answer = {"id": number, "error": "failed", "message": definitions.said(error)}
        write(json.dumps(answer, ensure_ascii=False))


def main() -> None:
    """Take the stream of answers for ourselves: what anything else prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)

    def write(text: str) -> None:
        answers.write(text + "\n")
        answers.flush()

    serve(lines_while_asked(), write)


if __name__ == "__main__":
    main()
