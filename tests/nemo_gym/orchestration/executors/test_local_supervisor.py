from nemo_gym.orchestration.executors.local_supervisor import Assignment


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
