"""The files of jobs on a cluster, whose host is this machine: no scheduler is asked."""

import dataclasses
import hashlib
import json
import sys
import threading
import time
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnections
from nemo_helix_server.executors.slurm.mirror import read_state
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import ClusterSubmission
from nemo_helix_server.jobs.model import CheckpointRow
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_trainer import contract

pytestmark = pytest.mark.services

TOKEN, AFTER = ("task-" + digit * 32 for digit in "ab")


class Site:
    """A service with two clusters; jobs are handed to the one that is chosen."""

    def __init__(self, folder):
        self.jobs = JobStorage(folder / "data")
        self.clusters = [
            ClusterAddress(None, str(folder / name), sys.executable) for name in ("cluster", "other")
        ]
        self.chosen = self.clusters[0]
        connections = ClusterConnections(ClusterSources.of_service())
        self.storage = ClusterRunStorage(self.jobs, connections, lambda _run: self.chosen)

    def run(self, token=TOKEN):
        return StepRun("default", "job-1", "attempt-1", "training", token, "slurm", "gpu/lab")

    def here(self, *parts):
        return self.jobs.of_run(self.run()).storage.joinpath(*parts)

    def there(self, *parts, cluster=0):
        return Path(self.clusters[cluster].root, "jobs", "job-1", "storage", *parts)

    def start(self, token=TOKEN):
        run = self.run(token)
        self.storage.prepare(run, {})
        sent = self.storage.bring_inputs(run)
        ClusterSubmission(address=self.chosen, token=token, name="n", user=None, asked_at=0.0).save(
            self.jobs.run_folder(run)
        )
        return sent

    def look(self, token=TOKEN):
        """What the executor does every few seconds."""
        run, mirror = self.run(token), self.storage.mirror(self.run(token))
        job = self.storage.job(run)
        asked = {"token": token, "run": str(job.run(token)), "trainer": str(job.storage / "training")}
        answer = self.storage.connection(run).look([{**asked, "have": mirror.have()}])
        mirror.apply(answer["runs"][token])


def save(trainer, step, weights=b"w"):
    """A checkpoint, as a trainer leaves it."""
    folder = trainer / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(weights * 100)
    entry = contract.FileEntry("weights.bin", 100, hashlib.sha256(weights * 100).hexdigest())
    manifest = contract.Manifest(
        step=step, files=(entry,), job="job-1", attempt="attempt-1", task=TOKEN, created_at=1.0
    )
    contract.write_manifest(folder, manifest)


def steps(trainer):
    return [one.step for one in contract.list_checkpoints(trainer)]


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.here("model").mkdir(parents=True)
    site.here("model", "weights.bin").write_bytes(b"m" * (2 << 20))
    return site


def test_a_start_finds_the_inputs_and_a_later_one_has_them_sent_no_more(site):
    assert site.start() == 1
    assert site.there("model", "weights.bin").read_bytes() == b"m" * (2 << 20)
    site.look()
    assert site.start(AFTER) == 0


