"""The only place that knows file names: of a submission's run directory and of a collector's output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_runs import homes

OF_THE_SHELL: Mapping[str, str] = {
    "gym": "the version of the job's `gym`",
    "successor": "claimed with its id by the job that goes on after this run",
    "claim": "what such a claim is made of, by a hard link",
    "commit": "the commit that the job installs, linked to `.gym_installed_commit` by the first one",
    "installed": "that commit and the program",
    "began": "with a step's name behind it: its container came to run",
    "health": "with a service's name behind it: what its health check says",
    "waits": "in a model's job, with a benchmark's name behind it: it waits for the services",
    "services": "in a model's job: ports and processes of the services, once they are ready",
    "services_failed": "in a model's job: why they will not be",
    "sharers": "in a model's job: how many benchmarks are at work still, once one has ended",
    "stop": "in a model's job: exists once it was asked to end; holds who asked",
    "wanted": "in a model's job: exists once a benchmark wants a successor",
    ".gym_installed_commit": "in the benchmark's folder: the commit that all its jobs use",
    ".gym_room": "with the run behind it, in the benchmark's folder: tries whether the disk is full",
    ".link": "with a job's id behind it, in the benchmark's folder: a successor's folder before it is whole",
}
"""Files of a run, in its folder unless said otherwise, that the shell of jobs alone writes and reads."""
OLD_SHELL = "shell"
"""The folder of a benchmark in which an earlier version put the shell files of its jobs, unsealed."""
PARALLEL = "parallel"
MODEL_CALLS = "model-calls"
"""Folders of captured calls, which an earlier version wrote."""


@dataclass(frozen=True, slots=True)
class RolloutPaths:
    """The files around one output ``<folder>/<stem>.jsonl`` (``rollouts.jsonl`` unless asked otherwise)."""

    output: Path

    def _beside(self, suffix: str) -> Path:
        return self.output.with_name(f"{self.output.stem}{suffix}")

    @property
    def materialized_inputs(self) -> Path:
        """Every planned rollout, one row each, written once before the first request."""
        return self._beside("_materialized_inputs.jsonl")

    @property
    def failures(self) -> Path:
        """One row a failed attempt."""
        return self._beside("_failures.jsonl")

    @property
    def answers(self) -> Path:
        """Answers that have no grade yet, one row each; absent when every answer has its grade."""
        return self._beside("_answers.jsonl")

    @property
    def turns(self) -> Path:
        """Turns of rollouts that are not over, where the agent stores them; absent when none is under way."""
        return self._beside("_turns.jsonl")

    @property
    def aggregate_metrics(self) -> Path:
        """Metrics over all rows of the output: a JSON list with one entry per benchmark."""
        return self._beside("_aggregate_metrics.json")

    @property
    def manifest(self) -> Path:
        """What the rows belong to: digests, model, counts."""
        return self._beside("_manifest.json")

    @property
    def coverage(self) -> Path:
        """How the expected rollouts add up: measured, failed, missing."""
        return self._beside("_coverage.json")

    @property
    def until(self) -> Path:
        """When the run may stop before all tasks are asked: rule, order, reference, decision."""
        return self._beside("_until.json")

    @property
    def lock(self) -> Path:
        """Folder of numbered ownership claims; the highest number owns the output."""
        return self._beside(".lock")

    @property
    def command(self) -> Path:
        """Folder with what the program of a benchmark that is a command has written; absent for others."""
        return self._beside("_command")

    @property
    def progress(self) -> Path:
        """Replaced as a whole about once a second while a collector runs."""
        name = "progress.json" if self.output.stem == "rollouts" else f"{self.output.stem}_progress.json"
        return self.output.with_name(name)


@dataclass(frozen=True, slots=True)
class LinkPaths:
    """One run of one job: ``links/<job id>.<restart count>/``, claimed by mkdir, one value a file."""

    folder: Path

    @property
    def drain(self) -> Path:
        """Exists once the job was asked to stop starting work; holds who asked."""
        return self.folder / "drain"

    @property
    def started(self) -> Path:
        """UTC seconds at which the job script began."""
        return self.folder / "started"

    @property
    def accounted(self) -> Path:
        """What the scheduler counted for earlier runs: lines ``<job id>.<restart> <raw seconds>``."""
        return self.folder / "accounted"

    @property
    def end(self) -> Path:
        """The end that the job script recorded: outcome, exit status and which signal asked."""
        return self.folder / "end"

    @property
    def full_disk(self) -> Path:
        """How the disk is: ``no`` (not full), ``waiting`` and since when, ``told``, or a number.

        Of a fixed length, so that it can be written over where no byte more would fit. The number: so many
        jobs in a row, this one the last, ended because their disk stayed full. Behind it ``about`` and the
        job about whose end they have not decided, and ``unqueued`` where no successor could be queued.
        """
        return self.folder / "full_disk"

    @property
    def end_reserve(self) -> Path:
        """Reserved space for the end marker, where the disk is full at the end."""
        return self.folder / "end.room"

    @property
    def replicas_lost(self) -> Path:
        """How many replicas of services ended while others of them went on."""
        return self.folder / "replicas_lost"

    @property
    def parallel(self) -> Path:
        """How many rollouts may be in flight now, where other benchmarks of the same job have ended."""
        return self.folder / PARALLEL

    @property
    def service_died(self) -> Path:
        """Name and status of a service that ended while the driver still ran."""
        return self.folder / "service_died"

    @property
    def exit(self) -> Path:
        """What the supervisor saw: state, exit status, times (JSON)."""
        return self.folder / "exit.json"

    @property
    def supervisor(self) -> Path:
        """Identity of the supervising process (JSON)."""
        return self.folder / "supervisor.json"

    @property
    def predecessor(self) -> Path:
        """The id of the job before in the chain; empty in the first one's."""
        return self.folder / "predecessor"

    @property
    def decision(self) -> Path:
        """Action and state of the chain, the reason, the evidence: a line each."""
        return self.folder / "decision"

    @property
    def retry(self) -> Path:
        """Exists when this run counted a retry; holds what for."""
        return self.folder / "retry"

    @property
    def queued(self) -> Path:
        """The successor: ``id`` or ``id;cluster``."""
        return self.folder / "queued"

    @property
    def queue_error(self) -> Path:
        """Why there is no successor; gone once there is one."""
        return self.folder / "queue_error"

    @property
    def rows(self) -> Path:
        """Rows that were recorded when it started."""
        return self.folder / "rows"

    @property
    def command(self) -> Path:
        """Exists where a command of the user's ran in place of the collector."""
        return self.folder / "command"

    @property
    def walltime(self) -> Path:
        """Seconds that it was given."""
        return self.folder / "walltime"

    @property
    def alive(self) -> Path:
        """Seconds that it had lived when it last said so."""
        return self.folder / "alive"

    @property
    def ready(self) -> Path:
        """Seconds from its start until its driver was started."""
        return self.folder / "ready"

    @property
    def collected(self) -> Path:
        """How the collector ended, with its counts, see `nemo_gym.rollouts.collect.exit_report`.

        It alone proves completeness.
        """
        return self.folder / "collected"

    @property
    def next(self) -> Path:
        """The successor's id, from a job of the `local` executor to its supervisor."""
        return self.folder / "next"

    @property
    def taken(self) -> Path:
        """Claims a waiting successor of the `local` executor: its start, or taking it out of the queue."""
        return self.folder / "taken"

    @property
    def waiting(self) -> Path:
        """What a job of the `local` executor waits for, a sentence; empty once it waits for nothing."""
        return self.folder / "waiting"

    @property
    def cancel(self) -> Path:
        """Exists once the executor was asked to cancel this job of the `local` executor."""
        return self.folder / "cancel"


