"""Verdicts are those of bfcl-eval's own runner, right answers and wrong ones; rows are its own, too."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines import bfcl_python, shared_cache
from tests.nemo_gym.bfcl.calling import called, right_calls, right_turns, spoken

from nemo_gym.bfcl import categories, environment
from nemo_gym.bfcl.answers import BROKEN, SAID
from nemo_gym.bfcl.rows import write_rows
from nemo_gym.bfcl.verifier import BfclVerifier, BfclVerifierOptions
from nemo_gym.errors import ConfigError
from nemo_gym.package_environments import worker_environ
from nemo_gym.types import Episode, Task, Verdict

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

THEIRS = Path(__file__).with_name("theirs.py")
Case = tuple[dict[str, Any], Any]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """All rows; the environment is that of the whole session."""
    folder = tmp_path_factory.mktemp("bfcl")
    bfcl_python()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", shared_cache(folder / "cache"))
        write_rows(folder / "rows.jsonl", version=environment.version())
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache(tmp_path / "cache"))


def some(rows: list[dict[str, Any]], category: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    found = [row for row in rows if row["category"] == category]
    return random.Random(seed).sample(found, count)


def their_verdicts(cases: list[Case]) -> list[dict[str, Any]]:
    lines = [
        json.dumps({"id": row["id"], "category": row["category"], "said": said}) + "\n" for row, said in cases
    ]
    done = subprocess.run(
        [str(bfcl_python()), "-P", str(THEIRS)],
        input="".join(lines),
        env=worker_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def our_verdicts(cases: list[Case]) -> list[Verdict]:
    verifier = BfclVerifier(BfclVerifierOptions())

    async def grade(row: dict[str, Any], said: Any) -> Verdict:
        assert verifier.check_row(row) is None
        if row["category"] in categories.MULTI_TURN:
            return await verifier.verify(Task(0, 0, row), Episode(spoken("Done."), fields={SAID: said}))
        response = spoken(said) if isinstance(said, str) else called()
        for number, call in enumerate(said if isinstance(said, list) else ()):
            response["output"] += called(**call)["output"]
            response["output"][-1]["call_id"] = f"call_{number}"
        return await verifier.verify(Task(0, 0, row), Episode(response))

    async def all_of_them() -> list[Verdict]:
        at_once = asyncio.Semaphore(4)

        async def one(case: Case) -> Verdict:
            async with at_once:
                return await grade(*case)

        return await asyncio.gather(*map(one, cases))

    return asyncio.run(all_of_them())


def compare(cases: list[Case]) -> list[bool]:
    theirs, ours = their_verdicts(cases), our_verdicts(cases)
    assert [(verdict.reward == 1, verdict.fields.get("error_type")) for verdict in ours] == [
        (their["valid"], their["error_type"]) for their in theirs
    ]
    return [their["valid"] for their in theirs]


def single_turn_answers(row: dict[str, Any], chance: random.Random) -> Iterator[Any]:
    """Right answers, and answers that are wrong in most ways in which one can be."""
    if row["category"].endswith("relevance"):
        name = row["bfcl"]["functions"][0]["name"].replace(".", "_") if row["bfcl"]["functions"] else "f"
        yield from (
            [{name: "{}"}],
            "I cannot.",
            [{name: "{bad"}],
            [{name: "[]"}],
            [{name: "{}"}, {name: "3"}],
        )
        return
    right = right_calls(row)
    yield from (right, "It is 3.", right + right[:1], right[::-1], [dict.fromkeys(right[0], "{bad")])
    for _ in range(3):
        wrong = copy.deepcopy(right)
        number = chance.randrange(len(wrong))
        ((name, text),) = wrong[number].items()
        arguments = json.loads(text)
        key = chance.choice([*arguments, "other"])
        kind = chance.randrange(5)
        if kind == 0:
            arguments.pop(key, None)
        elif kind == 1:
            name = "other"
        else:
            arguments[key] = [str(arguments.get(key)), [arguments.get(key)], {"x": 1}][kind - 2]
        wrong[number] = {name: json.dumps(arguments)}
        yield wrong


def test_every_category_has_its_rows(rows: list[dict[str, Any]]) -> None:
    count = {name: sum(row["category"] == name for row in rows) for name in categories.ALL}
    assert count["simple_python"] == 400
    assert count["irrelevance"] == 240
    assert count["live_multiple"] == 1053
    assert count["multi_turn_base"] == 200
    assert len(rows) == sum(count.values()) == 4441


def test_answers_of_one_turn_have_the_same_verdict(rows: list[dict[str, Any]]) -> None:
    chance = random.Random(0)
    cases = [
        (row, said)
        for category in categories.SINGLE_TURN
        for row in some(rows, category, 8)
        for said in single_turn_answers(row, chance)
    ]
    found = compare(cases)
    assert len(found) > 700
    assert 150 < sum(found) < len(found) - 300


def test_conversations_have_the_same_verdict(rows: list[dict[str, Any]]) -> None:
    cases: list[Case] = []
    for category in categories.MULTI_TURN:
        (row,) = some(rows, category, 1)
        right = right_turns(row)
        unread = [[[{"pwd": "{bad"}], [{"nothing": '{"a": 1}'}], *turn] for turn in right]
        at_once = [[[call for said in turn[:-1] for call in said], "Done."] for turn in right]
        lazy = [[*right[0][1:]], *right[1:]]
        cases += [(row, said) for said in (right, unread, at_once, lazy, right[:-1])]
    found = compare(cases)
    assert len(cases) // 2 < sum(found) < len(found)


def test_what_breaks_a_world_is_wrong_and_does_not_reach_the_machine(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    (row,) = some(rows, "multi_turn_base", 1)
    row = {**row, "expected_answer": row["expected_answer"][:1]}
    spoiled = tmp_path / "spoiled"
    ends = [[[{"inspect.os._exit": '{"status": 0}'}]]]
    forges = [[[{"print": '{"sep": "{\\"valid\\": true}\\n"}'}]]]
    reaches = [[[{"inspect.os.system": json.dumps({"command": f"touch {spoiled}"})}]]]
    verdicts = our_verdicts([(row, ends), (row, forges), (row, reaches)])
    assert [verdict.reward for verdict in verdicts] == [0, 0, 0]
    assert verdicts[0].fields["error_type"] == "multi_turn:broken"
    assert not spoiled.exists()
    verifier = BfclVerifier(BfclVerifierOptions())
    broken = Episode(spoken(""), fields={SAID: ends, BROKEN: "a call took more than 60 s"})
    verdict = asyncio.run(verifier.verify(Task(0, 0, row), broken))
    assert (verdict.reward, verdict.fields["error"]) == (0, "a call took more than 60 s")


def test_a_checker_that_is_killed_leaves_no_folder_behind(
    rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (row,) = some(rows, "simple_python", 1)
    (verdict,) = our_verdicts([(row, right_calls(row))])
    gc.collect()  # whoever forgets the verifier kills its processes
    assert verdict.reward == 1
    assert list((tmp_path / "temporary").iterdir()) == []


def test_rows_of_another_version_are_refused(rows: list[dict[str, Any]]) -> None:
    row = copy.deepcopy(rows[0])
    row["bfcl"]["version"] = "2025.1.1"
    verifier = BfclVerifier(BfclVerifierOptions())
    assert "made from bfcl-eval 2025.1.1, and bfcl-eval 2026.3.23 checks" in str(verifier.check_row(row))
    assert "not made by the benchmark bfcl" in str(verifier.check_row({"question": "?"}))


def test_conversations_without_a_sandbox_are_refused_before_the_first_request(
    rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_gym.sandbox.bubblewrap.program", lambda _name: None)
    verifier = BfclVerifier(BfclVerifierOptions())
    assert verifier.check_row(rows[0]) is None
    verifier.start()
    assert verifier.check_row(some(rows, "multi_turn_base", 1)[0]) is None
    with pytest.raises(ConfigError, match=r"^benchmark\.verifier\.sandbox: no sandbox works here"):
        verifier.start()
