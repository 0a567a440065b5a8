"""Metrics in the store: nothing lost, nothing twice, cut back where training went on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_helix_server.controller import metrics_tail
from nemo_helix_server.jobs.model import WritersStart
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_trainer import contract, taking_over
from nemo_trainer.contract import generations

pytestmark = pytest.mark.services


class Series:
    """The series of a unit of the store, which remembers."""

    def __init__(self):
        self.points = {}
        self.offset = self.file = 0

    def add(self, job_id, step_name, points):
        for point in points:
            self.points[point.name, point.step] = point.value

    def truncate(self, job_id, step_name, after):
        self.points = {key: value for key, value in self.points.items() if key[1] <= after}

    def set_tail(self, job_id, name, offset):
        if name == "training/metrics.generation":
            self.file = offset
        else:
            assert name == "training/metrics.jsonl"
            self.offset = offset

    def continued(self, job_id, step_name, at):
        self.start = at


def row(step, value):
    return contract.MetricRow(step, 1.0, "attempt", {"loss": value}).to_line() + b"\n"


def go_on(step):
    return contract.ContinueRow(step, "attempt", "task", 1.0).to_line() + b"\n"


def trainer(folder):
    return LocalTrainerFiles(folder, folder.parent)


def follow(series, folder):
    for piece in metrics_tail.pieces("job", "training", trainer(folder), series.offset, series.file):
        piece.write(series)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=40),
    st.lists(st.integers(0, 3000), max_size=6),
)
def test_however_the_reads_fall_the_series_is_the_history_of_the_file(tmp_path_factory, events, cuts):
    folder = tmp_path_factory.mktemp("trainer")
    data = b"".join(
        go_on(step) if again else row(step, float(number)) for number, (again, step) in enumerate(events)
    )
    series, path = Series(), folder / "metrics.jsonl"
    for cut in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        path.write_bytes(data[:cut])
        follow(series, folder)
    wanted = {("loss", kept.step): kept.values["loss"] for kept in contract.history(path)}
    assert series.points == wanted
    assert series.offset == len(data)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("row"), st.integers(0, 5), st.integers(1, 20)),
            st.tuples(st.just("take over"), st.integers(0, 20), st.none()),
            st.tuples(st.just("read"), st.none(), st.none()),
        ),
        max_size=40,
    )
)
def test_rows_of_processes_that_were_replaced_are_in_no_series(tmp_path_factory, events):
    """Every generation goes on writing into its file, whatever follows it."""
    folder = tmp_path_factory.mktemp("trainer")
    context = contract.JobContext(trainer_path=folder, storage=folder)
    holders, series, wanted = [context], Series(), {}
    for number, (what, which, step) in enumerate(events):
        if what == "row":
            holder = holders[which % len(holders)]
            made = contract.MetricRow(step, 1.0, "attempt", {"loss": float(number)}, None, holder.generation)
            with holder.paths.metrics.open("ab") as file:
                file.write(made.to_line() + b"\n")
            if holder is holders[-1]:
                wanted[step] = float(number)
        elif what == "take over":
            claimed = generations.claim(folder)
            holders.append(context.holding(claimed.number, own_names=True))
            continued = contract.ContinueRow(which, "attempt", "task", 1.0, claimed.number)
            after = taking_over.predecessor(holders[-1])
            taking_over.begin(holders[-1], which, continued, lambda: None, after=after, at=1.0)
            wanted = {done: value for done, value in wanted.items() if done <= which}
        else:
            follow(series, folder)
    follow(series, folder)
    history = contract.history(folder / "metrics.jsonl")
    assert {row.step: row.values["loss"] for row in history} == wanted
    assert series.points == {("loss", step): value for step, value in wanted.items()}


def test_a_file_that_was_made_anew_is_read_from_its_beginning(tmp_path):
    series, path = Series(), tmp_path / "metrics.jsonl"
    path.write_bytes(row(1, 1.0) + row(2, 2.0))
    follow(series, tmp_path)
    path.write_bytes(go_on(0) + row(1, 5.0))
    series.offset = 10_000
    follow(series, tmp_path)
    assert series.points == {("loss", 1): 5.0}


def test_where_the_newest_writer_went_on_is_kept_with_the_points(tmp_path):
    series, path = Series(), tmp_path / "metrics.jsonl"
    second = contract.ContinueRow(4, "attempt", "task-2", 2.0, 2).to_line() + b"\n"
    path.write_bytes(go_on(0) + b"".join(row(step, 1.0) for step in range(1, 7)) + second + row(5, 3.0))
    follow(series, tmp_path)
    assert (series.start, max(step for _, step in series.points)) == (WritersStart(4, 2), 5)


def test_without_a_file_there_is_nothing(tmp_path):
    assert list(metrics_tail.pieces("job", "training", trainer(tmp_path / "nowhere"), 0)) == []


def test_a_progress_is_told_when_it_changes(tmp_path):
    progress = metrics_tail.TrainingProgress()
    assert progress.changed("task", trainer(tmp_path)) is None
    path = tmp_path / "progress.json"
    contract.write_progress(path, {"step": 1}, durable=False)
    assert progress.changed("task", trainer(tmp_path)) == {"step": 1}
    assert progress.changed("task", trainer(tmp_path)) is None
    contract.write_progress(path, {"step": 2}, durable=False)
    assert progress.changed("task", trainer(tmp_path)) == {"step": 2}
    path.write_text("{")
    assert progress.changed("task", trainer(tmp_path)) is None


def test_whatever_is_written_is_a_sign_of_life(tmp_path):
    seen = {trainer(tmp_path).marks()}
    for path in (tmp_path / "metrics.jsonl", tmp_path / "progress.json"):
        path.write_text("a\n")
        seen.add(trainer(tmp_path).marks())
        path.write_text("a\nb\n")
        seen.add(trainer(tmp_path).marks())
    assert len(seen) == 5
    assert trainer(tmp_path).marks() in seen
