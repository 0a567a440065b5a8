"""The service's backends: one folder each, and what is said of another package's that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from nemo_helix_plugin.customization import backends as descriptions
from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.errors import InvalidError, UnknownNameError

MODULE = """
import dataclasses
from nemo_helix_plugin.customization.backends import BackendDescription
from nemo_helix_server.customizer.backends.rl import BACKEND as OTHER
DESCRIPTION = BackendDescription(name="spare", summary="A toy.", input="x:Y", references={})
GOOD = dataclasses.replace(OTHER, description=DESCRIPTION)
BAD = dataclasses.replace(GOOD, engine="_x-y")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    monkeypatch.undo()
    forget()


def forget() -> None:
    descriptions.names.cache_clear()
    descriptions.find.cache_clear()
    registry.find.cache_clear()


def install(site: Path, module: str, attribute: str | None, more: str = "", *, name: str = "spare") -> None:
    (site / f"{module}.py").write_text(MODULE + more)
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir()
    text = f"[{descriptions.GROUP}]\n{name} = {module}:DESCRIPTION\n"
    if attribute:
        text += f"[{registry.GROUP}]\n{name} = {module}:{attribute}\n"
    (metadata / "entry_points.txt").write_text(text)
    forget()


def test_every_built_in_backend_has_a_folder_and_every_folder_is_one() -> None:
    folder = Path(registry.__file__).parent
    folders = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(descriptions.BUILT_IN)
    assert [backend.name for backend in registry.usable()][:3] == list(descriptions.BUILT_IN)


def test_a_backend_of_another_package_is_used(site: Path) -> None:
    install(site, "spare_good", "GOOD")
    assert registry.find("spare").engine == "trl"
    assert [backend.name for backend in registry.usable()][3:] == ["spare"]


@pytest.mark.parametrize(
    ("module", "attribute", "sentence"),
    [
        ("spare_client", None, "the backend 'spare' is for clients alone"),
        ("spare_other", "OTHER", "spare_other:OTHER is not a Backend of that description"),
        ("spare_bad", "BAD", "its engine must be named by a lowercase word, not '_x-y'"),
        ("spare_gone", "GONE", "AttributeError: module 'spare_gone' has no attribute 'GONE'"),
    ],
)
def test_what_cannot_be_used_is_said_to_who_asks_for_it(
    site: Path, module: str, attribute: str | None, sentence: str
) -> None:
    install(site, module, attribute)
    with pytest.raises(registry.BackendUnusableError) as refused:
        registry.find("spare")
    assert sentence in refused.value.detail
    assert [backend.name for backend in registry.usable()] == list(descriptions.BUILT_IN)
    assert registry.unusable() == [refused.value.detail]


def test_the_name_of_a_built_in_backend_is_refused_and_said_at_the_start(site: Path) -> None:
    install(site, "spare_rl", "GOOD", name="rl")
    with pytest.raises(registry.BackendUnusableError, match=r"the backend 'rl' is built in, and so named"):
        registry.find("rl")
    assert len(registry.unusable()) == 1
    assert [backend.name for backend in registry.usable()] == ["automodel", "unsloth"]


@pytest.mark.parametrize(
    ("function", "given", "does", "said"),
    [
        ("rules", (None, None), "raise KeyError('x')", "raised KeyError: 'x'"),
        ("rules", (None, None), "return None", "raised TypeError: 'NoneType' object is not iterable"),
        ("rules", (None, None), "return [1]", "gave 1, and must give each a Rule"),
        ("resolve", ({}, None), "raise SystemExit('bye')", "raised SystemExit: bye"),
        ("engine_spec", ({}, None), "return None", "gave None, and must give a dict"),
        ("training_step", ({},), "return 3", "gave 3, and must give a str"),
        ("training_step", ({},), "raise ValueError", "raised ValueError"),
    ],
)
def test_what_a_function_of_a_backend_does_wrong_names_backend_and_package(
    site: Path, function: str, given: tuple[Any, ...], does: str, said: str
) -> None:
    module = f"spare_fn_{abs(hash((function, does)))}"
    install(
        site,
        module,
        "WRONG",
        f"def wrong(*_given):\n    {does}\nWRONG = dataclasses.replace(GOOD, {function}=wrong)\n",
    )
    with pytest.raises(registry.BackendUnusableError) as refused:
        getattr(registry.find("spare"), function)(*given)
    package = module.replace("_", "-")
    assert refused.value.detail == f"{function} of the backend 'spare' of the package {package} {said}"


def test_what_a_backend_refuses_goes_through(site: Path) -> None:
    begin = "from nemo_helix_server.errors import InvalidError\n"
    wrong = f"{begin}def wrong(*_given):\n    raise InvalidError('no')\n"
    install(site, "spare_refuses", "WRONG", f"{wrong}WRONG = dataclasses.replace(GOOD, resolve=wrong)\n")
    with pytest.raises(InvalidError, match=r"^no$"):
        registry.find("spare").resolve({}, cast("Any", None))


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        UnknownNameError, match="there is no backend 'nobody'; known are automodel, unsloth, rl"
    ):
        registry.find("nobody")
