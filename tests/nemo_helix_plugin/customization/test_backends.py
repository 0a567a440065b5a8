"""The registry of backends: built-in ones and those of other packages, of which a broken one harms nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nemo_helix_plugin.cli.commands.customization.submitting import given_uploads
from nemo_helix_plugin.customization import backends
from nemo_helix_plugin.jobs.models import RequestModel

Install = Callable[[str, str], None]
MODULE = """
from nemo_helix_plugin.customization.backends import BackendDescription
DESCRIPTION = BackendDescription(name="{name}", summary="A toy.", input="{module}:Nothing", references={{}})
OTHER = 5
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with one entry point where installed packages are."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(name: str, target: str) -> None:
        module = target.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(MODULE.format(name=name, module=module))
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "entry_points.txt").write_text(f"[{backends.GROUP}]\n{name} = {target}\n")
        forget()

    yield put
    monkeypatch.undo()
    forget()


def forget() -> None:
    backends.names.cache_clear()
    backends.find.cache_clear()


def test_the_built_in_backends_come_first_and_in_their_order() -> None:
    assert backends.names()[:3] == ("automodel", "unsloth", "rl")


@pytest.mark.parametrize("name", backends.BUILT_IN)
def test_what_a_description_says_of_its_input_is_so(name: str) -> None:
    found = backends.find(name)
    assert found.name == name
    assert backends.is_name(name)
    for place in found.references.values():
        model = found.input_type()
        for part in place[:-1]:
            inner = model.model_fields[part].annotation
            assert isinstance(inner, type)
            assert issubclass(inner, RequestModel)
            model = inner
        assert place[-1] in model.model_fields
    every = {f"upload_{what}": "x" for what in ("model", "dataset", "environment")}
    assert {"model", "dataset"} <= set(found.references) & set(given_uploads(every))


def test_a_backend_of_another_package_is_found(install: Install) -> None:
    install("spare", "spare_backend:DESCRIPTION")
    assert backends.names()[3:] == ("spare",)
    assert (backends.find("spare").summary, backends.summary("spare")) == ("A toy.", "A toy.")


def test_a_built_in_backend_cannot_be_replaced(install: Install) -> None:
    install("rl", "other_rl:DESCRIPTION")
    with pytest.raises(
        backends.BackendLoadError, match=r"'rl' is built in, .* package \(other-rl; group nemo_"
    ):
        backends.find("rl")
    assert backends.names().count("rl") == 1
    assert backends.find("automodel") == backends.BUILT_IN["automodel"]


def test_an_input_that_does_not_load_names_the_package(install: Install) -> None:
    install("spare", "spare_input:DESCRIPTION")
    sentence = r"the backend 'spare' of the package spare-input cannot be loaded \(AttributeError"
    with pytest.raises(backends.BackendLoadError, match=sentence):
        backends.find("spare").input_type()


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        (
            "spare",
            "spare_backend2:OTHER",
            "spare_backend2:OTHER must be a BackendDescription, and is of the type int",
        ),
        ("spare", "spare_backend3:NONE", "AttributeError: module 'spare_backend3' has no attribute 'NONE'"),
        (
            "templates",
            "templates_backend:DESCRIPTION",
            "a name is a lowercase word, and none of backend, from_client",
        ),
        ("Two-Words", "words_backend:DESCRIPTION", "a name is a lowercase word"),
    ],
)
def test_what_is_wrong_with_one_is_said_to_who_asks_for_it(
    install: Install, name: str, target: str, reason: str
) -> None:
    install(name, target)
    with pytest.raises(backends.BackendLoadError) as refused:
        backends.find(name)
    distribution = target.partition(":")[0].replace("_", "-")
    begin = f"the backend '{name}' of the package {distribution} cannot be loaded ({reason}"
    assert str(refused.value).startswith(begin)
    assert backends.summary(name) == str(refused.value)
    assert backends.find("rl").name == "rl"


def test_a_name_that_nobody_brings_is_none() -> None:
    with pytest.raises(KeyError):
        backends.find("nobody")
