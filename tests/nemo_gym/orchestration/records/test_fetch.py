"""Copies of run directories: what comes, what does not, and what is never overwritten. Local and over ssh."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.lab import Lab, slurm_lab

from nemo_gym.errors import DataError, GymError
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.fetch import Fetched, fetch, is_wanted
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import Completed, Host, LocalHost
from nemo_slurm.ssh import SshHost

pytestmark = pytest.mark.services

__all__ = ["slurm_lab"]

FILES = {
    "gym-job.json": "",
    "resolved-config.yaml": "compute: {}\n",
    "sums/run.yaml": "{}\n",
    "sums/.gym_events.jsonl": '{"event":"queued"}\n',
    "sums/links/7.0/started": "1\n",
    "sums/artifacts/rollouts.jsonl": "row one\nrow two\n",
    "sums/artifacts/progress.json": '{"done":2}',
    'sums/artifacts/it\'s "odd"\n$(x) ☃': "odd\n",
}
LEFT = {
    "sums/job.sh": "export KEY=canary\n",
    "sums/shell/header.sh": "x\n",
    "sums/model-calls/1.json": "{}",
    "sums/otel/traces.json": "{}",
    "sums/artifacts/rollouts.lock/000001": "{}",
    "sums/artifacts/rollouts.jsonl.superseded-000002": "old\n",
    "sums/artifacts/.tmp-1-abc": "half",
}
LOGS = {"sums/logs/driver-7.log": "talk\n", "sums/slurm-7.out": "talk\n"}


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.slurm)])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of host."""
    if request.param == "local":
        yield LocalHost()
        return
    lab: Lab = request.getfixturevalue("slurm_lab")
    with SshHost("lab", environ=lab.environ) as found:
        yield found


class Run:
    """A run directory and the folder that it is fetched to."""

    def __init__(self, folder: Path) -> None:
        self.run_dir, self.to = folder / "runs" / "gym-job-20261129T000001Z-00000a", folder / "copy"
        entry = BenchmarkEntry(benchmark="sums", job_dir=str(self.run_dir / "sums"), job_id="7")
        self.record = SubmissionRecord(
            gym_job_id=self.run_dir.name,
            gym_version="0.1.0",
            gym_commit=None,
            submitted_at="2026-11-29T00:00:01Z",
            run_dir=str(self.run_dir),
            cluster="here",
            executor="local",
            submitted_by="ada",
            benchmarks=(entry,),
        )
        for name, text in {**FILES, **LEFT, **LOGS}.items():
            self.write(name, text)
        self.write("gym-job.json", self.record.dumps().decode())

    def write(self, name: str, text: str) -> None:
        path = self.run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def fetch(self, host: Host | None = None, *, logs: bool = False) -> Fetched:
        return fetch(self.record, host or LocalHost(), self.to, logs=logs)

    def here(self) -> dict[str, str]:
        found = {p.relative_to(self.to).as_posix(): p for p in self.to.rglob("*") if p.is_file()}
        found.pop(".gym_fetched.json", None)
        return {name: path.read_text() for name, path in found.items()}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_results_and_records_come_and_captures_scripts_and_claims_do_not(run: Run, host: Host):
    done = run.fetch(host)
    assert run.here() == {**FILES, "gym-job.json": run.record.dumps().decode()}
    assert done.new == sorted(FILES)
    assert (done.files, done.changing) == (len(FILES), [])
    assert run.fetch(host).new == []


def test_logs_come_when_they_are_asked_for(run: Run):
    run.fetch()
    assert run.fetch(logs=True).new == sorted(LOGS)


def test_a_copy_of_an_unfinished_run_is_brought_up_to_date(run: Run, host: Host):
    run.fetch(host)
    run.write("sums/artifacts/rollouts.jsonl", "row one\nrow two\nrow three\n")
    run.write("sums/artifacts/progress.json", '{"done":3}')
    run.write("sums/links/8.0/started", "2\n")
    done = run.fetch(host)
    assert done.new == [
        "sums/artifacts/progress.json",
        "sums/artifacts/rollouts.jsonl",
        "sums/links/8.0/started",
    ]
    assert run.here()["sums/artifacts/progress.json"] == '{"done":3}'


