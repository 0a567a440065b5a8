"""A job that installs its `gym` from a git repository, as it really does on the `local` compute type."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests import collector_reports
from tests.local_jobs import Workplace, until

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.observation import JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan.values import InstallPlan
from nemo_runs.durable.journal import read_journal

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import zipfile

NAME = "stand_in_gym-1.0"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {
        "stand_in_gym.py": open("stand_in_gym.py").read(),
        f"{NAME}.dist-info/METADATA": "Metadata-Version: 2.1\\nName: stand-in-gym\\nVersion: 1.0\\n",
        f"{NAME}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{NAME}.dist-info/entry_points.txt": "[console_scripts]\\ngym = stand_in_gym:main\\n",
    }
    record = f"{NAME}.dist-info/RECORD"
    files[record] = "".join(f"{name},,\\n" for name in [*files, record])
    wheel = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{wheel}", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel
"""
GYM = """\
import os
import sys


def main():
    if sys.argv[1:] == ["--version"]:
        print("gym stand-in {version}")
    elif "NEMO_GYM_BENCH_DIR" in os.environ:
        with open(os.environ["NEMO_GYM_BENCH_DIR"] + "/artifacts/ran", "a") as ran:
            ran.write("{version} " + sys.prefix + "\\n")
        sys.exit(int(os.environ.get("DRIVER", "0")))
"""


def git(folder, *words):
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder, version):
    """Another commit of the stand-in; returns its id."""
    (folder / "stand_in_gym.py").write_text(GYM.replace("{version}", version))
    git(folder, "add", ".")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example"]
    git(folder, *who, "commit", "--quiet", "--message", version)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path):
    """A repository with one commit on the branch ``main``, which has the tag ``v1``."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    commit(folder, "one")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    place = Workplace(folder)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": os.devnull}
    place.environ |= {**offline, "NEMO_GYM_STOP_SECONDS": "2", "NEMO_GYM_CHAIN_SECONDS": "1"}
    yield place
    for job in list(place.jobs):
        links = (path.name.rpartition(".")[0] for path in (job.job_dir / "links").iterdir())
        place.jobs += [type(job)(link, job.job_dir) for link in links if link != job.job_id]
    place.tidy()


def plan(workplace, repo, ref="v1", benchmark="arithmetic", status=0, **changes):
    install = InstallPlan(repo=str(repo), ref=ref, folder=workplace.folder / ".gym")
    return workplace.plan(benchmark, str(status), gym=Path("gym"), install=install, **changes)


def events(job):
    found = read_journal(JobPaths(job.job_dir).events)
    return [event for event in found if event["event"].startswith("install_")]


def published(workplace):
    return sorted((workplace.folder / ".gym").glob("installed-*"))


def ran(job):
    return (job.job_dir / "artifacts" / "ran").read_text().split()


def test_two_jobs_at_once_and_one_later_share_one_environment(workplace, repo):
    both = workplace.submit(plan(workplace, repo), plan(workplace, repo, "main", "algebra"))
    for job in both:
        assert workplace.wait(job).state is JobState.SUCCEEDED, workplace.said(job)
    [environment] = published(workplace)
    first = git(repo, "rev-parse", "HEAD")
    program = f"{environment}/env/bin/gym"
    for job in both:
        version, prefix = ran(job)
        assert version == "one"
        assert Path(prefix).resolve() == (environment / "env").resolve()
        link = JobPaths(job.job_dir).link(job.job_id).folder
        assert (link / "installed").read_text().split() == [first, program]
        assert (link / "gym").read_text() == "gym stand-in one\n"
        started, ended = events(job)
        assert (started["repo"], ended["status"], ended["commit"]) == (str(repo), 0, first)
    made = list((workplace.folder / ".gym").glob("by-*"))
    assert made == [environment.resolve()]

    workplace.gym_job_id += "-later"
    [later] = workplace.submit(plan(workplace, repo, first[:10]))
    assert workplace.wait(later).state is JobState.SUCCEEDED
    assert "is installed in" in JobPaths(later.job_dir).log("install", later.job_id).read_text()
    assert list((workplace.folder / ".gym").glob("by-*")) == made


@pytest.mark.parametrize(
    ("ref", "gone", "words"),
    [("v2", False, "has no tag, branch or commit v2"), ("v1", True, "there is no git repository")],
)
def test_a_ref_or_repository_that_does_not_exist_ends_a_chain_at_once(workplace, repo, ref, gone, words):
    if gone:
        shutil.rmtree(repo)
    [job] = workplace.submit(plan(workplace, repo, ref, budget=Budget()))
    seen = workplace.wait(job)
    assert seen.state is JobState.FAILED
    link = JobPaths(job.job_dir).link(job.job_id).folder
    told = collector_reports.read(link / "collected")["hopeless"]
    assert told.startswith("gym could not be installed: driver.gym_install.re")
    assert words in told
    assert told.endswith(f"see logs/install-{job.job_id}.log")
    assert f"no retry can help: {told}" in (link / "end").read_text()
    assert not (link / "queued").exists()
    assert not list((workplace.folder / ".gym").iterdir())
    assert events(job)[-1]["status"] == 3


def test_a_package_that_cannot_be_installed_may_be_tried_again_and_leaves_nothing_half_made(workplace, repo):
    (repo / "backend.py").write_text("raise SystemExit('broken on purpose')\n")
    commit(repo, "two")
    [job] = workplace.submit(plan(workplace, repo, "main"))
    seen = workplace.wait(job)
    assert seen.state is JobState.FAILED
    link = JobPaths(job.job_dir).link(job.job_id).folder
    assert "gym could not be installed: pip could not install commit" in (link / "end").read_text()
    assert "broken on purpose" in JobPaths(job.job_dir).log("install", job.job_id).read_text()
    assert not (link / "collected").exists()
    assert not list((workplace.folder / ".gym").iterdir())


def test_a_job_that_is_stopped_while_it_installs_leaves_nothing_half_made(workplace, repo):
    (repo / "backend.py").write_text("import time\nprint('waiting', flush=True)\ntime.sleep(600)\n")
    commit(repo, "two")
    [job] = workplace.submit(plan(workplace, repo, "main"))
    log = JobPaths(job.job_dir).log("install", job.job_id)
    until(lambda: log.exists() and "Getting requirements" in log.read_text())
    workplace.executor.cancel([job])
    assert workplace.wait(job).state is JobState.CANCELLED
    assert workplace.left(job) == []
    assert not list((workplace.folder / ".gym").iterdir())


def test_a_branch_that_moved_is_refused_in_a_later_job_of_the_chain_with_both_commits(workplace, repo):
    one = git(repo, "rev-parse", "HEAD")
    two = commit(repo, "two")
    git(repo, "update-ref", "refs/heads/main", one)
    # the first job moves the branch itself, once it has installed
    moves = f"git -C '{repo}' update-ref refs/heads/main {two}; exit 3"
    [job] = workplace.submit(
        plan(workplace, repo, "main", run=None, command=moves, budget=Budget(max_retries=1))
    )
    assert workplace.wait(job).state is JobState.FAILED
    first = JobPaths(job.job_dir).link(job.job_id)
    later = type(job)(first.queued.read_text().strip(), job.job_dir)
    assert workplace.wait(later).state is JobState.FAILED
    second = JobPaths(job.job_dir).link(later.job_id).folder
    end = (second / "end").read_text()
    assert f"main was commit {one} when this run began and is {two} now" in end
    assert not (second / "collected").exists()
