import dataclasses
import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from nemo_runs.processes import trees
from nemo_trainer import contract
from nemo_trainer.contract import generations
from nemo_trainer.contract.generations import Takeover

TASK = "task-" + "a" * 32
ELSEWHERE = dataclasses.replace(trees.identify(), host="node7.example", boot_id="another", pid=1234)


def write_writer(folder: Path, generation: int | None = None, **facts: object) -> None:
    known = {} if generation is None else {"generation": generation}
    (folder / "writer.json").write_text(json.dumps({**ELSEWHERE.to_json(), **known, **facts}))


def took_over(folder: Path, step: int, *, after: int = 0, **more: object) -> generations.Generation:
    """A generation that follows a process which may still live, from a step on."""
    made = generations.claim(folder, process=ELSEWHERE)
    facts = {"step": step, "file": f"metrics.g{made.number}.jsonl", "offset": 0, "of": "metrics.jsonl"}
    generations.record_takeover(folder, made.number, Takeover(**{**facts, "after": after, **more}))
    return made


def save(folder: Path, name: str, generation: int) -> str:
    made = folder / "checkpoints" / name
    made.mkdir(parents=True)
    (made / "state").write_text(name)
    entry = contract.files.seal(made, [made / "state"])
    manifest = contract.Manifest(step=int(name.split(".", maxsplit=1)[0]), files=entry, generation=generation)
    contract.write_manifest(made, manifest)
    return name


def names(found: list[contract.Checkpoint | contract.Damaged]) -> list[str]:
    return [item.folder.name for item in found]


class TestClaiming:
    def test_numbers_rise_and_only_the_newest_is_current(self, tmp_path):
        assert generations.newest(tmp_path) is None
        assert generations.is_current(tmp_path, 0)
        made = [generations.claim(tmp_path, task=TASK, attempt="att", by="ann", at=1.5) for _ in range(3)]
        assert [one.number for one in made] == [1, 2, 3]
        assert [generations.is_current(tmp_path, number) for number in range(4)] == [False] * 3 + [True]
        assert generations.newest(tmp_path) == made[2]
        assert generations.records(tmp_path) == made
        assert (made[0].task, made[0].attempt, made[0].by, made[0].claimed_at) == (TASK, "att", "ann", 1.5)

    @pytest.mark.parametrize("links", [True, False])
    def test_of_several_claimers_each_gets_a_number_of_its_own(self, tmp_path, links):
        with multiprocessing.get_context("fork").Pool(4) as pool:
            found = pool.starmap(_claim_some, [(tmp_path, links)] * 4)
        assert sorted(number for numbers in found for number in numbers) == list(range(1, 41))

    def test_without_hard_links_the_name_alone_is_the_claim(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "link", _no_links)
        made = generations.claim(tmp_path, task=TASK, process=trees.identify())
        assert generations.newest(tmp_path) == made
        assert [path.name for path in (tmp_path / "generations").iterdir()] == ["1"]

    def test_a_crash_between_name_and_content_leaves_a_number_that_nobody_holds(self, tmp_path):
        generations.claim(tmp_path, process=trees.identify())
        (tmp_path / "generations" / "2").touch()
        found = generations.newest(tmp_path)
        assert (found.number, found.task, found.process) == (2, "", None)
        assert not generations.is_current(tmp_path, 1)
        made = generations.claim(tmp_path)
        assert (made.number, made.own_names) == (3, True)

    def test_an_answer_that_a_file_server_lost_is_no_other_claim(self, tmp_path, monkeypatch):
        real = os.link

        def link(source, target, **more):
            real(source, target, **more)
            raise FileExistsError(errno.EEXIST, "asked for again", str(target))

        monkeypatch.setattr(os, "link", link)
        assert generations.claim(tmp_path).number == 1
        assert len(generations.records(tmp_path)) == 1

    def test_clocks_decide_nothing(self, tmp_path):
        generations.claim(tmp_path, at=4e9)
        assert generations.claim(tmp_path, at=0.0).number == 2
        assert generations.newest(tmp_path).claimed_at == 0.0

    @pytest.mark.parametrize("name", ["0", "01", "2.takeover", "x", ".tmp-1", "9" * 40])
    def test_other_files_are_no_claims(self, tmp_path, name):
        generations.claim(tmp_path)
        (tmp_path / "generations" / name).touch()
        assert [one.number for one in generations.records(tmp_path)] == [1]

    @pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"task": 1}', "[" * 100_000])
    def test_a_damaged_claim_is_nobodys(self, tmp_path, text):
        generations.claim(tmp_path)
        (tmp_path / "generations" / "1").write_text(text)
        assert generations.newest(tmp_path) == generations.Generation(number=1)


