"""Outsiders' verifiers are found by a real entry point, and a broken package harms only its own type."""

import asyncio
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from nemo_gym.errors import ConfigError
from nemo_gym.plugins import check_options
from nemo_gym.types import Episode, Task
from nemo_gym.verifiers.registry import grades_stored_answers, load_verifier, verifier_types

TOY = """
from pydantic import BaseModel, ConfigDict
from nemo_gym.types import Verdict

class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    at_least: int = 1
    judge: str | None = None

class Toy:
    Options = Options
    grades_stored_answers = False
    def __init__(self, options, models):
        self.options = options
        self.judge = models[options.judge] if options.judge else None
    def check_row(self, row):
        return None if "want" in row else "no 'want'"
    async def verify(self, task, episode):
        if self.judge is not None:
            answer = await self.judge.respond({"input": episode.text})
            return Verdict(float(answer["ok"]), fields={"judged": True})
        long = len(episode.text) >= self.options.at_least
        return Verdict(float(long), episode.text, {"length": len(episode.text)})

class Broken(Toy):
    def __init__(self, options, models):
        raise RuntimeError("no licence")

class Leaves(Toy):
    def __init__(self, options, models):
        raise SystemExit("no licence")

class Ends(Toy):
    graded_ends = {"ended"}

class Bare(Toy):
    Options = dict

class Fussy(Options):
    def model_post_init(self, context):
        raise KeyError("licence")

class FussyToy(Toy):
    Options = Fussy

class NoVerify:
    Options = Options
    def __init__(self, options, models): pass
    def check_row(self, row): return None
"""
ENTRIES = """
[nemo_gym.verifiers]
toy = toy_verifier:Toy
refuses = toy_verifier:Broken
half = toy_verifier:NoVerify
match = toy_verifier:Toy
crashes = toy_crashes:Anything
absent = toy_verifier:Nothing
no_class = toy_verifier:TOY_IS_NO_CLASS
bare = toy_verifier:Bare
quits = toy_quits:Anything
leaves = toy_verifier:Leaves
ends = toy_verifier:Ends
fussy = toy_verifier:FussyToy
"""


def install(folder: Path, name: str, entries: str, modules: dict[str, str]) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def outsiders(tmp_path, monkeypatch):
    install(
        tmp_path,
        "toy",
        ENTRIES,
        {
            "toy_verifier": TOY + "\nTOY_IS_NO_CLASS = 3\n",
            "toy_crashes": "raise RuntimeError('built for another machine')",
            "toy_quits": "import sys; sys.exit('bye')",
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in ("toy_verifier", "toy_crashes", "toy_quits"):
        sys.modules.pop(module, None)


def episode(text):
    return Episode({"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]})


def test_an_outsiders_verifier_is_built_with_its_own_options(outsiders):
    verifier = load_verifier({"type": "toy", "at_least": 3})
    assert verifier.check_row({}) == "no 'want'"
    verdict = asyncio.run(verifier.verify(Task(0, 0, {"want": 1}), episode("long")))
    assert (verdict.reward, verdict.extracted_answer, verdict.fields) == (1.0, "long", {"length": 4})
    assert not grades_stored_answers(verifier)
    assert "toy" in verifier_types()


def test_a_verifier_can_ask_a_judge_model(outsiders):
    class Judge:
        async def respond(self, params):
            return {"ok": params["input"] == "fine"}

    verifier = load_verifier({"type": "toy", "judge": "j"}, {"j": Judge()})
    assert asyncio.run(verifier.verify(Task(0, 0, {}), episode("fine"))).reward == 1.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"type": "crashes"},
            r"verifier 'crashes' of the package toy cannot be loaded \(RuntimeError: built for .*\); repair",
        ),
        ({"type": "absent"}, r"'absent' of the package toy cannot be loaded \(AttributeError"),
        ({"type": "no_class"}, "toy_verifier:TOY_IS_NO_CLASS must be a type, and is of the type int"),
        (
            {"type": "bare"},
            r"'bare' of the package toy .*toy_verifier:Bare has no Options that is a pydantic",
        ),
        ({"type": "quits"}, r"'quits' of the package toy cannot be loaded \(SystemExit: bye\)"),
        ({"type": "leaves"}, "'leaves' of the package toy cannot be made: SystemExit: no licence"),
        (
            {"type": "ends"},
            "graded_ends of the verifier 'ends' of the package toy must be a set of: completed",
        ),
        ({"type": "fussy"}, r"toy_verifier\.Fussy cannot check these options: KeyError: 'licence'"),
        (
            {"type": "match"},
            r"'match' is built in, and so named is one of another package \(toy; group nemo_gym\.verifiers\)",
        ),
        ({"type": "refuses"}, "'refuses' of the package toy cannot be made: RuntimeError: no licence"),
        ({"type": "half"}, "lacks verify"),
        (
            {"type": "toy", "at_leats": 3},
            r"unknown option benchmark\.verifier\.at_leats \(did you mean 'at_least'\?\)",
        ),
        ({"type": "toy", "at_least": "many"}, r"benchmark\.verifier\.at_least \("),
        ({"type": "toi"}, r"no verifier 'toi'.*\(did you mean 'toy'\?\)"),
        ({"type": "zzz"}, "known are absent, bare, "),
        ({"type": 3}, "needs a type"),
        ({}, "needs a type"),
    ],
)
def test_what_does_not_work_is_said_with_its_place(outsiders, spec, message):
    with pytest.raises(ConfigError, match=message):
        load_verifier(spec)


class Lax(BaseModel):
    at_least: int = 1


class Open(Lax):
    model_config = ConfigDict(extra="allow")


class Careless(Lax):
    model_config = ConfigDict(extra="ignore")


def test_a_schema_that_says_nothing_about_unknown_options_refuses_them():
    assert type(check_options(Lax, {"type": "toy", "at_least": 3}, where="v")) is Lax
    with pytest.raises(ConfigError, match=r"^unknown option v\.at_leats \(did you mean 'at_least'\?\)\.$"):
        check_options(Lax, {"type": "toy", "at_leats": 3}, where="v")
    assert check_options(Open, {"at_leats": 3}, where="v").model_extra == {"at_leats": 3}
    assert check_options(Careless, {"at_leats": 3}, where="v") == Careless()


def test_a_broken_plugin_leaves_the_others_alone(outsiders):
    with pytest.raises(ConfigError):
        load_verifier({"type": "crashes"})
    assert type(load_verifier({"type": "toy"}).inner).__name__ == "Toy"
    assert type(load_verifier({"type": "multiple_choice"}).inner).__name__ == "MultipleChoiceVerifier"


def test_a_package_with_unreadable_metadata_hides_nobody(outsiders):
    bad = outsiders / "bad-1.0.dist-info"
    bad.mkdir()
    (bad / "METADATA").write_bytes(b"\xff\xfe\x00garbage")
    (bad / "entry_points.txt").write_bytes(b"\xff[nemo_gym.verifiers\n = = =\n")
    assert type(load_verifier({"type": "toy"}).inner).__name__ == "Toy"


def test_a_type_that_two_packages_offer_is_refused(outsiders):
    install(outsiders, "other", "[nemo_gym.verifiers]\ntoy = other_toy:Toy\n", {})
    with pytest.raises(ConfigError, match=r"several packages \(other, toy; group nemo_gym.verifiers\)"):
        load_verifier({"type": "toy"})