@dataclass(frozen=True, slots=True)
class ResubmissionPaths:
    """One time that a benchmark was queued again in place, claimed by mkdir, one value a file."""

    folder: Path

    @property
    def owner(self) -> Path:
        """The process that queues it: while that may live, nobody else does."""
        return self.folder / "owner"

    @property
    def reason(self) -> Path:
        """UTC time, who, and why, a line each."""
        return self.folder / "reason"

    @property
    def max_retries(self) -> Path:
        """The raised number of retries; the highest of all counts, the config's included."""
        return self.folder / "max_retries"

    @property
    def max_walltime(self) -> Path:
        """The raised walltime in seconds; the highest of all counts, the config's included."""
        return self.folder / "max_walltime"

    @property
    def queued(self) -> Path:
        """The job: ``id`` or ``id;cluster``."""
        return self.folder / "queued"

    @property
    def queue_error(self) -> Path:
        """Why it could not be queued."""
        return self.folder / "queue_error"


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The folder of one benchmark inside a run directory."""

    job_dir: Path

    @property
    def script(self) -> Path:
        """The job script, 0600: the only file that holds secret values."""
        return self.job_dir / "job.sh"

    @property
    def sealed(self) -> Path:
        """What jobs read, as it was queued: shell files, configurations. A folder in it for each content."""
        return self.job_dir / "sealed"

    @property
    def config(self) -> Path:
        """Copies of every configuration file that was found for this benchmark."""
        return self.job_dir / "config"

    @property
    def run_config(self) -> Path:
        """What was submitted, includes merged and paths absolute; `host:VAR` stays `host:VAR`.

        For people and for later commands: jobs read the copy that is sealed.
        """
        return self.job_dir / "run.yaml"

    @property
    def inputs(self) -> Path:
        """Copies of data and prepare script, where the job runs on a machine that has not got them."""
        return self.job_dir / "inputs"

    @property
    def logs(self) -> Path:
        """Logs, one file a step and job id."""
        return self.job_dir / "logs"

    def log(self, step: str, job_id: str) -> Path:
        """The log of a step (a service's name, ``driver``, ``install``, …) in one job."""
        return self.logs / f"{step}-{job_id}.log"

    def output(self, job_id: str) -> Path:
        """Standard output and error of the job script itself."""
        return self.job_dir / (f"slurm-{job_id}.out" if job_id.isdigit() else f"{job_id}.out")

    @property
    def artifacts(self) -> Path:
        """Where rollouts and results are."""
        return self.job_dir / "artifacts"

    @property
    def rollouts(self) -> RolloutPaths:
        """The collector's files."""
        return default_output(self.artifacts)

    @property
    def events(self) -> Path:
        """The story of this benchmark, one JSON object a line."""
        return self.job_dir / ".gym_events.jsonl"

    @property
    def recipients(self) -> Path:
        """Who is notified of its end, as the submit config says it. Jobs read the copy that is sealed."""
        return self.job_dir / "notify.json"

    @property
    def notified(self) -> Path:
        """One file for each notice, made before it is sent: none is sent twice."""
        return self.job_dir / ".gym_notified"

    @property
    def cancelled(self) -> Path:
        """The tombstone of ``gym job cancel``: UTC time, who, why, a line each. No job goes on."""
        return self.job_dir / ".gym_cancelled"

    @property
    def chain(self) -> Path:
        """The jobs that went on, in their order, for people."""
        return self.job_dir / ".gym_job_chain"

    @property
    def accumulated_walltime(self) -> Path:
        """Seconds of ended runs, for people."""
        return self.job_dir / ".gym_accumulated_walltime"

    @property
    def infra_retries(self) -> Path:
        """Counted retries, for people."""
        return self.job_dir / ".gym_infra_retries"

    @property
    def resubmissions(self) -> Path:
        """One folder for each ``gym job resubmit``."""
        return self.job_dir / "resubmits"

    def resubmission(self, number: int) -> ResubmissionPaths:
        """The folder of one ``gym job resubmit``, numbered from 1."""
        return ResubmissionPaths(self.resubmissions / str(number))

    @property
    def links(self) -> Path:
        """One folder for each run of each job."""
        return self.job_dir / "links"

    def link(self, job_id: str, restart: int = 0) -> LinkPaths:
        """The folder of one run of one job."""
        return LinkPaths(self.links / f"{job_id}.{restart}")

    @property
    def otel(self) -> Path:
        """The collector's configuration and file exports."""
        return self.job_dir / "otel"

    @property
    def collector_config(self) -> Path:
        """The configuration of the telemetry collector, for people: jobs read the copy that is sealed."""
        return self.otel / "collector.yaml"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """A submission's run directory, ``<output_path>/<gym_job_id>/``."""

    run_dir: Path

    @property
    def record(self) -> Path:
        """The durable copy of the job record."""
        return self.run_dir / "gym-job.json"

    @property
    def resolved_config(self) -> Path:
        """The config exactly as submitted."""
        return self.run_dir / "resolved-config.yaml"

    @property
    def submission(self) -> Path:
        """What was submitted, written before the first job was queued: a lost record is made of it."""
        return self.run_dir / ".gym_submission.json"

    @property
    def fetched(self) -> Path:
        """In a folder that was fetched: where from, and what each file was when it was copied."""
        return self.run_dir / ".gym_fetched.json"

    @property
    def annotations(self) -> Path:
        """Tags and a note that people gave the run."""
        return self.run_dir / "gym-annotations.json"

    @property
    def slots(self) -> Path:
        """Who of this submission's jobs of the `local` executor may work."""
        return self.run_dir / ".slots"

    def job(self, benchmark: str) -> JobPaths:
        """The folder of one benchmark."""
        return JobPaths(self.run_dir / benchmark)


def default_output(folder: Path) -> RolloutPaths:
    """The collector's files in a folder, unless asked otherwise."""
    return RolloutPaths(folder / "rollouts.jsonl")


def outputs_in(folder: Path) -> list[RolloutPaths]:
    """The collector's outputs that have a manifest in a folder, in the order of their names."""
    found = sorted(folder.glob("*_manifest.json"))
    return [
        RolloutPaths(path.with_name(f"{path.name.removesuffix('_manifest.json')}.jsonl")) for path in found
    ]


def gym_copies(output_path: Path) -> Path:
    """The folder beside run directories with the `gym` of jobs: brought there, or installed by a job."""
    return output_path / ".gym"


def job_index() -> Path:
    """The folder of this user's submissions from this machine: a cache; records stay in run directories."""
    return homes.base("XDG_CACHE_HOME", ".cache", os.environ) / "nemo-gym" / "jobs"


def index_annotations(gym_job_id: str) -> Path:
    """Tags and note of a submission whose run directory is on another machine; no record, by its ending."""
    return job_index() / f"{gym_job_id}.annotations"


def index_entry(gym_job_id: str) -> Path:
    """The record of one submission in `job_index`."""
    return job_index() / f"{gym_job_id}.json"


def fetched_note(gym_job_id: str) -> Path:
    """Beside that record: the folders into which the submission was fetched, a line each."""
    return job_index() / f"{gym_job_id}.fetched"


def prepared_data(benchmark: str) -> Path:
    """Where prepared data goes when the benchmark's own folder cannot be written."""
    return homes.base("XDG_DATA_HOME", ".local/share", os.environ) / "nemo-gym" / benchmark


def local_jobs() -> Path:
    """The folder in which job ids of the `local` executor are claimed, one folder per job."""
    return homes.base("XDG_STATE_HOME", ".local/state", os.environ) / "nemo-gym" / "local-jobs"


def local_job(number: int) -> Path:
    """What a claimed number of the `local` executor stands for (JSON)."""
    return local_jobs() / str(number) / "job.json"
