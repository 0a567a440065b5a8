"""Going on after a process that may still write: names of its own, which the older one cannot reach."""

import contextlib
import dataclasses
import json
import os
import shutil
import sys

import pytest

from nemo_runs.processes import trees
from nemo_trainer import contract, holding, publishing, retention
from nemo_trainer.contract import (
    Control,
    JobContext,
    NotWriterError,
    TrainerError,
    generations,
    write_control,
)
from nemo_trainer.requests.control_requests import ControlRequests
from nemo_trainer.requests.signals import Flags
from nemo_trainer.session import Session

TASK = "task-" + "a" * 32
ELSEWHERE = dataclasses.replace(trees.identify(), host="node7.example", boot_id="another", pid=1234)


def context_of(folder, number=2, **more):
    """A start for which the launcher has claimed a number."""
    task = f"task-{number:032x}"
    return JobContext(trainer_path=folder, storage=folder, task=task, generation=number, **more)


def claim(folder, number):
    return generations.claim(folder, task=f"task-{number:032x}", by="launcher")


def write(text):
    return lambda made: (made / "state").write_text(text)


@pytest.fixture
def lost(tmp_path):
    """The first start has published steps 4 and 5, and its node is lost."""
    claim(tmp_path, 1)
    with Session.open(context_of(tmp_path, 1)) as session:
        session.restore()
        for step in range(1, 8):
            session.metrics(step, {"loss": 10.0 + step})
            if step in {4, 5}:
                session.publish(write(f"first {step}"), step)
    put_writer(tmp_path, 1)
    return tmp_path


def put_writer(folder, generation):
    new = folder / "writer.new"
    new.write_text(json.dumps({**ELSEWHERE.to_json(), "generation": generation}))
    new.rename(folder / "writer.json")


@pytest.fixture
def second(lost):
    claim(lost, 2)
    with contextlib.suppress(NotWriterError), Session.open(context_of(lost)) as session:
        yield session


def steps(folder):
    return [(row.step, row.values["loss"]) for row in contract.history(folder / "metrics.jsonl")]


class TestNames:
    def test_rows_progress_outputs_and_checkpoints_have_names_of_their_own(self, lost, second):
        assert second.restore().step == 5
        second.metrics(6, {"loss": 6.0})
        second.publish(write("second"), 6)
        (lost / "model").write_text("x")
        second.outputs(["model"])
        second.finish()
        names = {path.name for path in lost.iterdir()}
        assert names >= {"metrics.g2.jsonl", "progress.g2.json", "OUTPUTS.g2.json", "metrics.jsonl"}
        assert {path.name for path in (lost / "checkpoints").iterdir()} == {"4", "5.g2", "6.g2"}
        assert steps(lost) == [*((step, 10.0 + step) for step in range(1, 6)), (6, 6.0)]
        assert contract.read_progress(lost / "progress.json")["generation"] == 2
        assert contract.read_outputs(lost).generation == 2
        assert [one.takeover.step for one in generations.records(lost)] == [0, 5]

    def test_without_going_on_from_a_checkpoint_what_was_there_counts(self, lost, second):
        second.metrics(8, {"loss": 8.0})
        with (lost / "metrics.jsonl").open("ab") as file:
            file.write(contract.MetricRow(9, 1.0, "", {"loss": 99.0}, None, 1).to_line() + b"\n")
        assert steps(lost) == [*((step, 10.0 + step) for step in range(1, 8)), (8, 8.0)]
        assert generations.newest(lost).takeover.step == 5

    def test_a_checkpoint_that_was_named_by_its_folder_keeps_its_name(self, lost):
        claim(lost, 2)
        named = lost / "checkpoints" / "4"
        with Session.open(context_of(lost, checkpoint=named)) as session:
            assert session.restore().folder == named
            session.publish(write("second"), 5)
        assert [item.folder.name for item in contract.list_checkpoints(lost)] == ["4", "5.g2"]

    def test_old_storage_without_generations_goes_on_under_the_names_of_all(self, tmp_path):
        made = tmp_path / "checkpoints" / "3"
        made.mkdir(parents=True)
        (made / "state").write_text("old")
        entries = contract.files.seal(made, [made / "state"])
        contract.write_manifest(made, contract.Manifest(step=3, files=entries))
        old = json.loads((made / "MANIFEST.json").read_text())
        del old["generation"], old["sha256"]  # as it was written before
        (made / "MANIFEST.json").write_text(json.dumps(old))
        (tmp_path / "metrics.jsonl").write_bytes(
            contract.MetricRow(3, 1.0, "", {"loss": 3.0}).to_line() + b"\n"
        )
        with Session.open(JobContext(trainer_path=tmp_path, storage=tmp_path)) as session:
            assert session.restore().step == 3
            session.metrics(4, {"loss": 4.0})
        assert steps(tmp_path) == [(3, 3.0), (4, 4.0)]
        assert not list(tmp_path.glob("*.g*"))


