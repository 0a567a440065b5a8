import dataclasses
import json
import subprocess
import sys

import pytest

from nemo_runs.processes import trees
from nemo_trainer import holding
from nemo_trainer.contract import (
    Control,
    JobContext,
    NotWriterError,
    TrainerError,
    list_checkpoints,
    write_control,
)
from nemo_trainer.session import Session

TASK = "task-" + "a" * 32
OTHER_TASK = "task-" + "b" * 32


def context_of(folder, task="local", control_of=None):
    control = folder / "runs" / control_of / "control.json" if control_of else None
    if control is not None:
        control.parent.mkdir(parents=True, exist_ok=True)
    return JobContext(
        trainer_path=folder / "training", storage=folder / "training", task=task, control_file=control
    )


def elsewhere(folder, **facts):
    """Another process, which nobody can see from here, has taken hold."""
    other = dataclasses.replace(trees.identify(), host="node7.example", boot_id="of-node7", pid=1234)
    path = folder / "training" / "writer.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("writer.new")
    new.write_text(json.dumps({**other.to_json(), **facts}))
    new.rename(path)
    return other


def writer(folder):
    return json.loads((folder / "training" / "writer.json").read_text())


def assert_is_writer(folder, generation=1):
    assert writer(folder) == {**trees.identify().to_json(), "generation": generation}


class TestTakingHold:
    def test_a_writer_that_cannot_be_seen_counts_as_alive(self, tmp_path):
        elsewhere(tmp_path)
        with pytest.raises(TrainerError, match=r"process 1234 on node7\.example .* remove .*writer\.json"):
            holding.take_hold(context_of(tmp_path))
        assert writer(tmp_path)["pid"] == 1234

    def test_in_another_pid_namespace_too(self, tmp_path):
        other = dataclasses.replace(trees.identify(), pid_namespace="pid:[1]", pid=1)
        (tmp_path / "training").mkdir()
        (tmp_path / "training" / "writer.json").write_text(json.dumps(other.to_json()))
        with pytest.raises(TrainerError, match="cannot be seen from here"):
            holding.take_hold(context_of(tmp_path))

    def test_the_start_that_the_service_has_made_takes_over(self, tmp_path):
        elsewhere(tmp_path)
        holding.take_hold(context_of(tmp_path, TASK, TASK))
        assert_is_writer(tmp_path)

    @pytest.mark.parametrize("control_of", [None, OTHER_TASK])
    def test_a_start_without_a_control_file_of_its_own_does_not(self, tmp_path, control_of):
        elsewhere(tmp_path)
        with pytest.raises(TrainerError, match="cannot be seen from here"):
            holding.take_hold(context_of(tmp_path, TASK, control_of))

    @pytest.mark.parametrize(("want", "taken"), [("run", True), ("pause", True), ("stop", False)])
    def test_a_start_that_is_to_end_does_not_take_over(self, tmp_path, want, taken):
        elsewhere(tmp_path)
        context = context_of(tmp_path, TASK, TASK)
        write_control(context.control_file, Control(1, want, "ann", 1.0))
        if taken:
            holding.take_hold(context)
        else:
            with pytest.raises(TrainerError, match="cannot be seen from here"):
                holding.take_hold(context)

    def test_a_process_that_is_seen_to_run_is_never_replaced(self, tmp_path):
        sleeper = subprocess.Popen(["sleep", "60"])
        try:
            (tmp_path / "training").mkdir()
            path = tmp_path / "training" / "writer.json"
            path.write_text(json.dumps(trees.identify(sleeper.pid).to_json()))
            with pytest.raises(TrainerError, match="trains here already"):
                holding.take_hold(context_of(tmp_path, TASK, TASK))
        finally:
            sleeper.kill()
            sleeper.wait()

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"host": 1}'])
    def test_a_damaged_record_names_nobody(self, tmp_path, text):
        (tmp_path / "training").mkdir()
        (tmp_path / "training" / "writer.json").write_text(text)
        holding.take_hold(context_of(tmp_path))
        assert_is_writer(tmp_path)


