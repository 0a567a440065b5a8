"""What is found wrong with a profile of a cluster: each rule, and the whole through the fake's programs."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_helix_server.executors.slurm import checking
from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnection
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.survey import HostSurvey, Interpreter
from nemo_runs.findings import Finding, FindingLevel, passed
from nemo_slurm.errors import CommandMissingError
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.records import Association, Partition
from nemo_slurm.testing import FakeCluster, Faults

BATCH = Partition("batch", True, True, 4 * 3600, 3600, 2, 10, None)
SEEN = HostSurvey(
    ahead=0.0,
    user=1000,
    owner=1000,
    mode=0o700,
    free_bytes=1 << 40,
    own=Interpreter("python3", (3, 11, 2)),
)


def settings(**values: Any) -> SlurmSettings:
    return SlurmSettings.model_validate({"root": "/shared/baton", "partition": "batch", **values})


def cluster(given: dict[str, Any] | None = None, provider: Any = "cpu", **said: Any) -> list[Finding]:
    values = {
        "user": "ada",
        "partitions": [BATCH],
        "associations": [Association("physics", "", None, 10)],
        "queued": {"physics": 10},
        "accounting": None,
        "config": {"AccountingStorageEnforce": "associations,limits,qos"},
        "containers": True,
    }
    profile = settings(**{"account": "physics", "time": "01:00:00", **(given or {})})
    return list(checking.judge_cluster(profile, provider, ClusterFacts(**{**values, **said})))


def host(given: dict[str, Any] | None = None, provider: Any = "cpu", **seen: Any) -> list[Finding]:
    changed = dataclasses.replace(SEEN, **seen)
    return list(checking.judge_host(settings(**(given or {})), provider, changed, "'alps'"))


def about(found: list[Finding], what: str) -> Finding:
    (one,) = [finding for finding in found if finding.about == what]
    return one


@pytest.mark.parametrize(
    ("found", "what", "level", "text"),
    [
        (cluster({"partition": "gpus"}), "partition", FindingLevel.PROBLEM, "config.partition: there is no"),
        (cluster({"time": "1-00"}), "walltime", FindingLevel.PROBLEM, "config.time: 1-00:00:00 is more than"),
        (cluster({"time": "UNLIMITED"}), "walltime", FindingLevel.PROBLEM, "config.time: UNLIMITED is more"),
        (
            cluster({"time": None}),
            "walltime",
            FindingLevel.WARNING,
            "config.time: it is not set; batch gives",
        ),
        (cluster({"account": "x"}), "account", FindingLevel.PROBLEM, "config.account: ada may not use x"),
        (cluster(), "submit limit", FindingLevel.WARNING, "1 job is needed at once and 10 are queued"),
        (cluster(accounting="away"), "sacct", FindingLevel.WARNING, "accounting does not answer (away)"),
        (cluster(), "successors", FindingLevel.UNKNOWN, "no setting keeps jobs"),
        (
            cluster(alloc_nodes={"batch": "login1"}),
            "successors",
            FindingLevel.WARNING,
            "jobs may be submitted from login1 only, so that a training step goes on only while",
        ),
        (cluster({"container": {}}), "containers", FindingLevel.OK, "srun takes --container-image"),
        (
            cluster({"container": {}}, containers=None),
            "containers",
            FindingLevel.UNKNOWN,
            "srun did not say",
        ),
        (
            cluster({"container": {}}, containers=False),
            "containers",
            FindingLevel.PROBLEM,
            "config.container: srun takes no --container-image",
        ),
        (
            cluster({"container": {"runtime": "pyxis"}}, containers=False),
            "containers",
            FindingLevel.WARNING,
            "config.container: srun takes no --container-image",
        ),
        (host(), "storage", FindingLevel.OK, "/shared/baton is for its owner alone"),
        (
            host(unwritable="Read-only"),
            "storage",
            FindingLevel.PROBLEM,
            "config.root: /shared/baton on 'alps'",
        ),
        (
            host(owner=7),
            "storage",
            FindingLevel.PROBLEM,
            "config.root: /shared/baton on 'alps' belongs to user 7",
        ),
        (host(mode=0o770), "storage", FindingLevel.PROBLEM, "config.root: others may write"),
        (host(mode=0o755), "storage", FindingLevel.WARNING, "config.root: others may look into"),
        (host(free_bytes=1000), "space", FindingLevel.WARNING, "1 kB are free"),
        (host(free_bytes=None), "space", FindingLevel.UNKNOWN, "/shared/baton does not say"),
        (host(ahead=1.5), "clock", FindingLevel.OK, "'alps' and the service agree"),
        (host(ahead=-90), "clock", FindingLevel.WARNING, "the clock of 'alps' is 90 s behind the service's"),
        (host(ahead=90), "clock", FindingLevel.WARNING, "the clock of 'alps' is 90 s ahead of the service's"),
        (host(setup="no module"), "setup", FindingLevel.WARNING, "config.setup: the last of its lines fails"),
        (
            host(own=Interpreter("python3", (3, 9, 18))),
            "python",
            FindingLevel.PROBLEM,
            "config.python: python3 on 'alps' is Python 3.9.18; name one of Python 3.11 or newer.",
        ),
        (
            host(own=Interpreter("python3", None, said="not found")),
            "python",
            FindingLevel.PROBLEM,
            "config.python: python3 does not run on 'alps': not found; name one",
        ),
        (
            host(own=Interpreter("python3", None, tried=False)),
            "setup",
            FindingLevel.PROBLEM,
            "config.setup: its lines end the shell on 'alps' before any interpreter is tried; take out",
        ),
        (
            host(own=Interpreter("python3", None, tried=False)),
            "python",
            FindingLevel.UNKNOWN,
            "config.python: python3 was not tried, since config.setup ends the shell before it",
        ),
        (
            host({"engines": {"trl": "/e/py"}}, engines={"trl": Interpreter("/e/py", None, tried=False)}),
            "engine trl",
            FindingLevel.UNKNOWN,
            "config.engines.trl: /e/py was not tried, since config.setup ends",
        ),
        (host({"host": "alps"}), "engines", FindingLevel.WARNING, "config.engines: it names none"),
        (
            host({"engines": {"tlr": "/e/py"}}),
            "engines",
            FindingLevel.WARNING,
            "config.engines.tlr: the service knows no engine of this name (did you mean 'trl'?)",
        ),
        (
            host({"engines": {"trl": "/e/py"}}),
            "device",
            FindingLevel.WARNING,
            "config.device: it is cuda, and steps of a profile of cpu get no GPU; set it to cpu",
        ),
        (
            host({"container": {"runtime": "apptainer"}}, missing={"apptainer"}),
            "containers",
            FindingLevel.WARNING,
            "config.container: 'alps' has no program apptainer",
        ),
        (
            host({"container": {"image": "/i.sif"}}, missing={"/i.sif"}),
            "image",
            FindingLevel.PROBLEM,
            "config.container.image: there is no /i.sif on 'alps'.",
        ),
        (host({"container": {"image": "/i.sif"}}), "image", FindingLevel.OK, "/i.sif"),
        (host({"container": {"image": "docker://a"}}), "image", FindingLevel.UNKNOWN, "docker://a is a name"),
        (host({"container": {}}), "image", FindingLevel.OK, "steps that name no image run on the nodes"),
    ],
)
def test_a_finding_names_the_key_and_what_would_be_right(
    found: list[Finding], what: str, level: FindingLevel, text: str
) -> None:
    one = about(found, what)
    assert one.verdict is level
    assert one.text.startswith(text)
    assert one.text.endswith(".") or level is not FindingLevel.PROBLEM


@pytest.mark.parametrize(
    ("engine", "container", "level", "text"),
    [
        (Interpreter("/e/py", (3, 11, 2), (), {"trl": "0.2"}), None, FindingLevel.OK, "with trl 0.2"),
        (Interpreter("/e/py", (3, 11, 2), ("trl",)), None, FindingLevel.PROBLEM, "has no trl; install what"),
        (Interpreter("/e/py", (3, 11, 2), ("trl",)), {}, FindingLevel.UNKNOWN, "unless the container has it"),
        (
            Interpreter("/e/py", None, said="gone"),
            None,
            FindingLevel.PROBLEM,
            "does not run on 'alps': gone.",
        ),
        (Interpreter("/e/py", None, said="gone"), {}, FindingLevel.UNKNOWN, "may be inside the container"),
    ],
)
def test_an_engine_runs_and_has_its_libraries(
    engine: Interpreter, container: Any, level: FindingLevel, text: str
) -> None:
    given = {"engines": {"trl": "/e/py"}, "device": "cpu", "container": container}
    found = about(host(given, engines={"trl": engine}), "engine trl")
    assert found.verdict is level
    assert text in found.text


@pytest.mark.parametrize(
    ("provider", "nodes", "gpus"),
    [("cpu", 1, 0), ("subprocess", 1, 0), ("gpu", 1, 1), ("gpu_distributed", 2, 1)],
)
def test_the_provider_says_what_steps_ask_for(provider: Any, nodes: int, gpus: int) -> None:
    needs = checking.needs_of(provider)
    assert (needs.nodes, needs.gpus) == (nodes, gpus)


@pytest.mark.parametrize(
    ("data_dir", "root", "name", "sees", "level", "text"),
    [
        ("root/data", "root", None, True, FindingLevel.PROBLEM, "lie in each other"),
        ("data", "data/root", None, True, FindingLevel.PROBLEM, "lie in each other"),
        ("data", "root", None, True, FindingLevel.WARNING, "is on the file system of config.root"),
        ("data", "/dev/shm/baton-root", None, True, FindingLevel.OK, "on another file system"),
        ("data", "root", "alps", True, FindingLevel.PROBLEM, "is seen on alps too, and so by jobs"),
        ("data", "root", "alps", False, FindingLevel.OK, "alps does not see the data directory"),
    ],
)
def test_the_service_s_keys_lie_where_no_job_can_read_them(
    tmp_path: Path, data_dir: str, root: str, name: str | None, sees: bool, level: FindingLevel, text: str
) -> None:
    seen = dataclasses.replace(SEEN, sees_service=sees)
    (found,) = checking.judge_service_files(tmp_path / data_dir, tmp_path / root, seen, host=name)
    assert found.verdict is level
    assert text in found.text


# ---------------------------------------------------------------- the whole, through the fake's programs


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster(tmp_path / "cluster")
    monkeypatch.setenv("PATH", f"{made.path}:{os.environ['PATH']}")
    return made


def examined(tmp_path: Path, provider: Any = "cpu", **values: Any) -> list[Finding]:
    given = SlurmSettings.model_validate({"root": tmp_path / "root", "python": sys.executable, **values})
    connection = ClusterConnection(ClusterAddress.of(given), ClusterSources.of_service())
    (tmp_path / "data").mkdir(exist_ok=True)
    return checking.examine(given, provider, connection, tmp_path / "data")


@pytest.mark.services
def test_a_profile_that_works_passes_and_nothing_is_queued(fake: FakeCluster, tmp_path: Path) -> None:
    found = examined(tmp_path, account="lab", partition="main", time="00:10:00")
    assert passed(found), found
    assert [finding.about for finding in found] == [
        "connection", "partition", "account", "successors", "sbatch --test-only",
        "storage", "space", "clock", "python", "service's files", "program",
    ]  # fmt: skip
    assert about(found, "sbatch --test-only").text.startswith("Job 1000 to start at")
    assert fake.jobs() == []
    assert (tmp_path / "root").stat().st_mode & 0o777 == 0o700


@pytest.mark.services
def test_a_cluster_that_does_not_answer_is_the_only_finding(fake: FakeCluster, tmp_path: Path) -> None:
    fake.set(Faults(controller_down=True))
    (found,) = examined(tmp_path)
    assert (found.about, found.verdict) == ("connection", FindingLevel.PROBLEM)
    assert "the scheduler on this machine did not answer" in found.text
    assert not (tmp_path / "root").exists()


@pytest.mark.services
def test_a_machine_without_slurm_is_told_to_name_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather(host: Any) -> ClusterFacts:
        raise CommandMissingError(f"there is no sbatch on {host.label}")

    monkeypatch.setattr(checking.facts, "gather", gather)
    (found,) = examined(tmp_path)
    assert found.text == (
        "there is no sbatch on this machine; config.host names the machine that has Slurm's commands."
    )


@pytest.mark.services
def test_what_sbatch_refuses_and_what_is_missing_are_problems(fake: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir(mode=0o777)
    (tmp_path / "root").chmod(0o777)
    found = examined(tmp_path, partition="gpus", python="/no/python")
    wrong = {finding.about for finding in found if finding.verdict is FindingLevel.PROBLEM}
    assert wrong == {"partition", "sbatch --test-only", "storage", "python"}
    said = about(found, "sbatch --test-only").text
    assert said.endswith("Invalid partition name specified; change the profile.")


@pytest.mark.services
@pytest.mark.parametrize(("mode", "runs"), [(0o700, True), (0o755, True), (0o770, False), (0o703, False)])
def test_nothing_is_run_from_a_root_that_others_may_change(
    fake: FakeCluster, tmp_path: Path, mode: int, runs: bool
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(mode)
    found = examined(tmp_path)
    assert [one.about for one in found if one.about == "program"] == (["program"] if runs else [])
    assert (tmp_path / "root" / "code").exists() is runs
