"""The page about the SDK names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nemo_helix_plugin.client import errors, groups
from nemo_helix_plugin.client.watch import WatchOptions

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "python-sdk.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - {"from_client"}


def test_every_method_is_named() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:\([^`]*\))?`", section("Methods")))
    there = public(groups.JobsClient) | public(groups.SecretsClient) | public(groups.TokensClient)
    assert there - named == set()
    rows = re.findall(r"^\| (`[^|]*) \|", section("Methods"), flags=re.MULTILINE)
    methods = {name for row in rows for name in re.findall(r"`([a-z_]+)(?:\([^`]*\))?`", row)}
    assert methods - there == set()


def test_every_error_is_named() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.NemoClientError)
    }
    assert set(re.findall(r"`([A-Z]\w+Error)`", section("Errors"))) == kinds


def test_every_option_of_a_watch_is_named() -> None:
    options = set(WatchOptions.__dataclass_fields__)
    assert {name for name in options if f"`{name}" not in section("Watching")} == set()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_examples_are_python(block: str) -> None:
    compile(block, "python-sdk.md", "exec")