def test_a_file_that_was_changed_here_is_never_overwritten_and_nothing_is_copied(run: Run):
    run.fetch()
    mine = run.to / "sums" / "artifacts" / "rollouts.jsonl"
    mine.write_text("row one, graded anew\n")
    run.write("sums/links/8.0/started", "2\n")
    with pytest.raises(GymError, match=r"other content than the run \(sums/artifacts/rollouts.jsonl\)"):
        run.fetch()
    assert mine.read_text() == "row one, graded anew\n"
    assert not (run.to / "sums" / "links" / "8.0").exists()


def test_a_change_that_keeps_size_and_time_is_seen_only_where_nobody_vouches(run: Run):
    run.to.mkdir()
    there, here = run.run_dir / "resolved-config.yaml", run.to / "resolved-config.yaml"
    here.write_text(there.read_text().upper())
    os.utime(here, ns=(there.stat().st_mtime_ns,) * 2)
    with pytest.raises(GymError, match="other content"):
        run.fetch()


def test_equal_files_that_came_another_way_are_taken_as_they_are(run: Run):
    run.to.mkdir()
    (run.to / "resolved-config.yaml").write_text(FILES["resolved-config.yaml"])
    run.fetch()
    assert run.here()["resolved-config.yaml"] == FILES["resolved-config.yaml"]


class Breaking(LocalHost):
    """A host whose connection breaks after a number of files, or that garbles one."""

    def __init__(self, *, after: int | None = None, garble: str | None = None) -> None:
        self.after, self.garble = after, garble

    def copy_out(self, remote, local, *, wanted=None, **more):
        names: list[str] = []

        def some(path: str) -> bool:
            chosen = wanted(path) and (self.after is None or len(names) < self.after)
            names.extend([path] * chosen)
            return chosen

        done = super().copy_out(remote, local, wanted=some, **more)
        if self.after is not None:
            raise NotReachableError("the connection broke")
        if self.garble:
            path = local / self.garble
            found = path.stat()
            path.write_bytes(b"?" * found.st_size)
            os.utime(path, ns=(found.st_mtime_ns,) * 2)
        return done


def test_a_copy_that_broke_off_goes_on_although_the_run_went_on_too(run: Run):
    with pytest.raises(NotReachableError):
        run.fetch(Breaking(after=4))
    copied = run.here()
    assert len(copied) == 4
    run.write("sums/artifacts/progress.json", '{"done":9}')
    done = run.fetch()
    assert set(done.new) == (set(FILES) - set(copied)) | {"sums/artifacts/progress.json"}
    assert run.here()["sums/artifacts/progress.json"] == '{"done":9}'


def test_a_file_that_arrives_damaged_is_removed_and_comes_with_the_next_fetch(run: Run):
    name = "sums/artifacts/rollouts.jsonl"
    with pytest.raises(GymError, match="arrived damaged"):
        run.fetch(Breaking(garble=name))
    assert name not in run.here()
    assert run.fetch().new == [name]


