"""What trackers say about runs, asked from outside of the service."""

import json
import subprocess
import urllib.request

from tests.engines import engine_environ

READ_WANDB = """
import json, sys
from pathlib import Path
from nemo_engines.trackers import wandb_files
folder, run = Path(sys.argv[1]), sys.argv[2]
files = wandb_files.files_of(folder, run)
steps = [step for file in files for step in wandb_files.steps(file)]
print(json.dumps({"folders": len(files), "steps": steps}))
"""


class Mlflow:
    """An MLflow server's REST interface."""

    def __init__(self, address):
        self.address = address

    def ask(self, method, path, **values):
        url = f"{self.address}/api/2.0/mlflow/{path}"
        data = None
        if method == "GET":
            url += "?" + "&".join(f"{name}={value}" for name, value in values.items())
        else:
            data = json.dumps(values).encode()
        request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def runs(self, experiment):
        found = self.ask("POST", "experiments/search", max_results=1000).get("experiments", [])
        ids = [one["experiment_id"] for one in found if one["name"] == experiment]
        if not ids:
            return []
        return self.ask("POST", "runs/search", experiment_ids=ids).get("runs", [])

    def steps(self, run, metric="train_loss"):
        found = self.ask(
            "GET", "metrics/get-history", run_id=run["info"]["run_id"], metric_key=metric, max_results=1000
        )
        return [int(point.get("step", 0)) for point in found.get("metrics", [])]


def tags(run):
    return {tag["key"]: tag["value"] for tag in run["data"]["tags"]}


def wandb_offline(python, folder, run_id):
    """How many folders a run has, and all steps in them, in the order of the folders."""
    argv = [str(python), "-c", READ_WANDB, str(folder), run_id]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=engine_environ(), timeout=180)
    return json.loads(done.stdout)
