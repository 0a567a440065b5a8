"""What the service reads of a training that went on while processes of an earlier start may still write."""

import dataclasses
import json

import pytest

from nemo_helix_server.storage import start_remains
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_runs.processes import trees
from nemo_trainer import contract, publishing
from nemo_trainer.contract import JobContext, generations
from nemo_trainer.session import Session

OLD, NEW = "task-" + "1" * 32, "task-" + "2" * 32
ELSEWHERE = dataclasses.replace(trees.identify(), host="node7.example", boot_id="another", pid=1234)


@pytest.fixture
def trainer_path(tmp_path):
    """The old start has finished step 6 and lost its node; the new one went on from step 4 and has done 5."""
    folder = tmp_path / "storage" / "training"
    for task in (OLD, NEW):
        claimed = generations.claim(folder, task=task)
        context = JobContext(trainer_path=folder, storage=folder.parent, task=task, generation=claimed.number)
        with Session.open(context) as session:
            begun = session.restore()
            for step in range(begun.step + 1 if begun else 1, 6 if begun else 7):
                session.metrics(step, {"loss": claimed.number + step / 10})
            session.publish(lambda made: (made / "state").write_text("x"), 5 if begun else 4)
            if task == NEW:
                session.outputs([])
                session.finish()
        if task == OLD:
            record = {**ELSEWHERE.to_json(), "generation": 1}
            (folder / "writer.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def trainer(trainer_path):
    return LocalTrainerFiles(trainer_path, trainer_path.parent)


def zombie(folder):
    """The old processes, in the gap between their last look and what they write."""
    row = contract.MetricRow(7, 1.0, "", {"loss": 9.0}, None, 1)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(row.to_line() + b"\n")
    manifest = contract.Manifest(step=7, files=(), task=OLD, generation=1)
    publishing.publish(
        contract.TrainerPaths(folder, 1), lambda made: (made / "state").write_text("late"), manifest
    )
    said = {"task": OLD, "phase": "paused", "step": 7, "final_step": 7, "seq_seen": 5, "generation": 1}
    contract.write_progress(folder / "progress.json", said, durable=False)
    (folder / "OUTPUTS.json").write_text("{")


def seen(trainer):
    return {
        "checkpoints": [(one.step, one.problem) for one in trainer.checkpoints()],
        "progress": trainer.progress(),
        "last step": trainer.last_recorded_step(),
        "rows": trainer.metrics(0).rows,
        "outputs": trainer.output_problems(deep=True),
        "signs of life": trainer.marks(),
        "done": [start_remains.is_done(trainer, task) for task in (OLD, NEW)],
        "saved": [start_remains.has_saved(trainer, task) for task in (OLD, NEW)],
        "goes on from": start_remains.goes_on_from(trainer, "local", None),
    }


def test_what_a_replaced_process_writes_is_not_seen(trainer_path, trainer):
    before = seen(trainer)
    assert before["checkpoints"] == [(4, None), (5, None)]
    assert (before["done"], before["saved"], before["goes on from"]) == ([False, True], [True, True], 5)
    assert before["last step"] == 5
    zombie(trainer_path)
    assert seen(trainer) == before


def test_a_reader_that_was_ahead_reads_again_what_counts(trainer_path, trainer):
    """It has read rows of the old start that were written after the new one had begun with its copy."""
    rows, start, behind, generation = trainer.metrics(1 << 20, generation=0)
    assert (start, generation) == (0, 2)
    assert rows[0] == contract.ContinueRow(0, "", "", 0.0)
    assert trainer.metrics(behind, generation=2).rows == []


def test_a_reader_that_was_behind_goes_on_where_it_was(trainer_path, trainer):
    first = len((trainer_path / "metrics.jsonl").read_bytes().split(b"\n")[0]) + 1
    found = trainer.metrics(first, generation=0)
    assert (found.start, found.generation) == (first, 2)
    assert [row.step for row in found.rows if isinstance(row, contract.MetricRow)] == [2, 3, 4, 5, 6, 5]


def test_a_takeover_alone_is_news_of_the_checkpoints(trainer_path, trainer):
    before = trainer.checkpoints_mark()
    made = generations.claim(trainer_path)
    takeover = generations.Takeover(step=4, file="metrics.g3.jsonl", offset=0, of="metrics.g2.jsonl", after=2)
    generations.record_takeover(trainer_path, made.number, takeover)
    assert trainer.checkpoints_mark() != before
    assert [one.step for one in trainer.checkpoints()] == [4]
