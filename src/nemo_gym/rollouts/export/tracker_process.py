"""Writes a run of W&B or MLflow to a folder, without a server: a script for an interpreter with one.

Standard input has one JSON document on each line: the head (kind, folder, name, config, metrics, tags,
columns), then the rows, then the end. Without the end the process that writes them was killed, and no run is
written that looks whole. Standard library and the tracker's library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

END = "end"
"""The last line."""


def main() -> None:
    """Read everything and write the run."""
    head = json.loads(sys.stdin.readline())
    rows = read_rows(sys.stdin)
    {"wandb": write_wandb, "mlflow": write_mlflow}[head["kind"]](head, rows)


def read_rows(lines: Iterable[str]) -> Iterator[list[Any]]:
    """The rows up to the end; leaves the program when the lines end before."""
    for line in lines:
        row = json.loads(line)
        if row == END:
            return
        yield row
    sys.exit("the rows ended before their end")


def write_wandb(head: dict[str, Any], rows: Iterator[list[Any]]) -> None:
    """An offline run, which ``wandb sync`` uploads."""
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": head["folder"]}
    import wandb

    settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off", disable_code=True)
    run = wandb.init(
        project=head["project"],
        name=head["name"],
        config=head["config"],
        tags=head["tags"],
        settings=settings,
    )
    table = wandb.Table(columns=head["columns"], allow_mixed_types=True)
    count = 0
    for row in rows:
        table.add_data(*row)
        count += 1
    if count:
        run.log({"rollouts": table, **head["metrics"]})
    run.summary.update(head["metrics"])
    run.finish()


def write_mlflow(head: dict[str, Any], rows: Iterator[list[Any]]) -> None:
    """A run in a store of its own: ``mlflow ui --backend-store-uri sqlite:///<folder>/mlflow.db`` shows."""
    import mlflow

    folder = Path(head["folder"])
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    client = mlflow.MlflowClient()
    experiment = client.create_experiment(head["project"], artifact_location=str(folder / "mlartifacts"))
    run = client.create_run(
        experiment,
        start_time=int(1000 * head["started_at"]),
        run_name=head["name"],
        tags=dict(head["labels"]),
    )
    for name, value in head["config"].items():
        client.log_param(run.info.run_id, name.replace(" ", "_"), str(value)[:6000])
    for name, value in head["metrics"].items():
        client.log_metric(run.info.run_id, name, value)
    columns: dict[str, list[Any]] = {name: [] for name in head["columns"]}
    for row in rows:
        for name, value in zip(head["columns"], row, strict=True):
            columns[name].append(value)
    if any(columns.values()):
        client.log_table(run.info.run_id, columns, "rollouts.json")
    client.set_terminated(run.info.run_id, end_time=int(1000 * head["ended_at"]))


if __name__ == "__main__":
    main()
