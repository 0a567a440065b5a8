"""Runs for W&B and MLflow, read back with those libraries."""

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.engines import engine_python
from tests.nemo_gym.rollouts.export.outputs import exported

from nemo_gym.errors import GymError
from nemo_gym.rollouts.export.trackers import tracker_python, write_tracker

SOURCES = Path(__file__).resolve().parents[4] / "src"
READ_MLFLOW = """
import json, sys
import mlflow
mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}/mlflow.db")
client = mlflow.MlflowClient()
mlflow.set_experiment("gym")
(experiment,) = [one for one in client.search_experiments() if one.name == "gym"]
(run,) = client.search_runs([experiment.experiment_id])
table = mlflow.load_table("rollouts.json", run_ids=[run.info.run_id])
print(json.dumps([run.data.metrics, run.data.params, run.data.tags.get("team"), run.info.run_name,
                  list(table["outcome"]), run.info.status, run.info.start_time, run.info.end_time]))
"""
READ_WANDB = """
import json, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2
from nemo_engines.trackers.wandb_files import records
(path,) = Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")
found = {"summary": {}, "config": {}}
for data in records(path):
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "run":
        found["name"], found["tags"] = record.run.display_name, list(record.run.tags)
        found["config"] |= {item.key: item.value_json for item in record.run.config.update}
    if kind == "summary":
        found["summary"] |= {item.key: item.value_json for item in record.summary.update}
    if kind == "config":
        found["config"] |= {item.key: item.value_json for item in record.config.update}
(table,) = Path(sys.argv[1]).glob("wandb/offline-run-*/files/media/table/*.json")
found["table"] = json.loads(table.read_text())
print(json.dumps(found))
"""


def read(script: str, folder: Path) -> Any:
    argv = [str(engine_python("trackers")), "-c", script, str(folder)]
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_missing_library_is_named_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(GymError, match="the package mlflow is not installed beside gym"):
        tracker_python("mlflow", None)
    with pytest.raises(GymError, match="cannot be started"):
        tracker_python("wandb", tmp_path / "python")


@pytest.mark.slow
@pytest.mark.services
def test_mlflow_reads_its_run(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    python = tracker_python("mlflow", engine_python("trackers"))
    outputs = [exported(tmp_path / "a"), exported(tmp_path / "b", "gpqa")]
    write_tracker("mlflow", outputs, folder, python=python)
    metrics, params, team, name, outcomes, status, *times = read(READ_MLFLOW, folder)
    created_at = datetime.fromisoformat(outputs[0].manifest.created_at).timestamp()
    assert times == [int(1000 * created_at), int(1000 * outputs[1].ended_at)]
    assert (metrics["sums/score"], metrics["gpqa/score"], team) == (0.5, 0.5, "a")
    assert params["sums.responses_create_params.temperature"] == "0.5"
    assert (name, status) == ("gym-job-20261129T000000Z-00000a", "FINISHED")
    assert outcomes == ["right", "wrong", "wrong", "right", "partly right", "failed"]


@pytest.mark.slow
@pytest.mark.services
def test_wandb_reads_its_run(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    python = tracker_python("wandb", engine_python("trackers"))
    write_tracker("wandb", [exported(tmp_path / "a")], folder, python=python)
    found = read(READ_WANDB, folder)
    assert (found["name"], found["tags"]) == ("gym-job-20261129T000000Z-00000a", ["team=a"])
    assert json.loads(found["summary"]["sums/score"]) == 0.5
    assert json.loads(found["config"]["responses_create_params.temperature"]) == 0.5
    outcome = found["table"]["columns"].index("outcome")
    assert [row[outcome] for row in found["table"]["data"]][:2] == ["right", "wrong"]