def test_a_trainer_path_of_this_machine_goes_along_and_counts_there_from_then_on(site):
    trainer = site.here("training")
    save(trainer, 20)
    (trainer / "metrics.jsonl").write_text('{"step": 1}\n')
    site.start()
    assert steps(site.there("training")) == [20]
    assert site.there("training", "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert steps(trainer) == []
    site.there("training", "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    save(site.there("training"), 40)
    site.look()
    assert site.start(AFTER) == 0  # what the step has written there is newer than what is here
    assert steps(site.there("training")) == [20, 40]
    assert (trainer / "metrics.jsonl").read_text().count("step") == 2
    assert [one.step for one in site.storage.trainer(site.run()).checkpoints()] == [20, 40]


def test_another_executor_gets_what_was_trained_there(site):
    site.start()
    save(site.there("training"), 20)
    site.there("training", "metrics.jsonl").write_text('{"step": 1}\n')
    site.look()
    with pytest.raises(OSError, match="its checkpoints are fetched from this machine:"):
        site.storage.hand_over(site.run())
    for _ in range(200):
        try:
            site.storage.hand_over(site.run(AFTER))
            break
        except OSError:
            time.sleep(0.05)
    assert steps(site.here("training")) == [20]
    assert contract.verify(site.here("training", "checkpoints", "20"), deep=True) == []
    assert site.here("training", "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert not site.there("training").exists()
    site.storage.hand_over(site.run(AFTER))  # it is here
    # and back again, with what came here meanwhile
    save(site.here("training"), 30)
    site.start(AFTER)
    assert steps(site.there("training")) == [20, 30]


def test_another_cluster_gets_what_was_trained_on_the_first_one(site):
    site.start()
    save(site.there("training"), 20)
    site.look()
    site.chosen = site.clusters[1]
    site.start(AFTER)
    assert steps(site.there("training", cluster=1)) == [20]
    assert not site.there("training").exists()


def test_results_that_are_damaged_on_their_way_are_fetched_again_and_then_said(site):
    site.start()
    site.look()
    trainer, output = site.there("training"), site.there("output_model", "model.bin")
    output.parent.mkdir()
    trainer.mkdir()
    output.write_bytes(b"right")
    document = {
        "schema": 1,
        "task": TOKEN,
        "created_at": 1.0,
        "files": [
            {
                "path": "../output_model/model.bin",
                "size": 5,
                "sha256": hashlib.sha256(b"right").hexdigest(),
            }
        ],
    }
    (trainer / contract.TrainerPaths(trainer).outputs.name).write_text(json.dumps(document))
    site.look()
    site.storage.fetch_outputs(site.run())
    assert site.here("output_model", "model.bin").read_bytes() == b"right"
    assert site.storage.trainer(site.run()).output_problems(deep=True) == []
    output.write_bytes(b"wrong")
    site.here("output_model", "model.bin").unlink()
    site.storage.fetch_outputs(site.run())
    (problem,) = site.storage.trainer(site.run()).output_problems(deep=False)
    assert "model.bin" in problem
    site.look()  # the cluster compares sizes alone, and finds nothing wrong
    assert site.storage.trainer(site.run()).output_problems(deep=False) == [problem]
    # results that are other ones are judged by themselves
    (trainer / contract.TrainerPaths(trainer).outputs.name).write_text(
        json.dumps(document | {"created_at": 2.0})
    )
    site.look()
    assert site.storage.trainer(site.run()).output_problems(deep=False) == []
    output.write_bytes(b"right")
    site.storage.fetch_outputs(site.run())
    assert site.storage.trainer(site.run()).output_problems(deep=False) == []


def test_what_a_look_brings_takes_nothing_away_from_a_start_in_another_thread(site):
    site.start()
    save(site.there("training"), 20)
    address = read_state(site.storage.mirror(site.run()).state).address

    def look():
        for _ in range(40):
            site.storage.mirror(site.run())._write_state(
                {"outputs": None, "listed": "", "checkpoints": [], "bytes": 1}
            )

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        site.storage.mirror(site.run()).belongs_to(address)
    for thread in threads:
        thread.join()
    assert read_state(site.storage.mirror(site.run()).state).address == address


def test_nothing_is_a_new_checkpoint_but_a_checkpoint(site):
    site.start()
    save(site.there("training"), 20)
    site.look()
    before = site.storage.trainer(site.run()).checkpoints_mark()
    site.there("training", "cache").mkdir()
    site.there("training", "cache", "large").write_bytes(b"x" * 100_000)
    site.look()
    assert before
    assert site.storage.trainer(site.run()).checkpoints_mark() == before
    save(site.there("training"), 40)
    site.look()
    assert site.storage.trainer(site.run()).checkpoints_mark() != before


def test_a_storage_that_is_closed_fetches_no_more_checkpoints(site):
    site.start()
    save(site.there("training"), 20)
    site.look()
    site.storage.close()
    with pytest.raises(RuntimeError, match="no work is taken any more"):
        site.storage.hand_over(site.run())


def test_what_it_takes_on_clusters_is_shown_and_given_back(site):
    site.start()
    save(site.there("training"), 20)
    site.look()
    assert site.storage.size("default", "job-1") >= 2 << 20
    site.storage.reclaim("default", "job-1")
    assert not site.there().exists()
    site.storage.discard("default", "job-1")
    assert not site.there().parent.exists()


def row_of(files):
    """The one checkpoint of a trainer path, as the store has it."""
    (seen,) = files.checkpoints()
    known = dict.fromkeys(CheckpointRow.__dataclass_fields__)
    named = {"id": seen.id, "step": 20, "job_id": "job-1", "workspace": "default", "step_name": "training"}
    return CheckpointRow(**{**known, **named, "attempt_id": "attempt-1", "task": TOKEN})


def test_a_checkpoint_that_is_here_alone_is_named_at_once_and_brought_with_the_other_inputs(site):
    save(site.here("training"), 20)
    row = row_of(LocalTrainerFiles(site.here("training"), site.here()))
    where = Path(site.storage.checkpoint_path(site.run(AFTER), row))
    assert not where.exists()
    site.storage.prepare(site.run(AFTER), {})
    site.storage.bring_checkpoint(site.run(AFTER))
    assert contract.verify(where, deep=True) == []
    site.storage.bring_checkpoint(site.run())  # which starts from none
    assert [path.name for path in where.parent.iterdir()] == [row.id]


def test_a_checkpoint_is_not_looked_for_where_it_was_removed(site):
    """A rerun from its pinned copy would find nothing there."""
    site.start()
    save(site.there("training"), 20)
    site.look()
    row = row_of(site.storage.trainer(site.run()))
    assert site.storage.checkpoint_path(site.run(), row) == str(site.there("training", "checkpoints", "20"))
    row = dataclasses.replace(row, pinned_path=site.storage.pin(row))
    site.storage.reclaim("default", "job-1")
    site.jobs.reclaim(site.jobs.of_run(site.run()))
    where = Path(site.storage.checkpoint_path(site.run(AFTER), row))
    site.storage.bring_checkpoint(site.run(AFTER))
    assert contract.verify(where, deep=True) == []


def test_a_link_of_a_step_to_the_services_keys_is_not_sent(site):
    (site.jobs.data_dir / "step-tokens.key").write_text("key")
    filesets = site.jobs.data_dir / "filesets"
    filesets.mkdir()
    (filesets / "data.jsonl").write_text("{}")
    site.here("key").symlink_to(site.jobs.data_dir / "step-tokens.key")
    site.here("data.jsonl").symlink_to(filesets / "data.jsonl")
    site.start()
    assert not site.there("key").exists()
    assert site.there("data.jsonl").read_text() == "{}"
