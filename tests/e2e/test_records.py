"""`gym eval submit`, `gym job list`, `gym job results` as programs: what they write, print and end with."""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.e2e

GYM = Path(sys.executable).with_name("gym")
CANARY = "canary-9f1e-never-shown"
SUBMIT = """
_quick: "true"
compute:
  here: {type: local, max_parallel: 2}
driver:
  env: {HF_TOKEN: "host:CANARY", KIND: "${oc.env:KIND,plain}"}
  benchmarks:
    one: {command: "${_quick}"}
    two: {command: "echo ${_quick}"}
job: {output_path: runs}
"""


SUMS = """
benchmark:
  name: sums
  datasets: {benchmark: {jsonl_fpath: rows.jsonl}}
  prompt: {user: "{question}"}
  verifier: {type: match}
"""


class Home:
    """A user with an empty home and one submit file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.index = folder / "cache" / "nemo-gym" / "jobs"
        (folder / "submit.yaml").write_text(SUBMIT)
        names = {
            "XDG_CACHE_HOME": "cache",
            "XDG_STATE_HOME": "state",
            "XDG_DATA_HOME": "data",
            "HOME": "home",
        }
        self.environ = {**os.environ, **{name: str(folder / sub) for name, sub in names.items()}}
        self.environ["CANARY"] = CANARY
        self.environ.pop("KIND", None)

    def gym(self, *arguments: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(GYM), *arguments],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert status is None or done.returncode == status, done.stderr
        assert CANARY not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def submit(self, *arguments: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.gym("eval", "submit", "-c", "submit.yaml", *arguments, status=status)

    def wait(self) -> None:
        """Until every job of every run has ended, so that no process outlives the test."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            records = [json.loads(path.read_text()) for path in self.runs.glob("*/gym-job.json")]
            folders = [
                Path(entry["job_dir"]) / "links" / f"{entry['job_id']}.0" / "exit.json"
                for record in records
                for entry in record["benchmarks"]
                if entry["job_id"]
            ]
            if all(path.exists() for path in folders):
                return
            time.sleep(0.1)
        raise AssertionError("jobs did not end")


@pytest.fixture
def home(tmp_path: Path):
    mine = Home(tmp_path)
    yield mine
    mine.wait()


def test_a_submission_is_recorded_in_three_places_and_json_is_the_manifest_alone(home: Home):
    printed = home.submit("--json", "--label", "team=a")
    record = json.loads(printed.stdout)
    run_dir = Path(record["run_dir"])
    assert run_dir == home.runs / record["gym_job_id"]
    assert re.fullmatch(r"gym-job-\d{8}T\d{6}Z-[0-9a-f]{6}", record["gym_job_id"])
    assert (run_dir / "gym-job.json").read_text() == printed.stdout
    assert (home.index / f"{record['gym_job_id']}.json").read_text() == printed.stdout
    assert [entry["benchmark"] for entry in record["benchmarks"]] == ["one", "two"]
    assert all(entry["error"] is None for entry in record["benchmarks"])
    assert (record["executor"], record["cluster"], record["hostname"]) == ("local", "here", None)
    assert record["gym_commit"] is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", record["gym_commit"])
    modes = {path: oct(path.stat().st_mode & 0o777) for path in run_dir.rglob("*") if path.is_file()}
    assert modes[run_dir / "gym-job.json"] == modes[run_dir / "resolved-config.yaml"] == "0o644"


def test_a_person_reads_the_run_directory_and_each_job(home: Home):
    lines = home.submit().stdout.splitlines()
    gym_job_id = lines[0].rpartition("/")[2]
    assert lines[0] == f"Run directory: {home.runs}/{gym_job_id}"
    assert lines[1:3] == ["submitted one → local job local-1", "submitted two → local job local-2"]
    assert f"gym job results {gym_job_id}" in lines[-1]


def test_the_secret_is_in_the_owner_only_script_and_nowhere_else(home: Home):
    record = json.loads(home.submit("--json", "driver.benchmarks.one.command=sleep 2").stdout)
    seen = [path for path in Path("/proc").glob("[0-9]*/cmdline") if CANARY.encode() in _read(path)]
    assert seen == []
    home.wait()
    holders = [path for path in home.folder.rglob("*") if path.is_file() and CANARY.encode() in _read(path)]
    run_dir = Path(record["run_dir"])
    assert sorted(holders) == [run_dir / "one" / "job.sh", run_dir / "two" / "job.sh"]
    assert {path.stat().st_mode & 0o777 for path in holders} == {0o600}
    assert "HF_TOKEN: host:CANARY" in (run_dir / "resolved-config.yaml").read_text()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_resolved_config_is_what_resolve_only_prints_and_can_be_submitted_again(home: Home):
    home.environ["KIND"] = "fancy"
    shown = home.submit("--resolve-only", "+driver.env.MORE=a:b").stdout
    record = json.loads(home.submit("--json", "+driver.env.MORE=a:b").stdout)
    resolved = Path(record["run_dir"]) / "resolved-config.yaml"
    assert resolved.read_text() == shown
    del home.environ["KIND"]
    (home.folder / "submit.yaml").unlink()
    again = home.gym("eval", "submit", "-c", str(resolved), "--resolve-only").stdout
    assert again == shown
    assert yaml.safe_load(shown)["driver"]["env"]["KIND"] == "fancy"
    printed = home.gym("eval", "submit", "-c", str(resolved), "--resolve-only", "--json").stdout
    assert json.loads(printed) == yaml.safe_load(shown)
    home.wait()
    assert "submitted one" in home.gym("eval", "submit", "-c", str(resolved)).stdout


