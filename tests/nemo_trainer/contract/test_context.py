from pathlib import Path

import pytest

from nemo_trainer.contract import BadSpecError, JobContext


def test_nothing_set_is_a_training_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = JobContext.from_environ({})
    assert context.trainer_path == tmp_path / "training"
    assert context.storage == context.trainer_path
    assert (context.job, context.task, context.rank, context.writes) == ("local", "local", 0, True)
    assert (context.control_file, context.checkpoint, context.step_url) == (None, None, None)


def test_everything_is_read_from_the_environment_of_a_step():
    context = JobContext.from_environ(
        {
            "NEMO_JOB_ID": "job-1",
            "NEMO_JOB_ATTEMPT_ID": "attempt-2",
            "NEMO_JOB_STEP": "train",
            "NEMO_JOB_TASK": "task-3",
            "NEMO_JOB_WORKSPACE": "lab",
            "NEMO_JOB_CONTROL_FILE": "/d/runs/t/control.json",
            "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/d/storage",
            "NEMO_JOB_TRAINER_PATH": "/d/storage/train",
            "NEMO_JOB_CHECKPOINT": "/d/pinned/c",
            "NHX_BASE_URL": "http://127.0.0.1:1/",
            "NHX_ACCESS_TOKEN": "secret",
            "RANK": "3",
        }
    )
    assert context.trainer_path == Path("/d/storage/train")
    assert context.storage == Path("/d/storage")
    assert context.control_file == Path("/d/runs/t/control.json")
    assert context.checkpoint == Path("/d/pinned/c")
    assert (context.attempt, context.rank, context.writes) == ("attempt-2", 3, False)
    assert context.step_url == "http://127.0.0.1:1/apis/jobs/v2/workspaces/lab/jobs/job-1/steps/train"


def test_without_a_trainer_path_it_is_the_steps_folder_in_the_jobs_storage():
    context = JobContext.from_environ(
        {"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/d/storage", "NEMO_JOB_STEP": "tune"}
    )
    assert (context.trainer_path, context.storage) == (Path("/d/storage/tune"), Path("/d/storage"))


def test_a_folder_given_on_the_command_line_wins(tmp_path):
    context = JobContext.from_environ({"NEMO_JOB_TRAINER_PATH": "/d/x"}, folder=tmp_path)
    assert context.trainer_path == context.storage == tmp_path


@pytest.mark.parametrize("rank", ["-1", "one", "1.0", "²"])
def test_a_rank_that_is_no_number_is_said(rank):
    with pytest.raises(BadSpecError, match="RANK is"):
        JobContext.from_environ({"RANK": rank})
