"""Workloads that do odd things to their own files: they end in one way, and nobody else notices."""

import subprocess

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import StatusEvent

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FOLDERS = (
    'RUN=$(dirname "$NEMO_JOB_CONTROL_FILE"); JOB=$(cd "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/.."; pwd); '
    'cd "$NEMO_JOB_TRAINER_PATH"; '
)
MISCHIEF = {
    "pipes for what it should write": "mkfifo metrics.jsonl progress.json; mkdir -p checkpoints/5; "
    "mkfifo checkpoints/5/MANIFEST.json",
    "endless files": "for name in metrics.jsonl progress.json; do ln -s /dev/zero $name; done",
    "a folder for its metrics": "mkdir metrics.jsonl progress.json",
    "numbers and texts that nobody can keep": r"""
printf '{"a":NaN,"b":"\\ud800","c":1%050d,"\\ud800":"\\u0000"}' 0 >progress.json
printf '{"step":1%040d,"time":1,"attempt":"a","values":{"x":1}}\n' 0 >metrics.jsonl
printf '{"step":1,"time":1,"attempt":"a","values":{"\\ud800":1,"y":Infinity}}\n' >>metrics.jsonl
""",
    "files for the folders of its records": 'for name in steps attempts tasks; do rm -rf "$JOB/$name"; '
    'echo >"$JOB/$name"; done; rm -f "$JOB/transitions.jsonl"; mkfifo "$JOB/transitions.jsonl"',
    "no scratch folder": 'rm -rf "$JOB/scratch"; echo >"$JOB/scratch"',
    "a log that is a pipe": 'rm "$RUN/output.jsonl"; mkfifo "$RUN/output.jsonl"; exit 3',
    "no claim": 'rm "$RUN/claim.json"; mkfifo "$RUN/claim.json"; exec sleep 300',
    "no folder for its run": 'rm -rf "$RUN"; exec sleep 300',
    "a file for all its runs": 'rm -rf "$JOB/runs"; echo >"$JOB/runs"; exec sleep 300',
    "no job": 'cd /; rm -rf "$JOB"; exec sleep 300',
}


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data", slots=8).start()
    yield place
    place.close()


def living(token):
    pattern = f"NEMO_JOB_TASK={token}"
    argv = ["sh", "-c", 'grep -lz "^$0$" /proc/[0-9]*/environ', pattern]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("what", MISCHIEF)
def test_a_job_with(place, what):
    job = place.job(shell(f"{FOLDERS}{MISCHIEF[what]}\nsleep 2", name="training", pause=60))
    place.wait_for(lambda: place.get(job).status in {Status.ACTIVE, Status.COMPLETED, Status.ERROR})
    other = place.job(shell("true"))
    place.until(other, Status.COMPLETED)
    place.wait_for(lambda: place.get(job).status in {Status.COMPLETED, Status.ERROR})
    assert living(place.step_of(job).task) == []
    assert place.controller.problems() == []
    with place.store.write() as unit:
        assert unit.statuses.move_job(job, StatusEvent.DELETE_REQUESTED, who="ann", why="asked")
    place.controller.wake()
    place.wait_for(lambda: place.get(job) is None)
    later = place.job(shell("true"))
    record = place.storage.paths("default", later).record
    place.wait_for(lambda: record.exists() and b'"completed"' in record.read_bytes())


def test_names_with_two_dots_are_names(place):
    job = place.job(shell("true", name="a..b"), name="c..d")
    place.until(job, Status.COMPLETED)


def test_a_log_goes_on_where_its_folder_is_gone(tmp_path):
    place = Workplace(tmp_path / "data", profile={"log_bytes": 1 << 16}).start()
    try:
        # a log that nobody reads any more would stop its writer for ever
        script = f'{FOLDERS} rm -rf "$RUN"; i=0; while [ $i -lt 20000 ]; do echo "line $i of many"; '
        script += 'i=$((i+1)); done; echo done >"$JOB/proof"; sleep 300'
        job = place.job(shell(script))
        proof = place.storage.paths("default", job).folder / "proof"
        place.wait_for(lambda: proof.exists() or place.get(job).status is Status.ERROR)
    finally:
        place.close()