def test_resolve_only_needs_no_secret_and_writes_nothing(home: Home):
    del home.environ["CANARY"]
    assert "host:CANARY" in home.submit("--resolve-only").stdout
    assert not home.runs.exists()
    assert not home.index.exists()


def test_a_dry_run_prints_scripts_without_secrets_and_writes_nothing(home: Home):
    text = home.submit("--dry-run").stdout
    assert text.startswith(f"Run directory: {home.runs}/gym-job-")
    assert text.count("=" * 60) == 5
    assert "<host:CANARY>" in text
    assert not home.runs.exists()
    assert not home.index.exists()


def test_a_dry_run_has_nothing_to_print_as_json(home: Home):
    done = home.submit("--dry-run", "--json", status=2)
    assert done.stdout == ""
    assert done.stderr.startswith("gym: --dry-run makes no record")
    assert done.stderr.count("\n") == 1


def test_json_before_the_command_means_the_same(home: Home):
    done = home.gym("--json", "eval", "submit", "-c", "submit.yaml", "--resolve-only")
    assert json.loads(done.stdout)["job"]["output_path"] == str(home.runs)


def test_an_index_that_cannot_be_written_does_not_fail_the_submit(home: Home):
    (home.folder / "cache").write_text("in the way")
    done = home.submit("--json")
    assert "local index" in done.stderr
    assert (Path(json.loads(done.stdout)["run_dir"]) / "gym-job.json").is_file()


def test_one_benchmark_that_cannot_be_queued_ends_with_1_and_is_in_the_record(home: Home):
    done = home.submit("--json", "driver.gym=./fragile", status=None)
    assert done.returncode == 1
    assert "driver.gym: ./fragile is not a program" in done.stderr
    assert not home.runs.exists()
    claims = home.folder / "state" / "nemo-gym" / "local-jobs"
    claims.mkdir(parents=True)
    full = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "none", str(claims)]
    if os.geteuid() != 0 or subprocess.run(full, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        _none_can_be_queued(home)
    finally:
        subprocess.run(["umount", "-l", str(claims)], check=True)


def _none_can_be_queued(home: Home) -> None:
    done = home.submit("--json", status=1)
    record = json.loads(done.stdout)
    assert [entry["job_id"] for entry in record["benchmarks"]] == [None, None]
    assert all(entry["error"] for entry in record["benchmarks"])
    assert "Error: 2 benchmark(s) failed to submit: one, two" in done.stderr
    assert json.loads((Path(record["run_dir"]) / "gym-job.json").read_text()) == record
    lines = home.submit("--again", status=1).stdout.splitlines()
    assert lines[1].startswith("failed one: ")


def test_a_folder_that_no_job_can_be_numbered_in_is_said_before_anything_is_written(home: Home):
    (home.folder / "state").write_text("in the way of every local job id")
    done = home.submit("--json", status=1)
    assert "set XDG_STATE_HOME to a folder that can be." in done.stderr
    assert not home.runs.exists()


def test_twenty_submits_at_one_instant_give_twenty_runs(home: Home):
    quick = ["--json", "--again", "--only", "one"]
    with ThreadPoolExecutor(20) as pool:
        printed = list(pool.map(lambda _number: home.submit(*quick).stdout, range(20)))
    records = [json.loads(text) for text in printed]
    assert len({record["gym_job_id"] for record in records}) == 20
    assert len(list(home.runs.iterdir())) == 20
    assert len({record["benchmarks"][0]["job_id"] for record in records}) == 20
    for record in records:
        assert json.loads((Path(record["run_dir"]) / "gym-job.json").read_text()) == record
    listed = json.loads(home.gym("job", "list", "--json").stdout)["submissions"]
    assert {record["gym_job_id"] for record in listed} == {record["gym_job_id"] for record in records}


def test_of_several_twins_at_one_instant_one_is_submitted(home: Home):
    slow = ["driver.benchmarks.one.command=sleep 3", "--only", "one"]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _number: home.submit(*slow, status=None), range(4)))
    assert sorted(each.returncode for each in done) == [0, 1, 1, 1]
    refusals = [each.stderr for each in done if each.returncode]
    assert all("--again submits it once more" in text for text in refusals)
    assert len(list(home.runs.iterdir())) == 1


