"""Names that no tracker takes are refused where they stand, or made to fit."""

import pytest
from pydantic import ValidationError

from nemo_helix_plugin.customization import tracker_names
from nemo_helix_plugin.customization.types.parts import Integrations

LONG = "night-run-" * 15

REFUSED = [
    ({"wandb": {"project": "team/summaries?"}}, "wandb.project", "'/' is not taken by W&B"),
    ({"wandb": {"project": LONG}}, "wandb.project", "at most 128"),
    ({"wandb": {"project": "a:b"}}, "wandb.project", "':' is not taken"),
    ({"wandb": {"project": "a\\b"}}, "wandb.project", "is not taken by W&B"),
    ({"wandb": {"project": "a\nb"}}, "wandb.project", "is not taken by W&B"),
    ({"wandb": {"project": "50%"}}, "wandb.project", "'%' is not taken"),
    ({"wandb": {"project": "  "}}, "wandb.project", "an empty name"),
    ({"wandb": {"entity": "a/b"}}, "wandb.entity", "'/' is not taken by W&B"),
    ({"wandb": {"name": LONG}}, "wandb.name", "at most 128"),
    ({"wandb": {"tags": ["ok", "t" * 65]}}, "wandb.tags.1", "1 to 64"),
    ({"mlflow": {"experiment_name": "e" * 501}}, "mlflow.experiment_name", "at most 500"),
    ({"mlflow": {"experiment_name": " "}}, "mlflow.experiment_name", "an empty name"),
    ({"mlflow": {"name": "n" * 501}}, "mlflow.name", "at most 500"),
    ({"mlflow": {"tags": {"data@v1": "x"}}}, "mlflow.tags", "data@v1"),
    ({"mlflow": {"tags": {"": "x"}}}, "mlflow.tags", "is named by letters"),
    ({"mlflow": {"tags": {"../up": "x"}}}, "mlflow.tags", "read as another path"),
    ({"mlflow": {"tags": {"a//b": "x"}}}, "mlflow.tags", "read as another path"),
    ({"mlflow": {"tags": {"mlflow.runName": "x"}}}, "mlflow.tags", "for itself"),
    ({"mlflow": {"tags": {"t" * 251: "x"}}}, "mlflow.tags", "250"),
    ({"mlflow": {"tags": {"t": "x" * 8001}}}, "mlflow.tags", "8000"),
]


@pytest.mark.parametrize(("given", "where", "words"), REFUSED)
def test_a_name_that_can_never_work_is_refused_by_its_path(given, where, words):
    with pytest.raises(ValidationError) as caught:
        Integrations.model_validate(given)
    error = caught.value.errors()[0]
    assert ".".join(map(str, error["loc"])) == where
    assert words in error["msg"]


def test_what_trackers_take_is_left_as_it_is():
    given = {
        "wandb": {"project": "team summaries-1_x.y", "name": "run / 1?", "tags": ["a:b"], "entity": "team"},
        "mlflow": {
            "experiment_name": "/Users/a@b.c/x",
            "tags": {"data/v1.2 - x:y": "z" * 8000, "größe": ""},
        },
    }
    assert Integrations.model_validate(given).model_dump(exclude_unset=True) == given


@pytest.mark.parametrize("name", ["team/summaries?", LONG, "a:b%c#d\\e", " ", "/" * 300, "a\nb", "ok"])
def test_what_is_not_refused_is_made_to_fit(name):
    for fitted, problem in (
        (tracker_names.fitted_project, tracker_names.project_problem),
        (tracker_names.fitted_run, tracker_names.run_problem),
        (tracker_names.fitted_experiment, tracker_names.experiment_problem),
    ):
        assert problem(fitted(name)) is None
    assert tracker_names.fitted_project("ok") == "ok"
    tags = tracker_names.fitted_tags({name: "x" * 9000, "mlflow.user": "u", "": "e", "..": "d", "ok": "1"})
    assert all(tracker_names.tag_problem(key, value) is None for key, value in tags.items()), tags
    assert tags["ok"] == ("x" * 8000 if name == "ok" else "1") or name == "ok"