class TestTheOlderOne:
    def test_what_it_publishes_later_is_pruned(self, lost, second):
        second.restore()
        late = publishing.publish(
            contract.TrainerPaths(lost, 1), write("late"), contract.Manifest(step=9, files=(), generation=1)
        )
        assert [item.step for item in contract.list_checkpoints(lost)] == [4, 5]
        second.publish(write("second"), 6)
        second.prune()
        assert not late.folder.exists()
        assert [item.folder.name for item in contract.list_checkpoints(lost)] == ["5.g2", "6.g2"]

    def test_pinned_ones_stay(self, lost, second):
        second.restore()
        paths = contract.TrainerPaths(lost, 1)
        late = publishing.publish(paths, write("late"), contract.Manifest(step=9, files=(), generation=1))
        (late.folder / contract.PINNED).touch()
        second.prune()
        assert late.folder.exists()

    def test_cleaning_up_and_pruning_leave_what_is_of_a_later_one(self, lost, second):
        second.restore()
        for step in (6, 7, 8):
            second.publish(write("second"), step)
        folder = second.staging(9)
        (lost / "checkpoints" / ".replaced-7.g2-abc").mkdir()
        (lost / "checkpoints" / ".pruned-7.g2").mkdir()
        before = sorted((lost / "checkpoints").iterdir())
        paths = contract.TrainerPaths(lost, 1)
        publishing.recover(paths)
        retention.clean(paths)
        retention.prune(paths, keep=2, best=None, verified=lambda _: True)
        gone = set(before) - set((lost / "checkpoints").iterdir())
        assert {path.name for path in gone} == {"4"}
        assert folder.exists()

    def test_a_record_of_the_writer_that_comes_late_is_replaced(self, lost, second):
        put_writer(lost, 1)
        second.restore()
        assert generations.read_writer(lost).generation == 2

    def test_a_row_into_a_file_that_was_removed_says_who_took_over(self, lost, second, monkeypatch):
        second.restore()

        def append(_rows, _line):
            claim(lost, 3)
            raise OSError(116, "Stale file handle")

        monkeypatch.setattr("nemo_runs.durable.rows.RowAppender.append", append)
        with pytest.raises(NotWriterError, match=f"the start task-{3:032x} has taken over .* generation 3"):
            second.metrics(6, {"loss": 6.0})
        monkeypatch.undo()


FILE_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
ALL_ROWS = [(step, 10.0 + step) for step in range(1, 6)]


def killed_before_event(number, work):
    """Do something in a process of its own that is gone before its n-th use of a file; whether it is."""
    pid = os.fork()
    if pid == 0:
        left = [number]

        def count(event, _arguments):
            left[0] -= event in FILE_EVENTS
            if left[0] < 0:
                os._exit(9)

        sys.addaudithook(count)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in {0, 9}
    return status == 9


def restored(folder, number):
    with Session.open(context_of(folder, number)) as session:
        return session.restore()


