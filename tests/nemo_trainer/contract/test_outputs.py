import json

import pytest

from nemo_trainer.contract import JobContext, TrainerError, read_outputs, verify_outputs
from nemo_trainer.holding import record_outputs


@pytest.fixture
def context(tmp_path):
    storage = tmp_path / "storage"
    trainer_path = storage / "train"
    trainer_path.mkdir(parents=True)
    return JobContext(trainer_path=trainer_path, storage=storage, task="task-1")


def check(context):
    return verify_outputs(context.trainer_path, storage=context.storage, deep=True)


def test_outputs_inside_the_jobs_storage_verify(context):
    (context.trainer_path / "model" / "deep").mkdir(parents=True)
    (context.trainer_path / "model" / "deep" / "a").write_bytes(b"1")
    (context.storage / "base").write_bytes(b"22")
    record_outputs(context, [context.trainer_path / "model", context.storage / "base"])
    outputs = read_outputs(context.trainer_path)
    assert [(entry.path, entry.size) for entry in outputs.files] == [("../base", 2), ("model/deep/a", 1)]
    assert outputs.task == "task-1"
    assert check(context) == []
    (context.storage / "base").write_bytes(b"23")
    assert len(check(context)) == 1


def test_a_missing_record_says_that_the_step_must_run(context):
    assert read_outputs(context.trainer_path) is None
    assert "has not said" in check(context)[0]


def test_what_lies_outside_is_neither_recorded_nor_looked_at(context, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"1")
    with pytest.raises(TrainerError, match="outside the job's storage"):
        record_outputs(context, [outside])
    with pytest.raises(TrainerError, match="is missing"):
        record_outputs(context, [context.trainer_path / "none"])
    record = {
        "schema": 1,
        "task": "t",
        "created_at": 1,
        "files": [{"path": "../../outside", "size": 1, "sha256": ""}],
    }
    context.paths.outputs.write_text(json.dumps(record))
    assert "leads out" in check(context)[0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 9}'])
def test_a_damaged_record_is_a_problem(context, text):
    context.paths.outputs.write_text(text)
    assert "is damaged" in check(context)[0]
