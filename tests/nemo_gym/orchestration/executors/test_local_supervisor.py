import json
from dataclasses import asdict

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.config.notify_schema import NotifyConfig
from nemo_gym.orchestration.executors.local_supervisor import Assignment, _send_end_notice
from nemo_runs.processes import supervise


def test_a_run_is_told_from_every_other_by_submission_benchmark_job_and_restart():
    job = Assignment(
        job_dir="/r/b",
        gym_job_id="gym-job-1",
        benchmark="b",
        number=7,
        max_parallel=1,
        walltime=None,
        grace=1.0,
    )
    assert job.job_id == "local-7"
    assert job.run_of("local-8") == "gym-job-1/b/local-8.0"


def test_of_a_job_that_was_killed_the_supervisor_tells_and_of_no_other(tmp_path):
    job = JobPaths(tmp_path / "gym-job-1" / "b")
    killed, told = job.link("local-7"), job.link("local-8")
    for link in (killed, told):
        link.folder.mkdir(parents=True)
    (job.sealed / "aa").mkdir(parents=True)
    notify = NotifyConfig(command=f"cat >>{tmp_path}/told")
    (job.sealed / "aa" / job.recipients.name).write_text(notify.model_dump_json())
    end = supervise.Exit("FAILED", 137, 9, 1.0, 2.0, "")
    for link in (killed, told):
        link.exit.write_text(json.dumps(asdict(end)))
    _send_end_notice(job, killed)
    [document] = (tmp_path / "told").read_text().splitlines()
    assert json.loads(document)["reason"] == "FAILED: its job was killed"
    _send_end_notice(job, told)  # the same end of the same benchmark
    assert len((tmp_path / "told").read_text().splitlines()) == 1
