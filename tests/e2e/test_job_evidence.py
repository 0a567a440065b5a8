"""`gym job verify|bill|fetch|adopt|rebuild` as programs, about real jobs of this machine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.far_machine import FAR, stand_in
from tests.mock_server import MockServer

pytestmark = pytest.mark.e2e

GYM = Path(sys.executable).with_name("gym")
CANARY = "canary-77aa-never-copied"
SUBMIT = """
compute:
  here: {{type: local, max_parallel: 2, gpus: 2}}
driver:
  env: {{TOKEN: "host:CANARY"}}
  benchmarks:
    sums:
      prepare: {{}}
      run:
        config_paths: [benchmarks/arithmetic/config.yaml]
        prepare_script_args: {{num_tasks: 6}}
        num_repeats: 2
        policy_base_url: {url}
        policy_model_name: mock
job: {{output_path: runs}}
"""


class Home:
    """A user who has submitted one benchmark and waited for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folders = {"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"}
        self.environ = {**os.environ, "HOME": str(folder / "home"), "CANARY": CANARY}
        self.environ |= {name: str(folder / sub) for name, sub in folders.items()}
        with MockServer(latency=0.02) as server:
            (folder / "submit.yaml").write_text(SUBMIT.format(url=server.base_url))
            self.record = json.loads(self.gym("eval", "submit", "-c", "submit.yaml", "--follow", "--json"))
        self.id = self.record["gym_job_id"]
        self.run_dir = Path(self.record["run_dir"])
        self.rows = self.run_dir / "sums" / "artifacts" / "rollouts.jsonl"
        self.index = folder / "cache" / "nemo-gym" / "jobs" / f"{self.id}.json"

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(GYM), *arguments],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert CANARY not in done.stdout + done.stderr
        return done

    def gym(self, *arguments: str, status: int = 0) -> str:
        done = self.call(*arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Home:
    """Shared: whoever changes it copies it first."""
    return Home(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def home(finished: Home, tmp_path: Path) -> Home:
    """The same user, with a run directory that may be damaged, at another place."""
    mine = object.__new__(Home)
    vars(mine).update(vars(finished))
    mine.run_dir = tmp_path / finished.id
    shutil.copytree(finished.run_dir, mine.run_dir)
    mine.rows = mine.run_dir / "sums" / "artifacts" / "rollouts.jsonl"
    return mine


def test_a_finished_run_is_certified_and_nothing_is_written(finished: Home):
    before = {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")}
    found = json.loads(finished.gym("job", "verify", "latest", "--json"))
    assert (found["schema_version"], found["valid"], found["gym_job_id"]) == (1, True, finished.id)
    (sums,) = found["benchmarks"]
    assert (sums["expected"], sums["present"], sums["missing"]) == (12, 12, 0)
    assert sums["problems"] == found["problems"] == sums["notes"] == []
    assert found["config_digest"] == finished.record["config_digest"]
    assert set(sums["digests"]) == {"rows", "materialized_inputs", "generation", "scoring"}
    assert before == {path: path.stat().st_mtime_ns for path in finished.run_dir.rglob("*")}
    said = finished.gym("job", "verify", finished.id, "sums")
    assert "expected 12, present once 12, missing 0" in said
    assert said.endswith("CERTIFIED: complete and intact.\n")


def test_a_row_that_is_missing_doubled_torn_or_changed_is_no_longer_certified(home: Home):
    rows = home.rows.read_bytes().splitlines(keepends=True)
    home.rows.write_bytes(b"".join(rows[1:]) + rows[1] + rows[2].replace(b'"reward":1', b'"reward":0'))
    with home.rows.open("ab") as file:
        file.write(rows[0][:40])
    found = json.loads(home.gym("job", "verify", str(home.run_dir), "--json", status=1))
    (sums,) = found["benchmarks"]
    assert found["valid"] is sums["valid"] is False
    counts = {key: sums[key] for key in ("present", "missing", "duplicates", "damaged", "torn_bytes")}
    assert counts == {"present": 11, "missing": 1, "duplicates": 1, "damaged": 1, "torn_bytes": 40}
    assert len(sums["problems"]) == 4
    said = home.gym("job", "verify", str(home.run_dir), status=1)
    assert "NOT CERTIFIED" in said


def test_a_changed_config_or_changed_inputs_are_no_longer_certified(home: Home):
    config = home.run_dir / "resolved-config.yaml"
    config.write_text(config.read_text().replace("num_repeats: 2", "num_repeats: 3"))
    run = home.run_dir / "sums" / "run.yaml"
    run.write_text(run.read_text().replace("num_repeats: 2", "num_repeats: 3"))
    inputs = home.rows.with_name("rollouts_materialized_inputs.jsonl")
    inputs.write_bytes(inputs.read_bytes().replace(b"+", b"-", 1))
    found = json.loads(home.gym("job", "verify", str(home.run_dir), "--json", status=1))
    assert "the job record says" in found["problems"][0]
    problems = found["benchmarks"][0]["problems"]
    assert any("sha256" in problem and "materialized" in problem for problem in problems)
    assert any("num_repeats: 3 → 2" in problem for problem in problems)


def test_a_submission_that_is_not_there_is_one_sentence(finished: Home):
    done = finished.call("job", "verify", "gym-job-2000")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    done = finished.call("job", "verify", "latest", "nobody")
    assert "has no benchmark 'nobody'; it has sums" in done.stderr


def test_a_bill_gives_every_allocated_millisecond_one_owner(finished: Home):
    found = json.loads(finished.gym("job", "bill", finished.id, "--json"))
    assert found["schema_version"] == 1
    (sums,) = found["benchmarks"]
    (link,) = sums["links"]
    seen = json.loads((finished.run_dir / "sums" / "links" / f"{link['link']}" / "exit.json").read_text())
    assert sum(link["owners_ms"].values()) == link["allocated_ms"] == found["total"]["allocated_ms"]
    assert link["allocated_ms"] == round(1000 * seen["ended_at"]) - round(1000 * seen["started_at"])
    assert all(link["owners_ms"][owner] > 0 for owner in ("install", "load", "useful", "idle"))
    assert sums["gpu_hours"] == pytest.approx(2 * link["allocated_ms"] / 3_600_000)
    assert found["would_have_saved"]
    said = finished.gym("job", "bill", "latest")
    assert said.splitlines()[0].split()[:4] == ["ID", "BENCHMARK", "LINK", "QUEUE"]
    assert "What would have saved most: " in said


def test_a_bill_wants_an_id_or_a_label(finished: Home):
    finished.gym("job", "bill", status=2)
    finished.gym("job", "bill", "latest", "--label", "a=b", status=2)
    assert json.loads(finished.gym("job", "bill", "--label", "a=b", "--json"))["benchmarks"] == []


def test_a_fetched_copy_is_whole_and_answers_like_the_run(finished: Home, tmp_path: Path):
    copy = tmp_path / "copy"
    done = json.loads(finished.gym("job", "fetch", finished.id, "--to", str(copy), "--json"))
    assert (done["schema_version"], done["folder"], done["changing"]) == (1, str(copy), [])
    assert sorted(done["new"]) == sorted(
        path.relative_to(copy).as_posix()
        for path in copy.rglob("*")
        if path.is_file() and path.name != ".gym_fetched.json"
    )
    assert not list(copy.rglob("*.sh"))
    assert not [path for path in copy.rglob("*") if path.is_file() and CANARY in path.read_text()]
    assert (copy / "sums" / "artifacts" / "rollouts.jsonl").read_bytes() == finished.rows.read_bytes()
    again = finished.gym("job", "fetch", finished.id, "--to", str(copy))
    assert "0 copied now" in again
    assert again.splitlines()[-1] == f"Results: gym job results {copy}"
    assert json.loads(finished.gym("job", "verify", str(copy), "--json"))["valid"]
    bills = [json.loads(finished.gym("job", "bill", of, "--json")) for of in (finished.id, str(copy))]
    assert bills[0] == bills[1]
    (score,) = json.loads(finished.gym("job", "results", str(copy), "--json"))["results"]
    assert (score["status"], score["job_dir"]) == ("complete", str(copy / "sums"))


def test_the_index_and_a_lost_record_come_back_from_run_directories(home: Home, tmp_path):
    home.environ = {**home.environ, "XDG_CACHE_HOME": str(tmp_path / "empty")}
    (tmp_path / "gym-job-20200101T000000Z-00000a").mkdir()
    newer = tmp_path / "gym-job-20200101T000000Z-00000b"
    newer.mkdir()
    (newer / "gym-job.json").write_text('{"schema_version": 7}')
    (home.run_dir / "gym-job.json").unlink()
    home.gym("job", "verify", home.id, status=1)
    done = home.call("job", "rebuild", "--output-path", str(tmp_path), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == found["schema_version"] == 1
    assert [(each["gym_job_id"], each["what"]) for each in found["adopted"]] == [(home.id, "made")]
    assert [Path(each["run_dir"]).name[-1] for each in found["refused"]] == ["a", "b"]
    assert done.stderr.count("passed over: ") == 2
    assert json.loads(home.gym("job", "verify", home.id, "--json"))["valid"]
    assert home.gym("job", "adopt", str(home.run_dir)).split()[:2] == [home.id, "known"]
    home.gym("job", "adopt", str(newer), status=1)


@pytest.fixture
def far(home: Home, tmp_path: Path) -> Home:
    """The same user, whose run is on another machine."""
    there = tmp_path / "another-machine"
    there.mkdir()
    home.run_dir = home.run_dir.rename(there / home.id)
    home.rows = home.run_dir / "sums" / "artifacts" / "rollouts.jsonl"
    home.environ = stand_in(tmp_path / "stand-in", there, home.environ)
    home.environ |= {"XDG_CACHE_HOME": str(tmp_path / "far cache"), "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    text = json.dumps(home.record | {"hostname": "far"}).replace(str(home.folder / "runs"), FAR)
    home.index = tmp_path / "far cache" / "nemo-gym" / "jobs" / f"{home.id}.json"
    home.index.parent.mkdir(parents=True)
    home.index.write_text(text)
    return home


def test_a_run_on_another_machine_is_certified_and_billed_in_one_step_and_nothing_is_kept(
    far: Home, finished: Home, tmp_path: Path
):
    before = {path: path.stat().st_mtime_ns for path in far.run_dir.rglob("*")}
    done = far.call("job", "verify", far.id, "--json")
    assert done.returncode == 0, done.stderr
    found, here = json.loads(done.stdout), json.loads(finished.gym("job", "verify", finished.id, "--json"))
    assert (found.pop("run_dir"), here.pop("run_dir")) == (f"far:{FAR}/{far.id}", str(finished.run_dir))
    assert found["benchmarks"][0].pop("job_dir") == f"far:{FAR}/{far.id}/sums"
    assert here["benchmarks"][0].pop("job_dir")
    assert found == here
    assert "temporary folder" in done.stderr
    assert done.stderr.count("\n") == 1
    for asked in ([far.id], ["latest"]):
        bill = far.call("job", "bill", *asked, "--json")
        assert json.loads(bill.stdout) == json.loads(finished.gym("job", "bill", finished.id, "--json"))
        assert "temporary folder" in bill.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    assert before == {path: path.stat().st_mtime_ns for path in far.run_dir.rglob("*")}


def test_what_to_rebuild_from_is_asked_for_and_a_path_of_another_machine_is_absolute(far: Home):
    far.gym("job", "rebuild", status=2)
    far.gym("job", "rebuild", "--from-scheduler", "--output-path", "/x", status=2)
    far.gym("job", "rebuild", "--hostname", "far", "--output-path", "runs", status=2)
    far.gym("job", "adopt", "--hostname", "far", "run", status=2)
    done = far.call("job", "adopt", "--hostname", "far", f"{FAR}/{far.id}x")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "there is no folder" in done.stderr


def test_damage_on_another_machine_is_told_with_the_name_it_has_there(far: Home, tmp_path: Path):
    config = far.run_dir / "resolved-config.yaml"
    config.write_text(config.read_text() + "extra: 1\n")
    far.rows.write_bytes(far.rows.read_bytes()[:-30])
    found = json.loads(far.gym("job", "verify", far.id, "--json", status=1))
    assert found["problems"][0].startswith(f"far:{FAR}/{far.id}/resolved-config.yaml: ")
    assert found["benchmarks"][0]["missing"] == 1
    assert str(tmp_path) not in json.dumps(found)


def test_another_machine_that_does_not_answer_is_one_sentence_and_passed_over_among_others(
    far: Home, tmp_path: Path
):
    record = json.loads(far.index.read_text()) | {"labels": {"a": "b"}}
    far.index.write_text(json.dumps(record))
    assert json.loads(far.gym("job", "bill", "--label", "a=b", "--json"))["benchmarks"]
    (tmp_path / "stand-in" / "unreachable").touch()
    done = far.call("job", "bill", "--label", "a=b", "--json")
    assert (done.returncode, json.loads(done.stdout)["benchmarks"]) == (1, [])
    assert "passed over: " in done.stderr
    for command in ("bill", "verify"):
        done = far.call("job", command, far.id)
        assert done.returncode != 0
        assert "timed out" in done.stderr
        assert "fetch" not in done.stderr.splitlines()[-1]
    assert list((tmp_path / "temporary").iterdir()) == []
