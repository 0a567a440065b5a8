"""What is said of a body that does not fit."""

import re

import click
import pytest

from nemo_helix_plugin.cli.inputs import validated
from nemo_helix_plugin.customization.types import RlJobInput

DPO = {"type": "dpo", "finetuning_type": "lora"}


@pytest.mark.parametrize(
    ("training", "said"),
    [
        (
            {**DPO, "learning_rat": 1},
            r"^training.learning_rat: there is no such field \(did you mean 'learning_rate'\?\)\.$",
        ),
        ({**DPO, "lora": {"rank": "x"}}, r"^training.lora.rank: "),
        ({**DPO, "lora": {"rnk": 1, "alfa": 1}}, r"^training.lora.rnk: .*; 1 more problem is there\.$"),
    ],
)
def test_a_field_is_named_as_it_stands_in_the_file(training, said):
    with pytest.raises(click.UsageError) as caught:
        validated(RlJobInput, {"name": "x", "model": "/m", "dataset": "/d", "training": training})
    assert re.search(said, caught.value.message)
