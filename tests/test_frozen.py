"""Names that code, packages and stored jobs outside this repository use: none of them may go.

What is stored outlives a version: a rerun starts the programs of an old job's specification, a record is
loaded by other people's scripts, and agents, verifiers and training loops of other packages import these
modules. Names may be added here; none may be taken away while something that is stored can depend on it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import tomllib
from pathlib import Path

import pytest
from tests.source_tree import nodes, parsed

from nemo_gym import types as gym_types
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs import types as job_types
from nemo_trainer.contract import names as contract_names
from nemo_trainer.session import Session

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NAMES = {
    "nemo_gym.types": (
        "Row AnswerEnd ANSWER_ENDS Task Episode Verdict MetricInfo GradedRollout Estimate Policy Agent "
        "Verifier RolloutFailedError output_text reasoning_text answer_end token_count is_truncated"
    ),
    "nemo_gym.errors": (
        "EXIT_DONE EXIT_ERROR EXIT_USAGE EXIT_ALIVE EXIT_REFUSED EXIT_INCOMPLETE EXIT_EXHAUSTED "
        "EXIT_INTERRUPTED GymError UsageError ConfigError DataError ResumeRefusedError BusyError "
        "UnsupportedError RefusedError SubmitError"
    ),
    "nemo_gym.agents.registry": "AGENTS load_agent agent_types",
    "nemo_gym.agents.single_turn": "SingleTurnAgent SingleTurnAgent.Options SingleTurnAgent.run",
    "nemo_gym.verifiers.registry": "VERIFIERS load_verifier verifier_types",
    "nemo_gym.verifiers.match": "MatchVerifier MatchVerifier.Options MatchVerifier.verify",
    "nemo_gym.verifiers.multiple_choice": (
        "MultipleChoiceVerifier MultipleChoiceVerifier.Options MultipleChoiceVerifier.verify"
    ),
    "nemo_gym.orchestration.jobs": "SubmissionRecord.load SubmissionRecord.to_json SubmissionRecord.failed",
    "nemo_helix_plugin.client.client": "NemoClient AsyncNemoClient",
    # what a backend of another package is made of
    "nemo_helix_plugin.customization.backends": "GROUP BackendDescription",
    "nemo_helix_server.customizer.backends.base": "Backend",
    "nemo_helix_server.customizer.backends.registry": "GROUP",
    "nemo_helix_server.customizer.support": "Rule SupportTable",
    "nemo_helix_server.customizer.facts": "CompileFacts EngineFacts InputSource TrainingMachine",
    "nemo_trainer.session": "Session",
    "nemo_trainer.contract": (
        "EXIT_BAD_SPEC EXIT_CHECKPOINT_UNUSABLE EXIT_DIVERGED EXIT_DONE EXIT_ENGINE_UNAVAILABLE EXIT_PAUSED "
        "MANIFEST PINNED WANTS BadSpecError Checkpoint CheckpointUnusableError ContinueRow Control Damaged "
        "DivergedError EngineUnavailableError FileEntry Found InputsChangedError JobContext Manifest "
        "MetricRow MetricTail NotSavedError Outputs Reason Row Tailed TrainerError TrainerPaths Want history "
        "list_checkpoints list_superseded merged newest_verified parse_row read_checkpoint read_control "
        "read_manifest read_outputs read_progress verify verify_outputs write_control write_manifest "
        "write_outputs write_progress"
    ),
}
JOB_TYPES = (
    "TERMINAL AllocationLine Amounts ArtifactStorageType AttemptSort AuthContext BillTotals JobBill "
    "Checkpoint Container CpuExecutor "
    "CreateHelixJobRequest CreateHelixJobResultRequest DistributedExecutor DistributedResources "
    "EnvironmentVariable ExecutionProfile Executor Filter GpuExecutor GpuResources HelixJobAttemptResponse "
    "HelixJobLog HelixJobLogPage HelixJobResponse HelixJobResultResponse HelixJobSpec HelixJobSpecRecord "
    "HelixJobStatus HelixJobStatusResponse HelixJobStepRecord HelixJobStepResponse HelixJobStepSpec "
    "HelixJobStepStatus HelixJobStepStatusUpdate HelixJobStepWithContext HelixJobTaskResponse "
    "HelixJobTaskStatus HelixJobTaskUpdate JobControl JobControlRecord JobLogsQueryParams JobSecret JobSort "
    "ListAttemptsQueryParams ListJobsQueryParams ListResultsQueryParams ListStepsQueryParams "
    "ListTransitionsQueryParams Page Pagination PauseAllResponse ProfileCheck ProfileFinding Refusal "
    "Resources SecretSource Status StepLifecycle SubprocessExecutor Transition UpdateHelixJobRequest"
)
RECORD = (
    "gym_job_id gym_version gym_commit submitted_at run_dir cluster executor submitted_by benchmarks "
    "hostname executor_metadata schema_version labels config_digest"
)
FIELDS = {
    SubmissionRecord: RECORD,
    BenchmarkEntry: "benchmark job_dir job_id error",
    gym_types.Task: "task_index rollout_index row",
    gym_types.Episode: "response turns tool_calls fields",
    gym_types.Verdict: "reward extracted_answer fields",
}
CLIENT = (
    "from_config from_client with_options with_headers with_workspace with_retry to_async close base_url "
    "workspace context jobs customization files models workspaces secrets tokens profiles"
)
CLIENT_ARGUMENTS = (
    "base_url workspace auth default_headers timeout retry http_client owns_http_client transport "
    "url_resolver certificate_authority"
)
CLIENT_METHODS = {
    "jobs": (
        "create_job list_jobs get_job update_job delete_job cancel_job pause_job resume_job rerun_job "
        "update_job_control pause_all get_job_status get_job_bill update_job_status_details list_transitions "
        "stream_events watch_job list_job_attempts get_job_attempt list_job_attempt_steps list_steps "
        "get_job_step update_job_step_status list_job_step_tasks get_job_step_task update_job_step_task "
        "list_job_logs create_job_result list_job_results get_job_result download_job_result "
        "list_job_checkpoints get_job_checkpoint pin_job_checkpoint unpin_job_checkpoint "
        "get_execution_profiles create list retrieve get update delete cancel pause resume rerun control "
        "get_status bill get_logs attempts steps tasks results checkpoints"
    ),
    "profiles": "list check",
    "workspaces": "create list get delete",
    "secrets": "create list get update delete",
    "tokens": "create list revoke",
    "customization": "automodel unsloth rl templates health",
    "files": (
        "create_fileset list_filesets get_fileset delete_fileset list_files upload_file download_file "
        "delete_file"
    ),
    "models": "create list get delete",
}
SESSION = {
    "open": "context inputs engine environment boundary policy",
    "restore": "",
    "wanted": "",
    "agreed": "broadcast",
    "may_stop": "step",
    "save_due": "step",
    "metrics": "step values epoch",
    "progress": "fields",
    "staging": "step",
    "publish": "source step reason metrics engine",
    "prune": "keep best",
    "outputs": "paths",
    "paused": "",
    "finish": "",
}
TRAINER_EXITS = {
    "EXIT_DONE": 0,
    "EXIT_BAD_SPEC": 2,
    "EXIT_ENGINE_UNAVAILABLE": 3,
    "EXIT_CHECKPOINT_UNUSABLE": 4,
    "EXIT_DIVERGED": 5,
    "EXIT_PAUSED": 75,
}
GYM_EXITS = {
    "EXIT_DONE": 0,
    "EXIT_ERROR": 1,
    "EXIT_USAGE": 2,
    "EXIT_ALIVE": 4,
    "EXIT_REFUSED": 5,
    "EXIT_INCOMPLETE": 75,
    "EXIT_EXHAUSTED": 76,
    "EXIT_INTERRUPTED": 130,
}
VARIABLES = (
    "NEMO_JOB_TRAINER_PATH NEMO_JOB_CONTROL_FILE NEMO_JOB_CHECKPOINT NEMO_JOB_ID NEMO_JOB_ATTEMPT_ID "
    "NEMO_JOB_STEP NEMO_JOB_TASK NEMO_JOB_WORKSPACE NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH "
    "NEMO_JOB_STEP_CONFIG_FILE_PATH NHX_JOBS_URL NHX_BASE_URL NHX_ACCESS_TOKEN RANK"
)
"""What the environment says to a trainer."""
PROGRAMS = (
    # in the specifications of stored jobs
    "nemo_helix_server.customizer.steps.download",
    "nemo_helix_server.customizer.steps.upload",
    "nemo_helix_server.customizer.steps.register",
    "nemo_engines.run",
    "nemo_trainer.example",
    # in pages for users
    "nemo_trainer.pack",
    "nemo_trainer.__main__",
)
"""What is started as ``python -m``."""
ENTRY_POINTS = {
    "scripts": {"gym": "nemo_gym.cli.main:main", "nemo": "nemo_helix_plugin.cli.main:main"},
    "nemo.commands": {
        "engines": "nemo_helix_server.commands.engines:engines",
        "services": "nemo_helix_server.commands.services:services",
    },
    "nemo_gym.agents": {"single_turn": "nemo_gym.agents.single_turn:SingleTurnAgent"},
    "nemo_gym.verifiers": {
        "match": "nemo_gym.verifiers.match:MatchVerifier",
        "multiple_choice": "nemo_gym.verifiers.multiple_choice:MultipleChoiceVerifier",
    },
}


def found(owner: object, dotted: str) -> bool:
    """Whether an object has an attribute, or an attribute of one."""
    for name in dotted.split("."):
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


def missing(owner: object, names: str) -> list[str]:
    return [name for name in names.split() if not found(owner, name)]


@pytest.mark.parametrize("module", NAMES)
def test_a_documented_module_keeps_its_names(module: str) -> None:
    assert missing(importlib.import_module(module), NAMES[module]) == []


def test_the_module_of_job_types_keeps_its_names_and_names_no_other() -> None:
    assert missing(job_types, JOB_TYPES) == []
    assert sorted(job_types.__all__) == sorted(JOB_TYPES.split()), "freeze a name that was added here, too"


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_documented_class_keeps_its_fields(kind: type) -> None:
    fields = {field.name for field in dataclasses.fields(kind)}
    assert [name for name in FIELDS[kind].split() if name not in fields] == []


def test_the_client_keeps_its_methods_and_arguments() -> None:
    assert missing(NemoClient, CLIENT) == []
    arguments = inspect.signature(NemoClient).parameters
    assert [name for name in CLIENT_ARGUMENTS.split() if name not in arguments] == []
    with NemoClient(base_url="http://127.0.0.1:9") as client:
        gone = {group: missing(getattr(client, group), names) for group, names in CLIENT_METHODS.items()}
    assert {group: names for group, names in gone.items() if names} == {}


@pytest.mark.parametrize("method", SESSION)
def test_a_training_session_keeps_its_methods_and_arguments(method: str) -> None:
    arguments = inspect.signature(getattr(Session, method)).parameters
    assert [name for name in SESSION[method].split() if name not in arguments] == []


@pytest.mark.parametrize(
    ("module", "codes"), [("nemo_trainer.contract", TRAINER_EXITS), ("nemo_gym.errors", GYM_EXITS)]
)
def test_exit_codes_keep_their_meaning(module: str, codes: dict[str, int]) -> None:
    owner = importlib.import_module(module)
    assert {name: getattr(owner, name) for name in codes} == codes


def test_variables_of_a_trainer_keep_their_names() -> None:
    values = {value for name, value in vars(contract_names).items() if name.isupper()}
    assert [name for name in VARIABLES.split() if name not in values] == []


def source_of(module: str) -> ast.Module:
    """The syntax tree of a module, which is not run: engines have environments of their own."""
    return parsed(ROOT / "src" / f"{module.replace('.', '/')}.py")


def is_program(tree: ast.Module) -> bool:
    """Whether a module does something when it is run as ``python -m``."""
    tests = (ast.unparse(node.test) for node in tree.body if isinstance(node, ast.If))
    return "__name__ == '__main__'" in tests


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_program_that_stored_jobs_and_users_start_is_there(module: str) -> None:
    assert is_program(source_of(module))


def test_a_module_that_defines_things_only_is_not_taken_for_a_program() -> None:
    assert not is_program(source_of("nemo_trainer.session"))


def test_the_engine_keeps_the_options_with_which_stored_jobs_start_it() -> None:
    texts = {node.value for node in nodes(source_of("nemo_engines.run"), ast.Constant)}
    assert {"--spec", "--dir"} <= texts


@pytest.mark.parametrize("group", ENTRY_POINTS)
def test_entry_points_are_declared_and_lead_to_something(group: str) -> None:
    declared = PROJECT["scripts"] if group == "scripts" else PROJECT["entry-points"][group]
    assert ENTRY_POINTS[group].items() <= declared.items()
    assert [
        target for target in ENTRY_POINTS[group].values() if not callable(pkgutil.resolve_name(target))
    ] == []