class Writing(LocalHost):
    """A host on which a file is replaced just after it was copied."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def copy_out(self, remote, local, **more):
        done = super().copy_out(remote, local, **more)
        self.path.write_text('{"done":3, "more": 1}')
        return done


def test_a_file_that_is_replaced_while_it_is_copied_is_told_and_comes_again(run: Run):
    name = "sums/artifacts/progress.json"
    assert run.fetch(Writing(run.run_dir / name)).changing == [name]
    done = run.fetch()
    assert (done.new, done.changing) == ([name], [])


class Working(LocalHost):
    """A host on which the run replaces its files between the listing of a copy and the copy itself."""

    def __init__(self, run: Run, *, breaks: bool = False) -> None:
        self.run_of, self.breaks, self.copies = run, breaks, 0

    def copy_out(self, remote, local, *, expect, **more):
        self.copies += 1
        # shorter than it was listed, and one that is gone: the stream gets out of step
        self.run_of.write("sums/artifacts/progress.json", '{"done":3, "state": "running"}')

        def listed(files):
            expect(files)
            if self.copies == 1:
                self.run_of.write("sums/artifacts/progress.json", "{}")
                (self.run_of.run_dir / "sums" / "links" / "7.0" / "started").unlink()

        done = super().copy_out(remote, local, expect=listed, **more)
        if self.breaks:
            raise NotReachableError("the connection broke")
        return done


def test_what_the_run_replaces_or_removes_during_a_copy_is_copied_again(run: Run):
    host = Working(run)
    done = run.fetch(host)
    assert host.copies == 2
    assert set(run.here()) == set(FILES) - {"sums/links/7.0/started"}
    assert (set(done.new), done.files) == (set(run.here()), len(run.here()))
    assert run.fetch().new == []


def test_a_copy_that_broke_off_is_ours_although_its_files_were_newer_than_listed(run: Run):
    run.fetch()
    with pytest.raises(NotReachableError):
        run.fetch(Working(run, breaks=True))
    run.write("sums/artifacts/progress.json", '{"done":4}')
    run.write("sums/run.yaml", "{changed: 1}\n")
    assert set(run.fetch().new) == {"sums/artifacts/progress.json", "sums/run.yaml"}


def test_folders_of_a_run_that_were_moved_and_linked_come_and_other_links_do_not(
    run: Run, host: Host, tmp_path: Path
):
    for path in (run.run_dir / "sums" / "artifacts", run.run_dir / "sums"):
        path.rename(tmp_path / f"moved {path.name}")
        path.symlink_to(tmp_path / f"moved {path.name}")
    model = tmp_path / "a model"
    model.mkdir()
    (model / "weights").write_text("many")
    (run.run_dir / "sums" / "model").symlink_to(model)
    (run.run_dir / "sums" / "artifacts" / "again").symlink_to(run.run_dir)
    assert set(run.fetch(host).new) == set(FILES)
    assert set(run.here()) == set(FILES)


class Mounted(LocalHost):
    """Another machine with the same file systems."""

    name = "login"


def test_the_run_itself_is_refused_over_a_file_system_that_both_machines_have(run: Run):
    before = sorted(path.name for path in run.run_dir.iterdir())
    with pytest.raises(GymError, match="here already"):
        fetch(run.record, Mounted(), run.run_dir, logs=False)
    assert sorted(path.name for path in run.run_dir.iterdir()) == before
    assert fetch(run.record, Mounted(), run.to, logs=False).new
    assert fetch(run.record, Mounted(), run.to, logs=False).new == []


def test_a_folder_of_another_submission_the_run_itself_and_a_lost_run_are_refused(run: Run):
    with pytest.raises(GymError, match="here already"):
        fetch(run.record, LocalHost(), run.run_dir, logs=False)
    with pytest.raises(GymError, match="is a file"):
        fetch(run.record, LocalHost(), run.run_dir / "gym-job.json", logs=False)
    other = json.loads(run.record.dumps()) | {"gym_job_id": "gym-job-20261129T000001Z-00000b"}
    run.to.mkdir()
    (run.to / "gym-job.json").write_text(json.dumps(other))
    with pytest.raises(GymError, match="another submission"):
        run.fetch()
    (run.to / "gym-job.json").unlink()
    run.run_dir.rename(run.run_dir.with_name("gone"))
    with pytest.raises(GymError, match="there is no folder"):
        run.fetch()


@pytest.mark.parametrize("text", ["{", "[]", '{"files": {"a": {}}}', '{"files": {"a": 1}}'])
def test_a_damaged_ledger_vouches_for_nothing(run: Run, text: str):
    run.fetch()
    (run.to / ".gym_fetched.json").write_text(text)
    with pytest.raises(DataError, match="is damaged"):
        run.fetch()


class Silent(LocalHost):
    """A host that cannot list."""

    def run(self, script, *, env=None, timeout=60):
        return Completed(1, "", "find: Permission denied")


def test_a_host_that_cannot_list_is_one_sentence(run: Run):
    with pytest.raises(GymError, match=r"cannot be listed \(find: Permission denied\)"):
        run.fetch(Silent())


@pytest.mark.parametrize("name", [*FILES, "sums/artifacts/rollouts.jsonl.torn-1", "resubmits/1/reason"])
def test_what_is_wanted(name: str):
    assert is_wanted(name, logs=False)


@pytest.mark.parametrize("name", [*LEFT, *LOGS, "sums/resubmits/1/job.sh", "sums/.gym_x.new", ".slots/1"])
def test_what_is_not_wanted(name: str):
    assert not is_wanted(name, logs=False)
    assert is_wanted(name, logs=True) == (name in LOGS)
