"""What trackers are told a job is."""

import pytest
from tests.nemo_helix_server.worlds import DOWNLOAD, TRAINING, UPLOAD, sqlite_world

from nemo_helix_server.trackers.descriptions import describe, training_step, wanted


@pytest.fixture
def world(tmp_path):
    world = sqlite_world(tmp_path)
    yield world
    world.store.close()


def job_of(world, **spec):
    world.create(steps=(DOWNLOAD, TRAINING, UPLOAD), spec=spec)
    return world.job()


def test_names_default_to_the_output_and_the_job(world):
    job = job_of(world, integrations={"mlflow": {}, "wandb": {}}, output={"name": "tuned"})
    assert wanted(job.spec) == ("wandb", "mlflow")
    for tracker in wanted(job.spec):
        told = describe(job, tracker)
        assert (told.project, told.name) == ("tuned", "job-1")


def test_what_is_given_is_told_and_marks_are_added(world):
    given = {"experiment_name": "e", "name": "n", "description": "d", "tags": {"team": "blue", "job": "mine"}}
    wandb = {"project": "p", "entity": "us", "notes": "d", "tags": ["blue"], "api_key_secret": "key"}
    job = job_of(
        world,
        backend="unsloth",
        model={"name": "hub/model"},
        training={"training_type": "sft"},
        integrations={"mlflow": given, "wandb": wandb},
    )
    told = describe(job, "mlflow")
    assert (told.project, told.name, told.notes) == ("e", "n", "d")
    assert told.tags == {
        "service": "nemo-helix",
        "framework": "unsloth",
        "workspace": "default",
        "job": "mine",
        "task": "sft",
        "model": "hub/model",
        "team": "blue",
    }
    told = describe(job, "wandb")
    assert (told.project, told.entity, told.notes, told.endpoint.secret) == ("p", "us", "d", "key")
    assert told.labels[:2] == ("blue", "service:nemo-helix")


def test_what_is_published_is_the_step_that_can_be_paused(world):
    assert training_step(job_of(world)) == "training"


def test_a_spec_without_integrations_wants_none():
    for spec in ({}, {"integrations": None}, {"integrations": {"wandb": None}}, {"integrations": "x"}):
        assert wanted(spec) == ()


def test_names_of_a_job_that_nobody_checked_are_made_to_fit(world):
    wandb = {"project": "team/summaries?", "name": "n" * 150, "tags": ["t" * 70, " "]}
    mlflow = {"experiment_name": "e" * 600, "tags": {"data@v1": "x" * 9000}}
    job = job_of(world, integrations={"wandb": wandb, "mlflow": mlflow})
    told = describe(job, "wandb")
    assert (told.project, told.name, told.labels[0]) == ("team-summaries-", "n" * 128, "t" * 64)
    assert all(label.strip() for label in told.labels)
    told = describe(job, "mlflow")
    assert (told.project, told.tags["data_v1"]) == ("e" * 500, "x" * 8000)
