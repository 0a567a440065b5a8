"""A verifier whose library is missing says what to install."""

import importlib.util

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers.registry import load_verifier


@pytest.mark.parametrize(
    ("verifier", "package"),
    [
        ("math", "math-verify"),
        ("rouge", "rouge-score"),
        ("json_schema", "jsonschema"),
        ("ifeval", "if-verifiable"),
    ],
)
def test_a_missing_library_is_named_with_its_remedy(verifier, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError) as refused:
        load_verifier({"type": verifier})
    assert f"needs the package {package}: pip install 'nemo-baton[verifiers]'" in str(refused.value)