class TestLettingGo:
    def test_who_has_let_go_may_be_followed_on_another_machine(self, tmp_path):
        elsewhere(tmp_path, released_at=1.0)
        holding.take_hold(context_of(tmp_path))
        assert_is_writer(tmp_path)

    def test_a_session_lets_go_at_its_end(self, tmp_path):
        with Session.open(context_of(tmp_path)) as session:
            session.restore()
            assert "released_at" not in writer(tmp_path)
        assert writer(tmp_path)["released_at"] > 0

    def test_a_pause_lets_go(self, tmp_path):
        program = (
            "import pathlib, sys\n"
            "from nemo_trainer.contract import JobContext\n"
            "from nemo_trainer.session import Session\n"
            "folder = pathlib.Path(sys.argv[1])\n"
            "session = Session.open(JobContext(trainer_path=folder, storage=folder))\n"
            "session.restore()\n"
            "session.publish(lambda made: (made / 'state').write_text('x'), 1)\n"
            "session.paused()\n"
        )
        argv = [sys.executable, "-c", program, str(tmp_path / "training")]
        assert subprocess.run(argv, check=False).returncode == 75
        assert writer(tmp_path)["released_at"] > 0

    def test_who_was_replaced_leaves_the_record_of_the_next_one_alone(self, tmp_path):
        hold = holding.take_hold(context_of(tmp_path))
        other = elsewhere(tmp_path)
        hold.release()
        assert writer(tmp_path) == other.to_json()


def state(folder):
    return lambda made: (made / "state").write_text(folder)


WRITES = {
    "metrics": lambda session: session.metrics(2, {"loss": 1.0}),
    "progress": lambda session: session.progress(phase="evaluating"),
    "a checkpoint": lambda session: session.publish(state("old"), 2),
    "a checkpoint of the same step": lambda session: session.publish(state("old"), 1),
    "a staging folder": lambda session: session.staging(2),
    "pruning": lambda session: session.prune(),
    "outputs": lambda session: session.outputs([session.context.trainer_path / "metrics.jsonl"]),
    "restoring": lambda session: session.restore(),
    "the end": lambda session: session.finish(),
    "a pause": lambda session: session.paused(),
}


def save_once(folder, save):
    with Session.open(context_of(folder)) as session:
        session.restore()
        session.publish(save, 1)


def tree(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestTheFence:
    @pytest.mark.parametrize("what", WRITES)
    def test_who_was_replaced_writes_nothing_more(self, tmp_path, what):
        folder = tmp_path / "training"
        found = []

        def train():
            with Session.open(context_of(tmp_path)) as session:
                session.restore()
                session.metrics(1, {"loss": 1.0})
                session.publish(state("old"), 1)
                session._record.close()  # what waits to be written was given before
                elsewhere(tmp_path)
                (folder / "checkpoints" / ".staging-2").mkdir()
                (folder / "checkpoints" / ".staging-2" / "of-the-next").write_text("kept")
                found.append(tree(folder))
                try:
                    WRITES[what](session)
                finally:
                    found.append(tree(folder))

        with pytest.raises(NotWriterError, match=r"process 1234 on node7\.example has taken over"):
            train()
        assert found == [found[0], found[0]]
        assert tree(folder) == found[0]

    def test_a_checkpoint_that_is_replaced_meanwhile_gets_no_manifest(self, tmp_path):
        """The next writer takes hold while this one saves, which can take minutes."""

        def save(made):
            (made / "state").write_text("old")
            elsewhere(tmp_path)

        with pytest.raises(NotWriterError):
            save_once(tmp_path, save)
        assert list_checkpoints(tmp_path / "training") == []
        assert not list((tmp_path / "training").rglob("MANIFEST.json"))

    def test_a_save_that_fails_then_leaves_the_folder_of_the_next_one(self, tmp_path):
        def save(made):
            elsewhere(tmp_path)
            (made / "of-the-next").write_text("kept")
            raise OSError("stale file handle")

        with pytest.raises(NotWriterError):
            save_once(tmp_path, save)
        assert (tmp_path / "training" / "checkpoints" / ".staging-1.g1" / "of-the-next").exists()

    def test_a_record_that_is_gone_is_not_mine(self, tmp_path):
        hold = holding.take_hold(context_of(tmp_path))
        hold.require()
        (tmp_path / "training" / "writer.json").unlink()
        with pytest.raises(NotWriterError, match="does not name this process any more"):
            hold.require()

    def test_the_same_record_put_back_is_mine(self, tmp_path):
        hold = holding.take_hold(context_of(tmp_path))
        path = tmp_path / "training" / "writer.json"
        text = path.read_text()
        path.unlink()
        path.write_text(text)
        hold.require()
