"""A job runs what was queued, or says that it cannot: real bash, hand edits, half-replaced and lost files."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.local_jobs import Workplace
from tests.nemo_gym.shell.test_chain import World, says

from nemo_gym.chain import endings
from nemo_gym.chain.budget import Budget
from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.chain.evidence import Evidence
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan.sealed_files import folder_name, script_digest, sealed_files, with_own_digest
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status.link_files import parse
from nemo_gym.orchestration.submit import staging
from nemo_gym.rollouts.collect.exit_report import ExitReport
from nemo_runs.secret_refs import SecretText

pytestmark = pytest.mark.services

COMPLETE = ExitReport("complete", 0, 5, 5, 5, None)


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path)
    # a look again costs no time here
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").write_text(f"#!/bin/sh\necho $1 >>{made.cluster}/sleeps\n")
    (tmp_path / "bin" / "sleep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    yield made
    for job in made.started:
        if job.poll() is None:
            job.terminate()
            job.communicate(timeout=60)


def run(world, job, before="", **changes):
    ids = {"NEMO_GYM_JOB_ID": str(job), "NEMO_GYM_RESTART": "0"}
    return world.run(job, before, **ids, **changes)


def verdict(world):
    look = LocalRunFiles().look([world.job_dir])
    known = Evidence(
        gym_job_id="gym-job-x",
        benchmark="b",
        job_dir=world.job_dir,
        where="this machine",
        first_job="7",
        **parse(look.folders[world.job_dir]),
    )
    return endings.ended(known, known.last)


def edited(path):
    path.chmod(0o644)
    path.write_text(path.read_text() + "\necho edited >>$CLUSTER/edited\n")


def truncated(path):
    path.chmod(0o644)
    path.write_text(path.read_text()[:2])


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, how) for name in ("chain.sh", "states.tsv", "run.yaml") for how in (edited, truncated)),
        ("header.sh", Path.unlink),
        ("job.sh", edited),
    ],
)
def test_a_queued_job_reads_nothing_that_was_changed_and_names_it(world, name, how):
    run(world, 7)
    world.set("state-7", "FAILED")
    path = world.paths.script if name == "job.sh" else world.sealed / name
    how(path)
    status, said = run(world, 101, 7)
    shown = str(path) if name == "job.sh" else f"sealed/{world.sealed.name}/{name}"
    assert status == 1
    assert f"the chain ends here: {shown}: not as it was when this job was queued; put it back" in said
    assert not (world.cluster / "edited").exists()
    assert (world.worked, world.lines("queue")) == (1, ["101"])
    # told like any other end, and no retry is spent
    assert world.decision(101)[0] == "fail failed"
    assert world.link(101).end.read_text().startswith(f"decided 1 none\n{shown}: ")
    assert world.dot(".gym_infra_retries") == ["0"]
    assert world.events("job_ended")[-1]["job_id"] == "101"
    found = verdict(world)
    assert (found.state, found.cause) == (BenchmarkState.FAILED, EndCause.PERSON)
    assert shown in found.reason


@pytest.mark.parametrize("how", [edited, truncated, Path.unlink])
def test_rows_that_were_copied_into_the_folder_are_read_as_they_were_or_not_at_all(world, tmp_path, how):
    source, copy = tmp_path / "rows: FAILED.jsonl", world.paths.inputs / "rows: FAILED.jsonl"
    source.write_text('{"answer": 2}\n')
    copy.parent.mkdir()
    shutil.copy(source, copy)
    world.seal(replace(world.plan, inputs={source: copy}))
    run(world, 7)
    assert world.worked == 1
    world.set("state-7", "FAILED")
    how(copy)
    status, said = run(world, 101, 7)
    assert (status, world.worked) == (1, 1)
    assert f"the chain ends here: inputs/{copy.name}: not as it was when this job was queued" in said
    assert verdict(world).cause is EndCause.PERSON


@pytest.mark.parametrize(("how", "told"), [(edited, True), (Path.unlink, True), (Path.stat, False)])
def test_rows_that_lie_elsewhere_are_told_by_name_before_the_driver_starts(world, tmp_path, how, told):
    rows = tmp_path / "my rows.jsonl"
    rows.write_text('{"answer": 2}\n')
    world.seal(replace(world.plan, run={"input_jsonl_fpath": str(rows)}))
    how(rows)
    status, said = run(world, 7, drive=says(COMPLETE))
    assert (status, world.worked) == (0, 1)
    warning = f"gym job: warning: changed since this job was queued: {rows}; it reads what is there now\n"
    assert (warning in said) is told
    assert world.lines("sleeps") == []


def test_a_folder_that_is_gone_is_named(world):
    shutil.rmtree(world.sealed)
    status, said = run(world, 7)
    assert status == 1
    assert f"{world.sealed}: not as it was when this job was queued" in said


def test_a_run_goes_on_where_it_was_once_everything_is_put_back(world):
    run(world, 7)
    world.set("state-7", "FAILED")
    kept = (world.sealed / "chain.sh").read_bytes()
    edited(world.sealed / "chain.sh")
    run(world, 101, 7)
    (world.sealed / "chain.sh").write_bytes(kept)
    status, _ = run(world, 102, drive=says(COMPLETE))
    assert (status, world.worked) == (0, 2)


def test_a_file_that_is_being_replaced_is_looked_at_again(world, tmp_path):
    kept = world.sealed / "chain.sh"
    shutil.copy(kept, tmp_path / "whole")
    truncated(kept)
    (tmp_path / "bin" / "sleep").write_text(f"#!/bin/sh\ncp {tmp_path / 'whole'} {kept}\n")
    status, _ = run(world, 7, drive=says(COMPLETE))
    assert (status, world.worked) == (0, 1)


def test_a_job_that_finds_everything_as_it_was_looks_once(world):
    run(world, 7, drive=says(COMPLETE))
    assert world.lines("sleeps") == []


def test_what_another_version_writes_beside_it_changes_nothing(world):
    run(world, 7)
    world.set("state-7", "PREEMPTED")
    queued = world.paths.script.read_text()
    # other parts: another folder, and another script
    (world.parts / "chain.sh").write_text("exit 9\n")
    world.limits(Budget())
    assert len(list(world.paths.sealed.iterdir())) == 2
    # as the scheduler has kept it
    world.paths.script.write_text(queued)
    status, _ = run(world, 101, 7, drive=says(COMPLETE))
    assert (status, world.worked) == (0, 2)


def test_the_configuration_that_was_submitted_is_run_whatever_became_of_run_yaml(tmp_path):
    place = Workplace(tmp_path)
    plan = place.plan(run={"limit": 5})
    staging.stage(place.submission(plan))
    paths = JobPaths(plan.job_dir)
    paths.run_config.write_text("limit: 7\n")
    sealed = paths.sealed / folder_name(sealed_files(plan))
    assert f"GYM_SEALED='{sealed}'" in paths.script.read_text()
    assert (sealed / "run.yaml").read_text() == "limit: 5\n"
    assert 'eval run --config "$GYM_SEALED/run.yaml"' in (sealed / "driver.sh").read_text()
    assert not [part for part in sealed.glob("*.sh") if "$GYM_JOB_DIR/run.yaml" in part.read_text()]


def test_a_secret_may_be_replaced_and_nothing_else_of_the_script(tmp_path):
    place = Workplace(tmp_path)
    plan = place.plan(secrets={"KEY": SecretText("old'\nkey")})
    staging.stage(place.submission(plan))
    path = JobPaths(plan.job_dir).script
    text = path.read_text()
    path.write_text(text.replace("old'\\''\nkey", "new"))
    assert "'new'" in path.read_text()
    seal = Path(staging.__file__).parents[2] / "shell" / "seal.sh"
    asked = ["bash", "-c", f'. {seal}; gym_digest_script {path}; printf %s "$gym_digest"']
    digest = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert digest == script_digest(text) == script_digest(path.read_text())
    assert f"GYM_SCRIPT='{digest}'" in text
    assert with_own_digest(text) == text
    assert script_digest(text.replace("GYM_MAX_RETRIES='3'", "GYM_MAX_RETRIES='9'")) != digest


def test_a_machine_that_cannot_tell_goes_on_and_says_so(world, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    programs = "bash sed mkdir mv rm cat ln sort grep wc tail dd ls sleep"
    for name in programs.split():
        (few / name).symlink_to(shutil.which(name))
    status, said = run(world, 7, drive="exit 3", PATH=str(few))
    assert (status, world.worked) == (3, 1)
    assert "it is not known whether" in said


def test_a_run_directory_of_a_version_that_sealed_nothing_goes_on(tmp_path):
    """Its script reads the files beside it, as it always did."""
    world = World(tmp_path)
    old = world.job_dir / "shell"
    shutil.copytree(world.sealed, old)
    for part in old.glob("*.sh"):
        text = part.read_text().replace("$GYM_SEALED/states.tsv", "$GYM_JOB_DIR/shell/states.tsv")
        part.write_text(text.replace("$GYM_SEALED/run.yaml", "$GYM_JOB_DIR/run.yaml"))
    lines = world.paths.script.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("GYM_SCHEDULER="))
    last = next(number for number, line in enumerate(lines) if line.startswith("cd -- "))
    kept = [line for line in [*lines[:first], *lines[last:]] if "gym_check_seal" not in line]
    kept = [line.replace(f"sealed/{world.sealed.name}/", "shell/") for line in kept]
    world.paths.script.write_text("\n".join(kept) + "\n")
    shutil.rmtree(world.paths.sealed)
    world.run(7)
    world.set("state-7", "FAILED")
    status, _ = world.run(101, 7, drive=says(COMPLETE))
    assert (status, world.worked) == (0, 2)
    assert world.dot(".gym_infra_retries") == ["1"]
