"""``python -P -m nemo_engines.evaluation.asking ORDER``: the evaluation of a checkpoint, in its own process.

Each answer is stored before the next batch is asked, so that an evaluation that was broken off goes on there.
The process ends with the training that started it: it reads its standard input until that is closed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_engines import fields
from nemo_engines.errors import TrainerError
from nemo_engines.evaluation import material
from nemo_engines.evaluation.material import Questions, Sampling
from nemo_engines.sections import EvaluationPlan
from nemo_gym.rollouts.scores.statistics import ClusterSums, clustered_interval
from nemo_runs.durable.files import RowAppender, repair_tail, replace_file
from nemo_runs.errors import RunsError
from nemo_trainer.contract import verify

if TYPE_CHECKING:
    from nemo_engines.evaluation.answering import Answerer

_ORPHANED: Final = 70


def main(argv: Sequence[str] | None = None) -> None:
    """Evaluate; what came of it, an error too, is in the folder of the order when this ends with 0."""
    threading.Thread(target=_end_with_the_training, name="standard input", daemon=True).start()
    order = json.loads(Path((sys.argv[1:] if argv is None else argv)[0]).read_text(encoding="utf-8"))
    began = time.monotonic()
    try:
        found = _evaluated(order)
    except (TrainerError, RunsError) as error:
        found = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the evaluation's failure
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        found = {"error": f"{type(error).__name__}: {text}"[:1000]}
    known = {name: order[name] for name in ("step", "weights_digest", "device")}
    took = time.monotonic() - began
    into = Path(order["into"])
    document = {**known, **found, "seconds": round(took, 3)}
    replace_file(into / material.RESULT, json.dumps(document, ensure_ascii=False).encode(), mode=None)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_with_the_training() -> None:
    while os.read(0, 4096):
        pass
    os._exit(_ORPHANED)


def _evaluated(order: Mapping[str, Any]) -> dict[str, Any]:
    if problems := verify(Path(order["checkpoint"]), deep=True):
        raise TrainerError(f"the checkpoint cannot be used: {problems[0]}")
    wanted = fields.read(EvaluationPlan, order["evaluation"])
    questions = material.questions(wanted)
    from nemo_engines.evaluation.answering import Answerer  # noqa: PLC0415 - after all that needs no library

    answerer = Answerer(order)
    found = _prompts(answerer, wanted, int(order["seed"]))
    if questions is not None:
        found |= _score(
            answerer, wanted, questions, Path(order["into"]), order["own_answers"], int(order["seed"])
        )
    return found


def _prompts(answerer: Answerer, wanted: EvaluationPlan, seed: int) -> dict[str, Any]:
    if not wanted.prompts:
        return {}
    asked = [[{"role": "user", "content": text}] for text in wanted.prompts]
    made = answerer.answers(asked, Sampling(wanted.max_new_tokens), seed=seed)
    return {"answers": [text for text, _ in made]}


def _score(
    answerer: Answerer, wanted: EvaluationPlan, questions: Questions, into: Path, own: str, seed: int
) -> dict[str, Any]:
    file = into / own
    rewards = _stored(into, file)
    appender = RowAppender(file)
    try:
        for first in range(0, len(questions.rows), wanted.batch_size):
            batch = range(first, min(first + wanted.batch_size, len(questions.rows)))
            if all(index in rewards for index in batch):
                continue
            made = answerer.answers(
                [questions.prompts[index] for index in batch], questions.sampling, seed=seed + first
            )
            texts, cut = [text for text, _ in made], [shortened for _, shortened in made]
            graded = questions.rewards.grade([questions.rows[index] for index in batch], texts, cut=cut)
            for index, text, shortened, reward in zip(batch, texts, cut, graded, strict=True):
                if index in rewards:
                    continue
                row = {"task_index": index, "answer": text, "cut": shortened, "reward": reward}
                appender.append(json.dumps(row, ensure_ascii=False).encode())
                rewards[index] = reward
            appender.sync()
    finally:
        appender.close()
    sums = ClusterSums()
    for index in range(len(questions.rows)):
        sums.add(rewards[index], 1)
    interval = clustered_interval(sums)
    assert interval is not None
    return {
        "score": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "rows": len(questions.rows),
        "method": interval.method,
    }


def _stored(into: Path, file: Path) -> dict[int, float]:
    """The rewards of answers from before: of this file, and of those that earlier starts wrote."""
    repair_tail(file)
    found: dict[int, float] = {}
    for path in sorted(into.glob("answers*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            row = json.loads(line)
            found[int(row["task_index"])] = float(row["reward"])
    return found


if __name__ == "__main__":
    main()
