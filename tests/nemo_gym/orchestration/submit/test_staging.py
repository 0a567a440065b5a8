import stat
from pathlib import Path

import pytest
import yaml
from tests.local_jobs import Workplace, service

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan.sealed_files import folder_name, sealed_files
from nemo_gym.orchestration.plan.values import SlurmPlan
from nemo_gym.orchestration.submit import staging


def modes(folder):
    """Every file and folder below with its mode."""
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    ("scheduler", "own"),
    [
        ("local", ["scheduler_local"]),
        ("slurm", ["scheduler_slurm", "slurm_steps", "slurm_queue", "clean_environment"]),
    ],
)
def test_a_run_directory_holds_all_that_a_job_needs_and_only_the_script_is_closed(tmp_path, scheduler, own):
    place = Workplace(tmp_path)
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.yaml").write_text(f"from: {folder}\n")
    sources = [tmp_path / "x" / "config.yaml", tmp_path / "y" / "config.yaml"]
    run = {
        "benchmark": {"name": "arithmetic"},
        "output_jsonl_fpath": "/a/b.jsonl",
        "limit": None,
        "on": "yes",
    }
    slurm = SlurmPlan(options=["--account=a"], runtime="none") if scheduler == "slurm" else None
    plan = place.plan(services=[service()], config_files=sources, run=run, slurm=slurm)
    staging.stage(place.submission(plan))
    shell = [
        "chain",
        "chain_facts",
        "decide",
        "driver",
        "end_marker",
        "full_disk",
        "header",
        "services",
        *own,
    ]
    home = f"sealed/{folder_name(sealed_files(plan))}"
    assert modes(plan.job_dir) == {
        **dict.fromkeys(["artifacts", "config", "links", "logs", "sealed", home], "0o755"),
        **{f"{home}/{name}.sh": "0o444" for name in shell},
        f"{home}/states.tsv": "0o444",
        f"{home}/run.yaml": "0o444",
        "config/01-config.yaml": "0o644",
        "config/02-config.yaml": "0o644",
        "run.yaml": "0o644",
        "job.sh": "0o600",
    }
    assert stat.S_IMODE(plan.job_dir.parent.stat().st_mode) == 0o755
    paths = JobPaths(plan.job_dir)
    assert (paths.config / "02-config.yaml").read_text() == "from: y\n"
    assert yaml.safe_load(paths.run_config.read_text()) == run


def test_modes_do_not_follow_the_umask(tmp_path):
    import os

    place = Workplace(tmp_path)
    plan = place.plan()
    before = os.umask(0o077)
    try:
        staging.stage(place.submission(plan))
    finally:
        os.umask(before)
    assert modes(plan.job_dir.parent)["arithmetic/run.yaml"] == "0o644"
    assert modes(plan.job_dir.parent)["arithmetic"] == "0o755"


def test_a_run_directory_that_exists_is_refused_and_left_as_it_is(tmp_path):
    place = Workplace(tmp_path)
    submission = place.submission(place.plan())
    submission.run_dir.mkdir()
    (submission.run_dir / "precious").write_text("mine")
    with pytest.raises(FileExistsError):
        staging.stage(submission)
    assert [path.name for path in submission.run_dir.iterdir()] == ["precious"]


def test_what_cannot_be_rendered_leaves_no_folder_behind(tmp_path):
    place = Workplace(tmp_path)
    submission = place.submission(place.plan(command="a\0b"))
    with pytest.raises(GymError):
        staging.stage(submission)
    assert not submission.run_dir.exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    place = Workplace(Path(tmp_path))
    plan = place.plan(job_dir=tmp_path / "file" / "run" / "arithmetic")
    with pytest.raises(GymError, match=r"job\.output_path"):
        staging.stage(place.submission(plan))
