"""What a completed job says of the model that it has made."""

from __future__ import annotations

import pytest

from nemo_helix_plugin.job_words import job_state, trained_models

JOB = {
    "name": "rl-1",
    "workspace": "lab",
    "source": "customization",
    "status": "completed",
    "spec": {"output": {"name": "sums", "fileset": "sums-1"}},
}


def test_a_completed_job_names_its_model_and_what_can_be_done_with_it():
    assert trained_models.trained_model(JOB) == "lab/sums"
    commands = trained_models.model_commands(JOB)
    assert [command.split()[:3] for command in commands[:4]] == [
        ["nemo", "models", verb] for verb in ("chat", "serve", "export", "push")
    ]
    assert all("sums" in command and "lab" in command for command in commands)
    assert job_state.how_it_goes_on(JOB) == f"`{commands[0]}` talks to its model"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "active"},
        {"status": "error"},
        {"source": "platform"},
        {"spec": None},
        {"spec": {"output": "sums"}},
        {"spec": {"output": {"name": None}}},
    ],
)
def test_others_have_no_model(changes):
    assert trained_models.trained_model({**JOB, **changes}) == ""
    assert trained_models.model_commands({**JOB, **changes}) == []
