"""A start takes over from one on a node that was lost, which comes back and goes on where it was stopped.

Nodes are real processes with a hostname and numbers of processes of their own: neither sees the other.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nemo_trainer import trainings
from tests.nemo_trainer.stopping import POINTS

from nemo_runs.processes import trees
from nemo_trainer import contract
from nemo_trainer.contract import generations

pytestmark = pytest.mark.slow
NODE = 'hostname "$0"; "$@"; exit $?'
OPTIONS = ("--steps", "30", "--save-every", "5", "--keep", "2")
ROOT = Path(__file__).parents[2]


def start(
    node: str, folder: Path, number: int, point: str = "-", *, claim: bool = False, **env: str
) -> subprocess.Popen[str]:
    """One start of the step, as the Jobs service makes it: under a task of its own."""
    task = f"task-{number:032x}"
    control = folder.parent / "runs" / task / "control.json"
    control.parent.mkdir(parents=True, exist_ok=True)
    known = {"NEMO_JOB_TASK": task, "NEMO_JOB_CONTROL_FILE": str(control)}
    if claim:
        known["NEMO_JOB_GENERATION"] = str(generations.claim(folder, task=task, by="launcher").number)
    argv = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        argv[1:1] = ["--user", "--map-root-user"]
    argv += ["sh", "-c", NODE, node, sys.executable, "-m", "tests.nemo_trainer.stopping", point]
    environment = trainings.environment(**known, **env)
    environment["PYTHONPATH"] += f":{ROOT}"
    return subprocess.Popen(
        [*argv, "--dir", str(folder), *OPTIONS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def stopped(process: subprocess.Popen[str]) -> int:
    """The number of the training of a node once it has stopped itself."""
    found: list[int] = []

    def is_stopped() -> bool:
        for pid in trees.descendants(process.pid):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue  # a command of the node's setup, which has ended meanwhile
            found[:] = [pid]
            if state == "T":
                return True
        return False

    trainings.eventually(is_stopped, process)
    return found[0]


def finish(process: subprocess.Popen[str], expect: int) -> str:
    out, err = process.communicate(timeout=trainings.TIMEOUT)
    assert process.returncode == expect, (process.returncode, out, err)
    return err


def what_counts(folder: Path) -> dict[str, object]:
    """All that readers get of a training; dates and who wrote it left out."""
    said = contract.read_progress(folder / "progress.json")
    found = contract.list_checkpoints(folder)
    return {
        "rows": [(row.step, dict(row.values)) for row in contract.history(folder / "metrics.jsonl")],
        "checkpoints": [(item.step, (item.folder / "state.json").read_text()) for item in found],
        "problems": [problem for item in found for problem in contract.verify(item.folder, deep=True)],
        "progress": [said.get(name) for name in ("phase", "step", "final_step", "percentage_done")],
        "outputs": list(contract.verify_outputs(folder, storage=folder, deep=True)),
        "weights": trainings.weights(folder),
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed") / "training"
    trainings.run(folder, *OPTIONS)
    return what_counts(folder)


@pytest.fixture
def running():
    """What is started here is ended here."""
    processes: list[subprocess.Popen[str]] = []
    yield lambda process: processes.append(process) or process
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("point", "env"),
    [
        *((point, {}) for point in POINTS),
        ("before-the-rename-of-a-folder", {"NO_LINKS": "1"}),
        ("before-the-rename-of-a-folder", {"CLOCK": "7200"}),
    ],
)
def test_a_process_that_was_replaced_changes_nothing_and_ends_with_one_line(
    tmp_path, undisturbed, running, point, env
):
    folder = tmp_path / "training"
    late = running(start("n1", folder, 1, point, **env))
    pid = stopped(late)
    finish(running(start("n2", folder, 2, **{**env, "CLOCK": "-7200"})), 0)
    assert what_counts(folder) == undisturbed
    os.kill(pid, signal.SIGCONT)
    error = finish(late, 1)
    assert error.count("\n") == 1, error
    assert re.search(r"process \d+ on n2 has taken over .* generation 2; this one, generation 1, ends", error)
    assert what_counts(folder) == undisturbed
    assert [one.number for one in generations.lineage(folder)] in ([2], [2, 1])
    assert contract.read_progress(folder / "progress.json")["generation"] == 2


def test_both_go_on_at_once_and_only_one_is_read(tmp_path, undisturbed, running):
    """The old process wakes up while the new one trains."""
    folder = tmp_path / "training"
    late = running(start("n1", folder, 1, "before-the-rename-of-a-folder"))
    pid = stopped(late)
    new = running(start("n2", folder, 2, "before-the-rename"))
    new_pid = stopped(new)
    os.kill(pid, signal.SIGCONT)
    finish(late, 1)
    assert (folder / "checkpoints" / "10").is_dir(), (
        "the old one has published in the gap between look and rename"
    )
    assert [item.step for item in contract.list_checkpoints(folder)] == [5, 10]
    assert {item.manifest.generation for item in contract.list_checkpoints(folder) if item.step == 10} == {2}
    os.kill(new_pid, signal.SIGCONT)
    finish(new, 0)
    assert what_counts(folder) == undisturbed


def test_a_third_start_passes_by_one_that_was_about_to_take_over(tmp_path, undisturbed, running):
    folder = tmp_path / "training"
    first = running(start("n1", folder, 1, "before-a-row"))
    pid = stopped(first)
    second = running(start("n2", folder, 2, "before-its-takeover"))
    second_pid = stopped(second)
    third = running(start("n3", folder, 3))
    finish(third, 0)
    for number in (second_pid, pid):
        os.kill(number, signal.SIGCONT)
    for late in (first, second):
        error = finish(late, 1)
        assert error.count("\n") == 1, error
        assert "generation 3" in error
    assert what_counts(folder) == undisturbed


def test_a_node_that_was_killed_is_followed_at_once(tmp_path, undisturbed, running):
    folder = tmp_path / "training"
    lost = running(start("n1", folder, 1, "before-the-rename"))
    os.kill(stopped(lost), signal.SIGKILL)
    lost.communicate()
    finish(running(start("n2", folder, 2)), 0)
    finish(running(start("n2", folder, 3)), 0)
    assert what_counts(folder) == undisturbed
    assert [one.own_names for one in generations.records(folder)] == [False, True, True]


def test_a_claim_of_the_launcher_fences_before_the_next_start_has_begun(tmp_path, undisturbed, running):
    folder = tmp_path / "training"
    late = running(start("n1", folder, 1, "before-a-row", claim=True))
    pid = stopped(late)
    claimed = generations.claim(folder, task=f"task-{2:032x}", by="launcher")
    os.kill(pid, signal.SIGCONT)
    assert f"the start {claimed.task} has taken over this training as generation 2" in finish(late, 1)
    env = {"NEMO_JOB_GENERATION": "2"}
    finish(running(start("n2", folder, 2, **env)), 0)
    assert what_counts(folder) == undisturbed
    assert [one.number for one in generations.records(folder)] == [1, 2]


def test_a_start_that_comes_late_does_not_take_over(tmp_path, running):
    folder = tmp_path / "training"
    for number in (1, 2):
        generations.claim(folder, task=f"task-{number:032x}", by="launcher")
    before = sorted(folder.rglob("*"))
    error = finish(running(start("n1", folder, 1, NEMO_JOB_GENERATION="1")), 1)
    assert (
        "a later start has taken over this training; this one, generation 1, ends and writes nothing" in error
    )
    assert [path for path in sorted(folder.rglob("*")) if path.name != "checkpoints"] == before


def test_a_training_without_a_service_is_refused_while_a_node_may_still_write(tmp_path, running):
    folder = tmp_path / "training"
    late = running(start("n1", folder, 1, "before-a-row"))
    stopped(late)
    _, _, error = trainings.run(folder, *OPTIONS, expect=1)
    assert re.search(r"process \d+ on n1 trains here, or was ended before it could say that it stops", error)
    assert [one.number for one in generations.records(folder)] == [1]
