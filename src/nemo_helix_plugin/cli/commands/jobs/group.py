"""The group `nemo jobs`, with its commands by name."""

from __future__ import annotations

from nemo_cli.lazy_group import Lazy
from nemo_helix_plugin.cli.lazy import NemoGroup

_HERE = "nemo_helix_plugin.cli.commands.jobs"

_COMMANDS = {
    "create": Lazy(f"{_HERE}.create:create", "Create a job."),
    "list": Lazy(f"{_HERE}.show:list_jobs", "Jobs of a workspace, newest first."),
    "get": Lazy(f"{_HERE}.show:get", "One job: its status, and why."),
    "get-status": Lazy(f"{_HERE}.show:get_status", "Status of a job, its steps and their tasks."),
    "watch": Lazy(f"{_HERE}.watch:watch", "Follow a job's status and log until it ends."),
    "pause": Lazy(f"{_HERE}.actions:pause", "Save a checkpoint and stop, freeing the GPUs."),
    "resume": Lazy(f"{_HERE}.actions:resume", "Go on with a paused job from its checkpoint."),
    "rerun": Lazy(f"{_HERE}.actions:rerun", "A new attempt of a failed job, from its newest checkpoint."),
    "control": Lazy(f"{_HERE}.actions:control", "Change how long a paused job keeps its storage."),
    "cancel": Lazy(f"{_HERE}.actions:cancel", "End a job for good."),
    "delete": Lazy(f"{_HERE}.actions:delete", "Remove a job that has ended, and what it left."),
    "update": Lazy(f"{_HERE}.actions:update", "Change a job's description, tags or definition."),
    "get-logs": Lazy(f"{_HERE}.logs:get_logs", "A job's log, page by page."),
    "tail": Lazy(f"{_HERE}.logs:tail", "The last lines of a job's log."),
    "attempts": Lazy(f"{_HERE}.attempts:attempts", "The runs of a job; reruns make new ones."),
    "checkpoints": Lazy(f"{_HERE}.checkpoints:checkpoints", "What training saved; keep one for good."),
    "results": Lazy(f"{_HERE}.results:results", "What a job made."),
    "bill": Lazy(f"{_HERE}.bill:bill", "What a job's allocations used, waited for, and lost."),
    "plot": Lazy(f"{_HERE}.plot:plot", "Losses and other metrics of jobs, as charts."),
    "evaluations": Lazy(
        f"{_HERE}.evaluations:evaluations", "Scores and answers of a training's checkpoints."
    ),
    "transitions": Lazy(f"{_HERE}.show:transitions", "Every change of status: when, who, why."),
    "list-execution-profiles": Lazy(f"{_HERE}.show:list_execution_profiles", "Where steps can run."),
    "steps": Lazy(f"{_HERE}.steps:steps", "The steps of a job, for tools."),
    "tasks": Lazy(f"{_HERE}.tasks:tasks", "The processes of a step, for tools."),
    "update-status-details": Lazy(
        f"{_HERE}.actions:update_status_details", "Add to a job's status details, for tools."
    ),
}

jobs = NemoGroup("jobs", lazy=_COMMANDS, help="Create, follow, pause, resume and rerun jobs.")
