"""What `make demo-train` does, with fewer steps and questions."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests import engines

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
STEPS, TASKS = 12, 4


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    engines.engine_python("unsloth")
    folder = tmp_path_factory.mktemp("demo-train")
    homes = {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    # engines and the unpacked model are kept from one test run to the next
    environ = {**os.environ, **homes, "XDG_CACHE_HOME": engines.shared_cache(folder / "cache")}
    argv = ["--steps", str(STEPS), "--tasks", str(TASKS), "--folder", str(folder / "made")]
    done = subprocess.run(
        [ROOT / "scripts" / "demo-train.sh", *argv],
        capture_output=True,
        text=True,
        env=environ,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder / "made"


def test_the_training_was_paused_and_went_on_to_its_end(demo):
    said, folder = demo
    (job,) = (folder / "service" / "jobs" / "default").iterdir()
    with (job / "transitions.jsonl").open() as stream:
        moves = [json.loads(line) for line in stream]
    ends = [move["to"] for move in moves if move["to"] in ("paused", "completed")]
    assert "paused" in ends
    assert ends[-1] == "completed"
    assert "paused" in said


def test_both_models_were_asked_the_same_and_are_compared(demo):
    said, _ = demo
    for name in ("base", "tuned"):
        assert re.search(rf"arithmetic +complete +[\d.]+% .* {TASKS}/{TASKS} +{name}$", said, re.MULTILINE)
    assert re.search(rf"^arithmetic +[\d.]+% +[\d.]+% .* {TASKS} ", said, re.MULTILINE)