class TestNamesOfItsOwn:
    def test_none_where_nobody_has_written(self, tmp_path):
        assert not generations.claim(tmp_path).own_names

    def test_none_after_processes_that_are_proven_to_be_over(self, tmp_path):
        write_writer(tmp_path, released_at=1.0)
        assert not generations.claim(tmp_path, process=ELSEWHERE).own_names
        write_writer(tmp_path, 1, released_at=1.0)
        assert not generations.claim(tmp_path, process=trees.identify()).own_names
        assert not generations.claim(tmp_path).own_names

    def test_after_one_that_may_still_live(self, tmp_path):
        write_writer(tmp_path)
        assert generations.claim(tmp_path).own_names

    def test_after_a_claim_that_never_took_hold(self, tmp_path):
        generations.claim(tmp_path, process=ELSEWHERE)
        assert generations.claim(tmp_path).own_names

    def test_whoever_follows_keeps_apart_too(self, tmp_path):
        write_writer(tmp_path)
        generations.claim(tmp_path)
        write_writer(tmp_path, 1, released_at=1.0)
        assert generations.claim(tmp_path).own_names

    def test_the_newest_generation_that_has_a_file_counts(self, tmp_path):
        shared = tmp_path / "metrics.jsonl"
        assert generations.newest_file(shared) == shared
        for name in ("metrics.g2.jsonl", "metrics.g10.jsonl", "metrics.g11.json", "progress.g12.jsonl"):
            (tmp_path / name).touch()
        assert generations.newest_file(shared).name == "metrics.g10.jsonl"
        assert generations.newest_file(tmp_path / "nowhere" / "x.json") == tmp_path / "nowhere" / "x.json"


class TestWhatCounts:
    def test_what_was_saved_behind_a_takeover_does_not(self, tmp_path):
        generations.claim(tmp_path, process=ELSEWHERE)
        took_over(tmp_path, 50)
        for name in ("40", "50", "60"):
            save(tmp_path, name, 1)
        save(tmp_path, "60.g2", 2)
        assert names(contract.list_checkpoints(tmp_path)) == ["40", "50", "60.g2"]
        assert names(contract.sort_checkpoints(tmp_path).outdated) == ["60"]
        assert contract.newest_verified(tmp_path, deep=True).checkpoint.manifest.generation == 2
        assert contract.checkpoint_folder(tmp_path, 60).name == "60.g2"
        assert contract.checkpoint_folder(tmp_path, 70).name == "70"

    def test_a_zombies_checkpoint_alone_is_none(self, tmp_path):
        save(tmp_path, "60", 0)
        write_writer(tmp_path)
        took_over(tmp_path, 50)
        assert contract.list_checkpoints(tmp_path) == []

    def test_of_one_step_the_newest_generations_counts(self, tmp_path):
        generations.claim(tmp_path, process=ELSEWHERE)
        took_over(tmp_path, 50)
        save(tmp_path, "50", 1)
        save(tmp_path, "50.g2", 1)
        assert names(contract.list_checkpoints(tmp_path)) == ["50.g2"]
        assert names(contract.sort_checkpoints(tmp_path).outdated) == ["50"]
        (tmp_path / "checkpoints" / "50.g2" / "MANIFEST.json").write_text("{")
        assert names(contract.list_checkpoints(tmp_path)) == ["50"]

    def test_who_was_passed_by_while_taking_over_sets_no_limit(self, tmp_path):
        """Generation 2 chose step 50 and was stopped; 3 went on from 60; 2 records its choice too late."""
        generations.claim(tmp_path, process=ELSEWHERE)
        late = generations.claim(tmp_path, process=ELSEWHERE)
        took_over(tmp_path, 60, after=0)
        save(tmp_path, "60", 1)
        facts = {"file": "metrics.g2.jsonl", "offset": 0, "of": "metrics.jsonl"}
        generations.record_takeover(tmp_path, late.number, Takeover(step=50, **facts))
        assert names(contract.list_checkpoints(tmp_path)) == ["60"]
        assert [one.number for one in generations.lineage(tmp_path)] == [3]

    def test_storage_from_before_generations_is_as_it_was(self, tmp_path):
        save(tmp_path, "40", 0)
        assert names(contract.list_checkpoints(tmp_path)) == ["40"]
        assert generations.limits(tmp_path) == []

    def test_only_the_first_record_of_a_takeover_counts(self, tmp_path):
        made = took_over(tmp_path, 50)
        generations.record_takeover(
            tmp_path, made.number, Takeover(step=1, file="metrics.jsonl", offset=1, of="metrics.jsonl")
        )
        assert generations.newest(tmp_path).takeover.step == 50

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"step": -1}'])
    def test_a_damaged_record_of_a_takeover_is_none(self, tmp_path, text):
        generations.claim(tmp_path)
        (tmp_path / "generations" / "1.takeover").write_text(text)
        assert generations.newest(tmp_path).takeover is None