@pytest.mark.slow
class TestKilled:
    @pytest.mark.parametrize("again", [2, 3])
    def test_at_any_moment_of_taking_over_the_next_one_finds_all_rows(self, lost, tmp_path_factory, again):
        """``again``: the generation of the start that follows, the same or the next one."""
        claim(lost, 2)
        killed, number, seen = True, 0, set()
        while killed:
            folder = tmp_path_factory.mktemp("copy") / "training"
            shutil.copytree(lost, folder)
            killed = killed_before_event(number, lambda at=folder: restored(at, 2))
            taken_over = generations.read(folder, 2).takeover
            seen.add(((folder / "metrics.g2.jsonl").exists(), taken_over is not None))
            assert taken_over is None or (folder / taken_over.file).exists()
            assert steps(folder)[:5] == ALL_ROWS
            if again == 3:
                claim(folder, 3)
            assert restored(folder, again).step == 5
            assert steps(folder) == ALL_ROWS
            assert len(list(folder.glob("metrics.g*"))) == 1
            number += 1
        assert seen == {(False, False), (True, False), (True, True)}

    def test_also_where_the_one_before_had_names_of_its_own(self, lost, tmp_path_factory):
        claim(lost, 2)
        restored(lost, 2)
        claim(lost, 3)
        killed, number = True, 0
        while killed:
            folder = tmp_path_factory.mktemp("copy") / "training"
            shutil.copytree(lost, folder)
            killed = killed_before_event(number, lambda at=folder: restored(at, 3))
            assert steps(folder) == ALL_ROWS
            claim(folder, 4)
            assert restored(folder, 4).step == 5
            assert steps(folder) == ALL_ROWS
            assert [path.name for path in folder.glob("metrics.g*")] == ["metrics.g4.jsonl"]
            number += 1


class TestClaimsOfTheLauncher:
    def test_the_same_start_goes_on_in_its_generation_once_its_process_is_over(self, tmp_path):
        claim(tmp_path, 1)
        for step in (1, 2):
            with Session.open(context_of(tmp_path, 1)) as session:
                session.restore()
                session.publish(write("x"), step)
        assert len(generations.records(tmp_path)) == 1

    def test_a_claim_for_another_start_is_not_taken(self, tmp_path):
        claim(tmp_path, 1)
        context = dataclasses.replace(context_of(tmp_path, 1), task=TASK)
        assert holding.take_hold(context).generation.number == 2

    def test_even_a_process_that_is_seen_to_live_is_replaced(self, tmp_path):
        tmp_path.joinpath("writer.json").write_text(json.dumps(trees.identify(os.getppid()).to_json()))
        with pytest.raises(TrainerError, match="trains here already"):
            holding.take_hold(JobContext(trainer_path=tmp_path, storage=tmp_path))
        claim(tmp_path, 1)
        held = holding.take_hold(context_of(tmp_path, 1)).generation
        assert (held.number, held.own_names) == (1, True)

    def test_every_rank_writes_into_the_folder_of_its_start(self, lost, second):
        other = dataclasses.replace(second.context, rank=1)
        with Session.open(other) as follower:
            claim(lost, 3)
            assert follower.staging(6).name == ".staging-6.g2"

    def test_a_rank_without_a_claim_follows_rank_0(self, tmp_path):
        context = JobContext(trainer_path=tmp_path, storage=tmp_path, task=TASK)
        names = list[str]()
        with (
            contextlib.suppress(NotWriterError),
            Session.open(dataclasses.replace(context, rank=1)) as follower,
            Session.open(context) as leader,
        ):
            leader.restore()
            assert leader.staging(2) == follower.staging(2)
            generations.claim(tmp_path, task=TASK)
            names.append(follower.staging(3).name)
        assert names == [".staging-3.g1"]

    @pytest.mark.parametrize("text", ["x", "-1", "1.5"])
    def test_a_number_that_is_none_is_refused(self, text):
        with pytest.raises(contract.BadSpecError, match=f"NEMO_JOB_GENERATION is '{text}'"):
            JobContext.from_environ({"NEMO_JOB_GENERATION": text})


@pytest.mark.parametrize(("meant", "want"), [(0, "stop"), (1, "run"), (2, "stop"), (3, "stop")])
def test_a_request_for_an_older_generation_is_not_taken(tmp_path, meant, want):
    write_control(tmp_path / "control.json", Control(1, "stop", "ann", 1.0, meant))
    requests = ControlRequests(tmp_path / "control.json", None, Flags(), generation=2)
    requests.look()
    assert requests.want == want