def test_list_and_results_find_submissions_by_label_limit_and_id(home: Home):
    for team in ("a", "b"):
        home.submit("--again", "--label", f"team={team}", "--only", "two")
        time.sleep(1.1)
    listed = json.loads(home.gym("job", "list", "--json").stdout)["submissions"]
    assert [record["labels"]["team"] for record in listed] == ["b", "a"]
    table = home.gym("job", "list", "--limit", "1").stdout.splitlines()
    assert table[0].split() == ["ID", "SUBMITTED", "CLUSTER", "EXECUTOR", "BENCHMARKS", "LABELS"]
    assert table[1].split()[0] == listed[0]["gym_job_id"]
    assert len(table) == 2
    (found,) = json.loads(home.gym("job", "list", "--label", "team=a", "--json").stdout)["submissions"]
    document = json.loads(home.gym("job", "results", found["gym_job_id"], "--json").stdout)
    assert document["schema_version"] == 1
    rows = document["results"]
    assert [(row["benchmark"], row["status"], row["score"]) for row in rows] == [("two", "no results", None)]
    header = home.gym("job", "results", "latest", "--csv").stdout.splitlines()[0]
    assert header.startswith("gym_job_id,benchmark,status,score,low,high")
    assert home.gym("job", "results", "gym-job-", status=1).stdout == ""
    home.gym("job", "results", "latest", "--csv", "--json", status=2)
    home.gym("job", "list", "--label", "team", status=2)


def test_list_works_with_the_runs_gone_and_results_say_that_they_are_gone(home: Home):
    home.submit("--only", "two")
    home.wait()
    home.runs.rename(home.folder / "moved")
    assert "two" in home.gym("job", "list").stdout
    assert "there is no folder" in home.gym("job", "results", "latest").stdout
    home.runs.mkdir()


def test_following_stays_until_the_jobs_have_ended_and_tells_of_failure(home: Home):
    done = home.submit("--follow", "driver.benchmarks.two.command=exit 3", status=1)
    assert re.search(r"^one\s+succeeded", done.stderr, re.MULTILINE)
    assert re.search(r"^two\s+failed", done.stderr, re.MULTILINE)
    assert "BENCHMARK" in done.stdout
    assert home.submit("--follow", "--only", "one", "--json").stdout.count("gym_version") == 1


def test_a_job_that_ends_with_0_and_leaves_no_rows_is_no_success(home: Home):
    (home.folder / "nothing").write_text("#!/bin/sh\nexit 0\n")
    (home.folder / "nothing").chmod(0o755)
    (home.folder / "rows.jsonl").write_text('{"question": "1 + 1?", "expected_answer": "2"}\n')
    (home.folder / "sums.yaml").write_text(SUMS)
    (home.folder / "other.yaml").write_text(
        SUBMIT.replace("  env:", "  gym: ./nothing\n  env:").replace(
            'two: {command: "echo ${_quick}"}',
            "two: {run: {config_paths: [sums.yaml], policy_base_url: 'http://127.0.0.1:9/v1', "
            "policy_model_name: m}}",
        )
    )
    done = home.gym("eval", "submit", "-c", "other.yaml", "--follow", status=1)
    assert "gym: two: failed: job local-" in done.stderr
    assert "nothing proves that every rollout is recorded; next: gym job resubmit" in done.stderr
    (submission,) = json.loads(home.gym("job", "status", "latest", "--json").stdout)["submissions"]
    assert [(one["benchmark"], one["state"]) for one in submission["benchmarks"]] == [
        ("one", "succeeded"),
        ("two", "failed"),
    ]
    home.gym("job", "status", "latest", "--exit-status", status=1)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["driver.benchmarks.one.comand=x"], 1, "(did you mean 'driver.benchmarks.one.command'?)"),
        (["driver.benchmarks.one.resumable=true"], 1, "driver.benchmarks.one.resumable"),
        (["+driver.container=image"], 1, "the local executor runs no containers"),
        (["--only", "onn"], 2, "(did you mean 'one'?)"),
        (["--limit", "0"], 2, "--limit"),
        (["--label", "x"], 2, "key=value"),
        (["+_new.key=1"], 1, "scratch key"),
        (["-c", "missing.yaml"], 1, "there is no such file"),
        (["driver.env.HF_TOKEN=host:NOT_SET"], 1, "NOT_SET"),
        (["--dry-run", "driver.env.HF_TOKEN=host:NOT_SET"], 1, "driver.env.HF_TOKEN"),
    ],
)
def test_what_is_wrong_is_one_sentence_on_stderr_and_nothing_is_written(
    home: Home, arguments: list[str], status: int, message: str
):
    done = home.submit(*arguments, status=status)
    assert message in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert not home.runs.exists()