class TestRowsOfMetrics:
    def rows(self, folder: Path, *rows: contract.Row, name: str = "metrics.jsonl") -> list[int]:
        """Write them; where each begins."""
        lines = [row.to_line() + b"\n" for row in rows]
        (folder / name).write_bytes(b"".join(lines))
        return [sum(map(len, lines[:index])) for index in range(len(lines) + 1)]

    def test_those_behind_a_later_generations_first_one_are_dropped_wherever_reading_begins(self, tmp_path):
        of = {
            number: contract.MetricRow(number + 1, 1.0, "a", {"x": float(number)}, None, number)
            for number in (1, 2)
        }
        late = contract.MetricRow(9, 1.0, "a", {"x": 9.0}, None, 1)
        starts = self.rows(tmp_path, of[1], contract.ContinueRow(2, "a", TASK, 1.0, 2), late, of[2], late)
        for _ in range(2):
            generations.claim(tmp_path)
        shared = {"file": "metrics.jsonl", "of": "metrics.jsonl"}
        generations.record_takeover(tmp_path, 1, Takeover(step=0, offset=0, **shared))
        generations.record_takeover(tmp_path, 2, Takeover(step=2, offset=starts[1], after=1, **shared))
        assert [row.step for row in contract.history(tmp_path / "metrics.jsonl")] == [2, 3]
        for start, kept in ((starts[2], [of[2]]), (starts[3], [of[2]]), (starts[4], [])):
            assert contract.MetricTail(tmp_path / "metrics.jsonl", start).read().rows == kept

    def test_rows_without_a_generation_stay_where_none_has_taken_over(self, tmp_path):
        rows = [contract.MetricRow(step, 1.0, "a", {"x": 1.0}) for step in (1, 2)]
        self.rows(tmp_path, *rows)
        assert b"generation" not in (tmp_path / "metrics.jsonl").read_bytes()
        generations.claim(tmp_path)
        assert contract.history(tmp_path / "metrics.jsonl") == rows

    def test_how_much_of_a_file_that_was_read_is_in_the_next_one(self, tmp_path):
        generations.claim(tmp_path, process=ELSEWHERE)
        took_over(tmp_path, 5, offset=100)
        took_over(tmp_path, 7, offset=150, of="metrics.g2.jsonl", after=2)
        assert generations.same_bytes(tmp_path, 0, 2) == 100
        assert generations.same_bytes(tmp_path, 0, 3) == 100
        assert generations.same_bytes(tmp_path, 2, 3) == 150
        took_over(tmp_path, 7, offset=120, of="metrics.jsonl")
        assert generations.same_bytes(tmp_path, 3, 4) is None


class TestControl:
    def test_a_request_for_a_later_generation_is_not_replaced_by_one_for_an_older(self, tmp_path):
        path = tmp_path / "control.json"
        assert contract.write_control(path, contract.Control(1, "pause", "ann", 1.0, 3))
        assert not contract.write_control(path, contract.Control(2, "stop", "an old service", 1.0, 2))
        assert contract.read_control(path) == contract.Control(1, "pause", "ann", 1.0, 3)
        assert contract.write_control(path, contract.Control(2, "stop", "ben", 1.0, 3))
        assert contract.write_control(path, contract.Control(3, "stop", "of an older version", 1.0))


def _claim_some(folder: Path, links: bool) -> list[int]:
    if not links:
        os.link = _no_links
    return [generations.claim(folder).number for _ in range(10)]


def _no_links(source, target, **_more):
    raise OSError(errno.EOPNOTSUPP, "has no hard links", str(target))
