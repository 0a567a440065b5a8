import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_runs.errors import DiskFullError
from nemo_trainer import publishing
from nemo_trainer.contract import (
    MANIFEST,
    PINNED,
    CheckpointUnusableError,
    Control,
    JobContext,
    NotSavedError,
    TrainerError,
    history,
    list_checkpoints,
    list_superseded,
    newest_verified,
    read_progress,
    verify,
    write_control,
)
from nemo_trainer.recording import Recorder
from nemo_trainer.saving import SavePolicy
from nemo_trainer.session import Session


def context_of(folder, **fields):
    fields = {"job": "job", "attempt": "attempt-1", "task": "task-1", **fields}
    return JobContext(trainer_path=folder, storage=folder, **fields)


def write(text):
    return lambda folder: (folder / "state").write_text(text)


def steps(folder):
    return [item.step for item in list_checkpoints(folder)]


def train(folder, numbers, *, save=(), text="x", **fields):
    """One start of a training that does these steps and publishes after some of them."""
    with Session.open(context_of(folder, **fields)) as session:
        restored = session.restore()
        for step in numbers:
            session.metrics(step, {"loss": 1 / step})
            if step in save:
                session.publish(write(f"{text}{step}"), step)
    return restored


def test_the_first_start_begins_fresh_and_leaves_no_continue_row(tmp_path):
    assert train(tmp_path, [1, 2]) is None
    assert [row.step for row in history(tmp_path / "metrics.jsonl")] == [1, 2]
    assert "continue_from" not in (tmp_path / "metrics.jsonl").read_text()


def test_a_later_start_goes_on_from_the_newest_checkpoint_and_says_so(tmp_path):
    train(tmp_path, range(1, 6), save=[2, 4])
    assert train(tmp_path, [5, 6], attempt="attempt-2").step == 4
    found = history(tmp_path / "metrics.jsonl")
    assert [(row.step, row.attempt) for row in found] == [
        *((step, "attempt-1") for step in (1, 2, 3, 4)),
        *((step, "attempt-2") for step in (5, 6)),
    ]


def test_a_crash_before_the_first_checkpoint_starts_from_the_beginning(tmp_path):
    train(tmp_path, [1, 2, 3])
    assert train(tmp_path, [1], task="task-2") is None
    assert [row.step for row in history(tmp_path / "metrics.jsonl")] == [1]


def test_a_damaged_checkpoint_is_named_passed_over_and_replaced(tmp_path, capsys):
    train(tmp_path, range(1, 7), save=[2, 4, 6])
    (tmp_path / "checkpoints/6/state").write_text("y6")
    (tmp_path / "checkpoints/4" / MANIFEST).unlink()
    with Session.open(context_of(tmp_path)) as session:
        assert session.restore().step == 2
        named = read_progress(tmp_path / "progress.json")["passed_over"]
        assert [("checkpoints/6/state" in named[0]), ("checkpoints/4" in named[1])] == [True, True]
        assert "checkpoints/6/state" in capsys.readouterr().err
        session.publish(write("new4"), 4)
        session.publish(write("new6"), 6)
    assert newest_verified(tmp_path, deep=True).checkpoint.step == 6
    assert (tmp_path / "checkpoints/6/state").read_text() == "new6"
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "4", "6"]


def test_the_checkpoint_that_was_named_wins_and_later_ones_step_aside(tmp_path):
    train(tmp_path, range(1, 7), save=[2, 4, 6])
    named = tmp_path / "checkpoints/2"
    again = {"attempt": "attempt-2", "checkpoint": named}
    assert train(tmp_path, [3], **again).folder == named
    assert steps(tmp_path) == [2]
    assert [item.step for item in list_superseded(tmp_path)] == [4, 6]
    assert [row.step for row in history(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    # killed before it saved anything: the same start again
    assert train(tmp_path, [3, 4, 5], save=[5], text="new", **again).step == 2
    # the attempt has its own later checkpoint now
    assert train(tmp_path, [6], **again).step == 5
    assert [row.step for row in history(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_a_named_checkpoint_may_lie_outside_and_be_newer_than_all_others(tmp_path):
    train(tmp_path / "job", range(1, 7), save=[2, 4, 6])
    pinned = tmp_path / "pinned"
    shutil.copytree(tmp_path / "job/checkpoints/6", pinned)
    shutil.rmtree(tmp_path / "job/checkpoints/6")
    again = {"attempt": "attempt-2", "checkpoint": pinned}
    for _ in range(2):
        assert train(tmp_path / "job", [7], **again).folder == pinned
    assert steps(tmp_path / "job") == [2, 4]


def test_a_named_checkpoint_that_is_damaged_ends_training(tmp_path):
    train(tmp_path, range(1, 5), save=[2, 4])
    (tmp_path / "checkpoints/2/state").write_text("zz")
    refused = pytest.raises(CheckpointUnusableError, match=r"asked for cannot be used.*state")
    with Session.open(context_of(tmp_path, checkpoint=tmp_path / "checkpoints/2")) as session, refused:
        session.restore()
    assert steps(tmp_path) == [2, 4]


def test_a_checkpoint_of_other_inputs_is_refused_by_name(tmp_path):
    with Session.open(context_of(tmp_path), inputs={"data": "1", "world_size": "2"}) as session:
        session.restore()
        session.publish(write("x"), 1)
    now = {"data": "2", "world_size": "2", "new": "3"}
    refused = pytest.raises(CheckpointUnusableError, match=r"other inputs: data was 1 when .* is 2 now")
    with Session.open(context_of(tmp_path), inputs=now) as session, refused:
        session.restore()


def test_a_folder_is_moved_into_its_place_and_its_links_may_not_lead_out(tmp_path):
    source = tmp_path / "checkpoint-3"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a").write_text("1")
    (source / "b").symlink_to("deep/a")
    with Session.open(context_of(tmp_path / "job")) as session:
        session.restore()
        checkpoint = session.publish(source, 3, "asked", metrics={"val": 1.0}, engine={"torch": "2"})
        assert not source.exists()
        assert [entry.path for entry in checkpoint.manifest.files] == ["b", "deep/a"]
        assert (checkpoint.manifest.reason, checkpoint.manifest.engine) == ("asked", {"torch": "2"})
        assert verify(checkpoint.folder, deep=True) == []
        source.mkdir()
        (source / "c").symlink_to("/etc/hostname")
        with pytest.raises(NotSavedError, match="leads out"):
            session.publish(source, 4)
        with pytest.raises(NotSavedError, match="not a folder"):
            session.publish(tmp_path / "none", 4)
        with pytest.raises(NotSavedError, match="is empty"):
            session.publish(lambda _folder: None, 4)
    assert steps(tmp_path / "job") == [3]


def test_a_library_may_save_in_the_final_place(tmp_path):
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        place = tmp_path / "checkpoints/3"
        place.mkdir()
        (place / "a").write_text("1")
        assert newest_verified(tmp_path, deep=False).checkpoint is None
        assert session.publish(place, 3).step == 3
    assert newest_verified(tmp_path, deep=True).checkpoint.step == 3


def test_an_error_of_the_writer_leaves_the_older_checkpoint_and_no_rubbish(tmp_path):
    def fail(folder):
        (folder / "half").write_text("x")
        raise KeyError("a bug")

    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        session.publish(write("x"), 1)
        with pytest.raises(KeyError):
            session.publish(fail, 2)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["1"]


def test_a_full_disk_leaves_the_older_checkpoint_usable_and_is_one_clear_sentence(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        with Session.open(context_of(folder)) as session:
            session.restore()
            session.metrics(1, {"loss": 1.0})
            session.publish(write("1" * 50_000), 1)
            for how in (write("2" * 400_000), _quietly_full):
                with pytest.raises(
                    NotSavedError, match=r"step 2 was not saved: no space is left.* as they were"
                ):
                    session.publish(how, 2)
            assert newest_verified(folder, deep=True).checkpoint.step == 1
            session.metrics(2, {"loss": 1.0})
            session.publish(write("3" * 50_000), 3)
        assert steps(folder) == [1, 3]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _quietly_full(folder):
    """As libraries do: the reason does not reach the error."""
    with (folder / "big").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096) == 4096:
            pass
    raise RuntimeError("unexpected pos")


def test_a_limit_on_file_size_is_a_full_disk_too(tmp_path):
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from nemo_trainer.contract import JobContext, NotSavedError\n"
        "from nemo_trainer.session import Session\n"
        "folder = Path(sys.argv[1])\n"
        "with Session.open(JobContext(trainer_path=folder, storage=folder)) as session:\n"
        "    session.restore()\n"
        "    session.publish(lambda to: (to / 'a').write_bytes(b'1'), 1)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "    try:\n"
        "        session.publish(lambda to: (to / 'a').write_bytes(b'1' * 60_000), 2)\n"
        "    except NotSavedError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "step 2 was not saved: no space is left" in done.stdout
    assert newest_verified(tmp_path, deep=True).checkpoint.step == 1


def test_a_file_that_is_still_being_written_is_not_published(tmp_path, monkeypatch):
    def racing(folder):
        path = folder / "state"
        path.write_text("x")
        real = os.fsync

        def growing(descriptor):
            monkeypatch.setattr(os, "fsync", real)
            with path.open("a") as file:
                file.write("more")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", growing)

    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        with pytest.raises(NotSavedError, match="still writes"):
            session.publish(racing, 1)
    assert steps(tmp_path) == []


def test_a_crash_between_the_two_renames_of_a_replacement_loses_nothing(tmp_path):
    train(tmp_path, [1, 2], save=[1, 2])
    (tmp_path / "checkpoints/2").rename(tmp_path / "checkpoints/.replaced-2-abc")
    (tmp_path / "checkpoints/.staging-2").mkdir()
    assert train(tmp_path, []).step == 2
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["1", "2"]


def test_a_pinned_checkpoint_that_is_replaced_is_kept_beside(tmp_path):
    train(tmp_path, [1, 2], save=[1, 2])
    (tmp_path / "checkpoints/2" / PINNED).touch()
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        session.publish(write("again"), 2)
        for step in range(3, 8):
            session.publish(write("x"), step)
            session.prune()
    assert [item.pinned for item in list_superseded(tmp_path)] == [True]
    assert steps(tmp_path) == [6, 7]


def test_pruning_keeps_two_whole_ones_the_best_and_the_pinned(tmp_path):
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        for step, loss in zip(range(1, 8), [9, 1, 5, 4, 3, 2, 1.5], strict=True):
            session.publish(write("x"), step, metrics={"loss": loss})
        (tmp_path / "checkpoints/3" / PINNED).touch()
        shutil.rmtree(tmp_path / "checkpoints/1")
        (tmp_path / "checkpoints/1").mkdir()
        assert session.prune(keep=0, best=("loss", "min")) == [1, 4, 5]
        assert steps(tmp_path) == [2, 3, 6, 7]
        assert session.prune(keep=3, best=("loss", "max"), keep_steps={2}) == []
        assert session.prune(keep=3, best=("loss", "max")) == [2]


def test_what_takes_long_between_two_steps_hears_of_a_pause_and_counts_for_no_step(tmp_path):
    control = tmp_path / "control.json"
    context = dataclasses.replace(context_of(tmp_path), control_file=control)
    with Session.open(context) as session:
        session.restore()
        session.wanted()
        assert not session.interrupted()
        session.evaluated()
        write_control(control, Control(1, "pause", "test", 1.0))
        assert session.interrupted()
        assert session.wanted() == "pause"


def test_pruning_never_counts_a_damaged_one_among_the_last_two(tmp_path):
    train(tmp_path, range(1, 6), save=range(1, 6))
    (tmp_path / "checkpoints/4/state").write_text("zz")
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        assert session.prune() == [1, 2]
        assert steps(tmp_path) == [3, 4, 5]


def test_checkpoints_beside_the_history_go_once_it_has_reached_their_step(tmp_path):
    train(tmp_path, range(1, 5), save=[2, 4])
    with Session.open(context_of(tmp_path, checkpoint=tmp_path / "checkpoints/2")) as session:
        session.restore()
        session.publish(write("b3"), 3)
        session.prune()
        assert [item.step for item in list_superseded(tmp_path)] == [4]
        session.publish(write("b4"), 4)
        session.prune()
        assert list_superseded(tmp_path) == []


def test_a_request_is_seen_at_the_next_look_and_can_be_withdrawn(tmp_path):
    control = tmp_path / "control.json"
    with Session.open(context_of(tmp_path, control_file=control), boundary=5) as session:
        session.restore()
        session.metrics(6, {"loss": 1.0})
        assert session.wanted() == "run"
        write_control(control, Control(1, "pause", "ada", 1.0))
        assert session.wanted() == session.wanted() == "pause"
        progress = read_progress(tmp_path / "progress.json")
        assert (progress["seq_seen"], progress["stops_at"]) == (1, 10)
        assert [session.may_stop(step) for step in (9, 10)] == [False, True]
        write_control(control, Control(2, "run", "ada", 2.0))
        assert session.wanted() == "run"
        progress = read_progress(tmp_path / "progress.json")
        assert (progress["seq_seen"], progress["stops_at"]) == (2, None)
        control.write_bytes(b"{")
        assert session.wanted() == "run"
        write_control(control, Control(3, "stop", "ada", 3.0))
        assert session.wanted() == "stop"


def test_a_checkpoint_that_was_asked_for_is_saved_once(tmp_path):
    control = tmp_path / "control.json"
    write_control(control, Control(1, "checkpoint", "ada", 1.0))
    with Session.open(context_of(tmp_path, control_file=control)) as session:
        session.restore()
        assert session.wanted() == "checkpoint"
        session.publish(write("x"), 1, "asked")
        assert session.wanted() == "run"
        write_control(control, Control(2, "checkpoint", "ada", 2.0))
        assert session.wanted() == "checkpoint"


@contextlib.contextmanager
def opened_files():
    """Paths of the files that this process opens."""
    opened, listening = [], True

    def hook(event, arguments):
        if listening and event == "open":
            opened.append(arguments[0])

    sys.addaudithook(hook)
    yield opened
    listening = False


@pytest.mark.parametrize("there", [True, False])
def test_looking_opens_no_file_that_has_not_changed(tmp_path, there):
    control = tmp_path / "control.json"
    if there:
        write_control(control, Control(1, "run", "ada", 1.0))
    with Session.open(context_of(tmp_path, control_file=control)) as session:
        session.restore()
        session.wanted()
        with opened_files() as opened:
            for _ in range(200):
                session.wanted()
    assert opened == []


def test_only_rank_0_writes_and_the_others_follow_its_decision(tmp_path):
    control = tmp_path / "control.json"
    write_control(control, Control(1, "pause", "ada", 1.0))
    with Session.open(context_of(tmp_path, control_file=control)) as first:
        first.restore()
        first.publish(write("x"), 1)
        assert first.wanted() == "pause"
        before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file())
        with Session.open(context_of(tmp_path, control_file=control, rank=1)) as other:
            assert other.restore().step == 1
            other.metrics(2, {"loss": 1.0})
            other.progress(step=2)
            assert other.prune() == []
            other.outputs([tmp_path / "nowhere"])
            decision = first.agreed(lambda want: want)
            assert other.agreed(lambda _own: decision) == "pause"
            with pytest.raises(TrainerError, match="rank 1 must not publish"):
                other.publish(write("x"), 2)
            assert other.staging(7) == publishing.staging(first.context.paths, 7)
        after = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file())
        assert before == after


def test_the_files_of_several_ranks_are_published_together(tmp_path):
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        folder = session.staging(4)
        for rank in range(3):
            (folder / f"shard-{rank}").write_text(str(rank))
        checkpoint = session.publish(folder, 4)
    assert [entry.path for entry in checkpoint.manifest.files] == ["shard-0", "shard-1", "shard-2"]


def test_progress_is_what_the_trainer_said_and_ends_with_its_final_step(tmp_path):
    path = tmp_path / "progress.json"
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        session.progress(max_steps=8, phase="validation", backend="example")
        session.metrics(2, {"loss": 1.0})
        session.progress(phase="training")
        progress = read_progress(path)
        assert (progress["step"], progress["percentage_done"], progress["backend"]) == (2, 25.0, "example")
        assert "final_step" not in progress
        session.metrics(3, {"loss": 1.0})
        session.finish()
    progress = read_progress(path)
    assert (progress["phase"], progress["final_step"], progress["percentage_done"]) == ("completed", 3, 100.0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (TrainerError("The loss is no number."), "The loss is no number."),
        (DiskFullError("The disk is full."), "The disk is full."),
    ],
)
def test_an_error_is_in_the_last_progress(tmp_path, error, message):
    def fail():
        with Session.open(context_of(tmp_path)) as session:
            session.restore()
            session.metrics(3, {"loss": 1.0})
            raise error

    with pytest.raises(type(error), match=str(error)):
        fail()
    progress = read_progress(tmp_path / "progress.json")
    assert (progress["phase"], progress["message"], progress["final_step"]) == (
        "failed",
        message,
        3,
    )


def test_pausing_without_a_checkpoint_of_the_last_step_is_an_error(tmp_path):
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        session.publish(write("x"), 1)
        session.metrics(2, {"loss": 1.0})
        with pytest.raises(NotSavedError, match="newest checkpoint is of step 1, and step 2 is finished"):
            session.paused()


def test_a_second_process_in_the_same_folder_is_refused(tmp_path):
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        from nemo_runs.processes import trees

        (tmp_path / "writer.json").write_text(json.dumps(trees.identify(sleeper.pid).to_json()))
        with pytest.raises(TrainerError, match=f"process {sleeper.pid} trains here already"):
            Session.open(context_of(tmp_path))
    finally:
        sleeper.kill()
        sleeper.wait()
    train(tmp_path, [1])


@pytest.mark.parametrize("step", [0, -1])
def test_steps_are_counted_from_1(tmp_path, step):
    with Session.open(context_of(tmp_path)) as session:
        session.restore()
        with pytest.raises(TrainerError, match="from 1 on"):
            session.metrics(step, {"loss": 1.0})
        with pytest.raises(TrainerError, match="from 1 on"):
            session.publish(write("x"), step)


def test_saves_are_due_by_steps_by_time_and_at_boundaries_only():
    policy = SavePolicy(steps=10, seconds=900, boundary=4)
    policy.start(0, 100.0)
    assert [step for step in range(1, 13) if policy.due(step, 101.0)] == [12]
    policy.saved(12, 102.0)
    assert not policy.due(12, 5000.0)
    assert [policy.due(16, now) for now in (1001.9, 1002.0)] == [False, True]
    assert [policy.due(step, 103.0) for step in (16, 20)] == [False, True]
    assert not SavePolicy(seconds=None).due(1000, 1e9)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_date_that_is_set_neither_silences_the_progress_nor_makes_it_write_at_each_step(tmp_path, jump):
    moment = {"date": 1_800_000_000.0, "passed": 0.0}
    record = Recorder(context_of(tmp_path), clock=lambda: moment["date"], monotonic=lambda: moment["passed"])
    path = tmp_path / "progress.json"

    def written():
        record.close()
        return read_progress(path).get("step")

    record.progress({"step": 1})
    assert written() == 1
    moment["date"] += jump
    moment["passed"] += 0.1
    record.progress({"step": 2})
    assert written() == 1
    moment["passed"] += 0.5
    record.progress({"step": 3})
    assert written() == 3
