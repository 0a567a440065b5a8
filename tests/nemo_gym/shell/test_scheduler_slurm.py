"""What job scripts ask of Slurm, in real bash against the fake cluster's programs."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.resident_programs import ResidentPrograms
from tests.sbatch_replies import REPLIES

import nemo_gym
from nemo_gym.orchestration.plan.sealed_files import script_digest
from nemo_slurm import calls
from nemo_slurm.cluster import Cluster
from nemo_slurm.hosts import LocalHost
from nemo_slurm.testing import FakeCluster

pytestmark = pytest.mark.services

SHELL = Path(nemo_gym.__file__).parent / "shell"
CLEAN = Path(calls.__file__).with_name("clean_environment.sh")
PARTS = ("slurm_steps", "scheduler_slurm", "slurm_queue")
TOKEN = "canary-of-a-token"


class World:
    """A job's folder on a fake cluster, and bash with the file that answers for Slurm."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.job_dir = folder / "it's a job"
        (self.job_dir / "links").mkdir(parents=True)
        (self.job_dir / "job.sh").write_text("#!/bin/bash\n#SBATCH --job-name=gym-b\n:\n")
        self.fake = FakeCluster(folder / "cluster")
        # written some time before anything happens on the cluster, whose time is its own
        os.utime(self.job_dir / "job.sh", (self.fake.now() - 10_000,) * 2)
        patch.setenv("PATH", f"{self.fake.path}:{os.environ['PATH']}")
        self.settings = {"GYM_KILL_ON_INVALID_DEP": "yes", "GYM_QUEUE_FROM": "job", "GYM_OTEL_TOKEN_ENV": ""}
        self.settings["GYM_SCRIPT"] = ""

    def queue(self, token: str = "gym-job-x/b/1") -> str:
        """A job of the chain, running."""
        job = (
            Cluster(LocalHost())
            .submit(
                str(self.job_dir / "job.sh"), token=token, folder=str(self.job_dir), options=["--requeue"]
            )
            .job
        )
        return job.id

    def ask(self, command: str, own: str = "1", **environ: str) -> str:
        """Bash with the functions; what it prints."""
        values = {
            "GYM_JOB": "gym-job-x",
            "GYM_BENCHMARK": "b",
            "GYM_JOB_DIR": str(self.job_dir),
            **self.settings,
        }
        text = "\n".join(
            [
                "set -u",
                *(f"{name}={_quoted(value)}" for name, value in values.items()),
                f". {_quoted(str(SHELL / 'header.sh'))}",
                f". {_quoted(str(CLEAN))}",
                *(f". {_quoted(str(SHELL / f'{part}.sh'))}" for part in ("seal", *PARTS)),
                "gym_identify",
                command,
            ]
        )
        given = os.environ | {"SLURM_JOB_ID": own, "SLURM_NTASKS": "9", **environ}
        done = subprocess.run(
            ["bash", "-c", text], cwd=self.job_dir, env=given, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.stdout.strip()

    def state_of(self, number: str) -> str:
        return self.ask(f'gym_state_of "{number}"; echo "$gym_state/$gym_state_source"')

    def elapsed_of(self, number: str) -> str:
        return self.ask(f'gym_elapsed_of {number}; echo "$gym_elapsed"')

    def queue_next(self, own: str, more: str = "", **environ: str) -> str:
        return self.ask(f'{more}\ngym_queue_next; echo "$? $gym_next $gym_queue_error"', own, **environ)

    def scancel(self, number: str) -> None:
        """As a person does it."""
        subprocess.run(["scancel", number], check=True)

    def started(self, number: str, restart: int = 0) -> None:
        """What the prologue of that run wrote."""
        link = self.job_dir / "links" / f"{number}.{restart}"
        link.mkdir(parents=True)
        (link / "started").write_text(f"{int(self.fake.now())}\n")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path, monkeypatch)
    programs = ResidentPrograms(made.fake.path)
    yield made
    programs.close()


def test_the_controller_is_asked_first_then_accounting_and_silence_is_nothing(world):
    job = world.queue()
    assert world.state_of(job) == "RUNNING/scontrol"
    world.fake.end(job, "TIMEOUT")
    assert world.state_of(f"{job};main") == "TIMEOUT/scontrol"
    world.fake.move(1000)
    assert world.state_of(job) == "TIMEOUT/sacct"
    assert world.state_of("4711") == "/"
    with world.fake.faults() as faults:
        faults.accounting = "down"
    assert world.state_of(job) == "/"


def test_raw_text_is_handed_on_and_a_banner_is_passed_over(world):
    job = world.queue()
    world.scancel(job)
    world.fake.move(1000)
    with world.fake.faults() as faults:
        faults.banner = "** Welcome to the cluster **\n"
    assert world.state_of(job) == f"CANCELLED by {os.getuid()}/sacct"
    assert world.elapsed_of(job) == "0 0"
    with world.fake.faults() as faults:
        faults.cuts_states = True
    assert world.state_of(job) == "CANCELLED+/sacct"


OURS = {"name": "gym-b", "uid": os.getuid(), "comment": "gym-job-x/b/1", "ago": 1000.0}
"""A record in which nothing speaks against its being a job of this chain."""


@pytest.mark.parametrize("known", [{}, {"comment": ""}, {"name": "allocation"}])
def test_a_record_in_which_nothing_disagrees_is_of_the_job_that_is_meant(world, known):
    world.fake.remember_older("900", "TIMEOUT", elapsed=77, **{**OURS, **known})
    named = {"SLURM_JOB_NAME": "gym-b"}
    said = world.ask('gym_state_of 900; echo "$gym_state/$gym_state_source"', **named)
    assert (said, world.elapsed_of("900")) == ("TIMEOUT/sacct", "0 77")


@pytest.mark.parametrize(
    "other",
    [
        {"comment": "gym-job-y/b/1"},
        {"comment": "a stranger's own words"},
        {"uid": 4242},
        {"name": "train"},
        {"ago": 400 * 86_400.0},
        {"comment": "", "uid": 4242},
        {"comment": "", "name": "train"},
        {"comment": "", "ago": 400 * 86_400.0},
    ],
)
@pytest.mark.parametrize("controller_down", [False, True])
def test_one_field_that_disagrees_disowns_an_older_record_with_the_same_number(world, other, controller_down):
    world.fake.remember_older("900", "COMPLETED", elapsed=77, **{**OURS, **other})
    with world.fake.faults() as faults:
        faults.controller_down = controller_down
    asked = 'gym_state_of 900; gym_elapsed_of 900; echo "$gym_state/$gym_elapsed"'
    assert world.ask(asked, SLURM_JOB_NAME="gym-b") == "/"


@pytest.mark.parametrize(
    "other", [{"comment": "gym-job-y/b/1"}, {"uid": 4242}, {"name": "train"}, {"name": "gym-b too"}]
)
def test_the_controller_is_not_believed_by_number_alone(world, other):
    job = world.queue()
    world.fake.end(job, "FAILED")
    named = {"SLURM_JOB_NAME": "gym-b"}
    ask = f'gym_state_of {job}; gym_elapsed_of {job}; echo "$gym_state/$gym_elapsed"'
    assert world.ask(ask, **named) == "FAILED/0 0"
    world.fake.change(job, **other)
    assert world.ask(ask, **named) == "/"


def test_what_the_controller_disowns_is_disowned_in_accounting_too_whose_name_comes_late(world):
    job = world.queue()
    world.fake.end(job, "FAILED")
    world.fake.change(job, name="train", comment="")
    ago = world.fake.now() - world.fake.job(job).submitted_at - 1
    world.fake.remember_older(job, "FAILED", **{**OURS, "comment": "", "name": "allocation", "ago": ago})
    asked = f'gym_state_of {job}; gym_elapsed_of {job}; echo "$gym_state/$gym_elapsed"'
    assert world.ask(asked, SLURM_JOB_NAME="gym-b") == "/"


def test_while_the_controller_is_away_a_record_with_neither_name_nor_comment_says_nothing(world):
    asked = 'gym_state_of 900; gym_elapsed_of 900; echo "$gym_state/$gym_elapsed"'
    world.fake.remember_older("900", "COMPLETED", elapsed=77, **{**OURS, "comment": "", "name": "allocation"})
    assert world.ask(asked, SLURM_JOB_NAME="gym-b") == "COMPLETED/0 77"
    with world.fake.faults() as faults:
        faults.controller_down = True
    assert world.ask(asked, SLURM_JOB_NAME="gym-b") == "/"


def test_a_record_that_ends_before_the_run_had_begun_is_of_another_job(world):
    world.fake.remember_older("900", "COMPLETED", elapsed=77, **{**OURS, "comment": "", "ago": 5000.0})
    assert world.state_of("900") == "COMPLETED/sacct"
    world.started("900")
    assert world.state_of("900") == "/"
    assert world.elapsed_of("900") == ""


def test_whoever_cancelled_a_job_is_known_from_accounting_while_the_controller_names_nobody(world):
    job = world.queue()
    world.fake.end(job, "CANCELLED", author=0)
    assert world.state_of(job) == "CANCELLED by 0/scontrol"
    with world.fake.faults() as faults:
        faults.accounting = "down"
    assert world.state_of(job) == "CANCELLED/scontrol"


def test_each_run_of_a_requeued_job_has_its_own_seconds(world):
    job = world.queue()
    world.fake.move(100)
    assert world.elapsed_of(job) == ""
    world.fake.requeue(job)
    world.fake.move(30)
    assert world.elapsed_of(job).splitlines()[0].split()[0] == "0"
    world.fake.end(job, "NODE_FAIL")
    runs = [line.split() for line in world.elapsed_of(job).splitlines()]
    assert [run for run, _ in runs] == ["0", "1"]
    assert [int(seconds) >= least for (_, seconds), least in zip(runs, (100, 30), strict=True)] == [
        True,
        True,
    ]


def test_a_successor_waits_for_this_job_and_inherits_its_environment_alone(world):
    job = world.queue()
    (world.job_dir / ".gym_job_chain").write_text(f"{job}\n")
    world.settings["GYM_OTEL_TOKEN_ENV"] = "MY_TOKEN"
    more = f"gym_token={TOKEN}; export SETUP=x PATH=/nowhere:$PATH; unset KEPT"
    answer = world.queue_next(job, more, KEPT="as it was", NEMO_GYM_RUN="of a job around this one")
    status, number = answer.split()
    assert status == "0"
    successor = world.fake.job(number)
    assert successor.options["dependency"] == f"afternotok:{job}"
    assert successor.options["kill_invalid"] == "yes"
    assert (successor.comment, successor.arguments) == ("gym-job-x/b/2", [job])
    assert successor.environment["KEPT"] == "as it was"
    assert successor.environment["MY_TOKEN"] == TOKEN
    assert not successor.environment["PATH"].startswith("/nowhere")
    assert [
        name for name in successor.environment if name.startswith(("SLURM", "NEMO_GYM_RUN", "SETUP"))
    ] == []


def test_a_second_run_of_a_job_and_a_lost_reply_find_the_successor_that_is_there(world):
    job = world.queue()
    with world.fake.faults() as faults:
        faults.lost_replies = 1
    first = world.queue_next(job)
    assert first.startswith("0 ")
    assert world.queue_next(job, SLURM_RESTART_COUNT="1") == first
    assert len(world.fake.jobs()) == 2


def test_a_refusal_is_handed_on_in_the_schedulers_words_and_the_option_can_be_left_out(world):
    job = world.queue()
    with world.fake.faults() as faults:
        faults.refuses_kill_option = True
    refused = world.queue_next(job)
    assert refused.startswith("1 ")
    assert "--kill-on-invalid-dep" in refused
    world.settings["GYM_KILL_ON_INVALID_DEP"] = ""
    assert world.queue_next(job).startswith("0 ")


def test_where_jobs_may_not_submit_the_login_node_is_asked_over_ssh(world, tmp_path, monkeypatch):
    job = world.queue()
    folder = tmp_path / "programs"
    folder.mkdir()
    real = world.fake.path / "sbatch"
    refusing = f'[ "${{VIA-}}" = login ] && exec {real} "$@"; echo "sbatch: error: Access denied" >&2; exit 1'
    programs = {"sbatch": refusing, "ssh": f'printf "%s\\n" "$@" >{folder}/argv; VIA=login exec bash -s'}
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    given = {"SLURM_SUBMIT_HOST": "login7"}
    world.settings["GYM_OTEL_TOKEN_ENV"] = "MY_TOKEN"
    assert "Access denied" in world.queue_next(job, **given)
    world.settings["GYM_QUEUE_FROM"] = "login"
    status, number = world.queue_next(job, f"gym_token={TOKEN}", **given).split()
    assert status == "0"
    assert world.fake.job(number).environment["MY_TOKEN"] == TOKEN
    argv = (folder / "argv").read_text()
    assert "login7" in argv
    assert TOKEN not in argv


@pytest.mark.parametrize("way", ["job", "login"])
def test_a_successor_hears_what_could_be_written_nowhere_however_it_is_queued(
    world, tmp_path, monkeypatch, way
):
    job = world.queue()
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "ssh").write_text('#!/bin/bash\nexec env -i PATH="$PATH" bash -s\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    world.settings["GYM_QUEUE_FROM"] = way
    _, number = world.queue_next(job, "gym_handed=full-disk:3:17", SLURM_SUBMIT_HOST="login7").split()
    assert world.fake.job(number).arguments == [job, "full-disk:3:17"]


@pytest.mark.parametrize("way", ["job", "login"])
@pytest.mark.parametrize("how", ["as queued", "another secret", "edited", "gone"])
def test_a_successor_runs_what_was_queued_whatever_became_of_the_script(
    world, tmp_path, monkeypatch, way, how
):
    job = world.queue()
    text = "#!/bin/bash\n# Not sealed: a\nGYM_SCRIPT=''\nKEY='old'\n# Sealed again.\necho 'what was queued'\n"
    kept, script = tmp_path / "slurm_script", world.job_dir / "job.sh"
    kept.write_text(text)
    script.write_text(
        {"another secret": text.replace("old", "new"), "edited": text + "exit 9\n"}.get(how, text)
    )
    if how == "gone":
        script.unlink()
    folder = tmp_path / "programs"
    folder.mkdir()
    # the login node has not got what the scheduler keeps on the compute node
    hidden = f'[ "$2" != {kept} ] || [ {way} = job ] || exit 9; '
    read = f'while [ "$1" != -- ]; do shift; done; {hidden}cat "$2" >{tmp_path}/got; echo 4711'
    for name, does in {"sbatch": read, "ssh": "exec bash -s"}.items():
        (folder / name).write_text(f"#!/bin/bash\n{does}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    world.settings |= {"GYM_QUEUE_FROM": way, "GYM_SCRIPT": script_digest(text)}
    said = world.queue_next(job, f"BASH_ARGV0={kept}; exec 2>/dev/null", SLURM_SUBMIT_HOST="login7")
    assert said == "0 4711"
    assert (tmp_path / "got").read_text() == (text.replace("old", "new") if how == "another secret" else text)


def test_a_successor_waits_or_is_gone_or_nobody_can_tell(world):
    job = world.queue()
    _, number = world.queue_next(job).split()

    def waits(which):
        return world.ask(f"gym_next_waits {which}; echo $?")

    assert waits(number) == "0"
    assert world.ask(f"gym_drop_next {number}; echo $?") == "0"
    assert waits(number) == "1"
    assert waits("4711") == "1"
    with world.fake.faults() as faults:
        faults.controller_down = True
    assert waits(number) == "2"


def test_a_step_without_a_container_is_the_program_itself(world):
    world.settings |= {"GYM_RUNTIME": "none", "GYM_DRIVER_IMAGE": ""}
    assert world.ask("GYM_DRIVER_MOUNTS=(); (gym_run_step driver printf '%s-' 'a b' c)") == "a b-c-"


@pytest.mark.parametrize(("runtime", "program"), [("pyxis", "srun"), ("apptainer", "apptainer")])
def test_a_step_in_a_container_is_started_with_every_word_as_it_was(
    world, tmp_path, monkeypatch, runtime, program
):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / program).write_text("#!/bin/bash\nprintf '[%s]' \"$@\"\n")
    (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    world.settings |= {"GYM_RUNTIME": runtime}
    arrays = (
        "GYM_SERVICE_NAMES=(policy) GYM_SERVICE_0_IMAGE='an image' GYM_SERVICE_0_MOUNTS=('/a b:/c:ro' /d:/d)"
    )
    said = world.ask(
        f"{arrays}; gym_exported=(A B); (gym_run_step policy serve --port 1 '')", SLURMD_NODENAME="n1"
    )
    if runtime == "apptainer":
        assert said == "[exec][--nv][--bind][/a b:/c:ro][--bind][/d:/d][an image][serve][--port][1][]"
    else:
        assert (
            "[--container-image=an image][--container-mounts=/a b:/c:ro,/d:/d][--container-env=A,B]" in said
        )
        assert said.endswith("[sh][][serve][--port][1][]")
        assert "[--overlap][--nodes=1][--ntasks=1][--nodelist=n1][--cpu-bind=none][--export=ALL]" in said


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        ("false", "ended with exit status 1"),
        ("exit 7", "left the job with exit status 7"),
        ("set -e; false; true", "left the job with exit status 1"),
    ],
)
def test_lines_of_setup_that_fail_are_told(world, setup, sentence):
    world.settings["GYM_SETUP"] = setup
    text = 'exec 2>&1; gym_end() { echo "ended"; }; gym_setup; ((gym_setup_status == 0)) || gym_end'
    said = world.ask(text)
    assert sentence in said
    assert said.endswith("ended")


def test_lines_of_setup_hold_for_what_follows_and_module_is_made_known(world, tmp_path):
    init = tmp_path / "modules" / "init"
    init.mkdir(parents=True)
    (init / "bash").write_text('module() { export LOADED="$*"; }\n')
    world.settings["GYM_SETUP"] = "module load cuda\necho $UNSET_VARIABLE\nulimit -n 321"
    said = world.ask('gym_setup; echo "$LOADED $(ulimit -n)"', MODULESHOME=str(init.parent))
    assert said == "load cuda 321"


# What can be known of a job: what happened to it, how long ago, what is wrong, its state, seconds of its runs

LONG_AGO = 1000


def ended(state):
    def happen(world, job):
        world.fake.move(100)
        world.fake.end(job, state)

    return happen


def requeued(*states):
    def happen(world, job):
        for number, state in enumerate(states, start=1):
            world.fake.move(10 * number)
            world.fake.requeue(job, state)
        world.fake.move(7)
        world.fake.end(job, "COMPLETED")

    return happen


def suspended(world, job):
    world.fake.move(30)
    world.fake.suspend(job, 7200)
    world.fake.move(70)
    world.fake.end(job, "TIMEOUT")


def cancelled(world, job):
    world.fake.move(100)
    world.scancel(job)


CASES = {
    "ended, and the controller knows": (ended("TIMEOUT"), 1, {}, "TIMEOUT/scontrol", "0 100"),
    "forgotten by the controller": (ended("NODE_FAIL"), LONG_AGO, {}, "NODE_FAIL/sacct", "0 100"),
    "forgotten, accounting off": (ended("FAILED"), LONG_AGO, {"accounting": "off"}, "/", ""),
    "forgotten, accounting down": (ended("FAILED"), LONG_AGO, {"accounting": "down"}, "/", ""),
    "known, accounting off": (ended("FAILED"), 1, {"accounting": "off"}, "FAILED/scontrol", "0 100"),
    "controller down": (ended("PREEMPTED"), 1, {"controller_down": True}, "PREEMPTED/sacct", "0 100"),
    "record late, shown as running": (ended("FAILED"), LONG_AGO, {"accounting_lag": 2000.0}, "/", ""),
    "record late, its end half written": (
        ended("FAILED"),
        LONG_AGO,
        {"accounting_lag": LONG_AGO + 50.0, "lag_shows": "half"},
        "FAILED/sacct",
        "",
    ),
    "record late, not shown": (
        ended("FAILED"),
        LONG_AGO,
        {"accounting_lag": 2000.0, "lag_shows": ""},
        "/",
        "",
    ),
    "record in time": (ended("FAILED"), LONG_AGO, {"accounting_lag": 90.0}, "FAILED/sacct", "0 100"),
    "never shown": (ended("FAILED"), LONG_AGO, {"invisible": ["1000"]}, "/", ""),
    "cancelled by somebody": (cancelled, LONG_AGO, {}, f"CANCELLED by {os.getuid()}/sacct", "0 100"),
    "cut short": (ended("OUT_OF_MEMORY"), LONG_AGO, {"cuts_states": True}, "OUT_OF_ME+/sacct", "0 100"),
    "a record twice": (ended("TIMEOUT"), LONG_AGO, {"doubles_records": True}, "TIMEOUT/sacct", "0 100"),
    "ids with a cluster, and a banner": (
        ended("TIMEOUT"),
        LONG_AGO,
        {"cluster_name": "main", "banner": "** hello **\n"},
        "TIMEOUT/sacct",
        "0 100",
    ),
    "put back three times": (
        requeued("REQUEUED", "PREEMPTED", "NODE_FAIL"),
        LONG_AGO,
        {},
        "COMPLETED/sacct",
        "0 10|1 20|2 30|3 7",
    ),
    "put back, each record twice": (
        requeued("REQUEUED", "PREEMPTED"),
        LONG_AGO,
        {"doubles_records": True},
        "COMPLETED/sacct",
        "0 10|1 20|2 7",
    ),
    "suspended for two hours": (suspended, LONG_AGO, {}, "TIMEOUT/sacct", "0 100"),
    "lives for two seconds": (
        lambda world, job: (world.fake.move(2), world.fake.end(job)),
        1,
        {},
        "COMPLETED/scontrol",
        "0 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "environ", [{}, {"TZ": "Asia/Kolkata", "SLURM_TIME_FORMAT": "relative", "LANG": "de_DE.UTF-8"}]
)
def test_what_happened_to_a_job_is_read_from_whoever_knows_it(world, case, environ):
    happen, later, wrong, state, seconds = CASES[case]
    world.fake.remember_older("1000", "COMPLETED", elapsed=77)
    job = world.queue()
    world.started(job)
    happen(world, job)
    with world.fake.faults() as faults:
        for name, value in wrong.items():
            setattr(faults, name, value)
    world.fake.move(later)
    ask = (
        f'gym_state_of {job}; echo "$gym_state/$gym_state_source"; gym_elapsed_of {job}; echo "$gym_elapsed"'
    )
    said, *runs = world.ask(ask, **environ).splitlines()
    assert (said, "|".join(filter(None, runs))) == (state, seconds)


def test_a_job_that_left_no_folder_is_not_taken_for_an_older_one_with_its_number(world):
    world.fake.remember_older("900", "COMPLETED", elapsed=77, **{**OURS, "comment": "", "ago": 5000.0})
    assert world.state_of("900") == "COMPLETED/sacct"
    world.started("800")
    assert (world.state_of("900"), world.elapsed_of("900")) == ("/", "")


def test_a_run_whose_end_was_never_recorded_keeps_its_place(world):
    """A record that stays behind for ever must not shift the times of later runs onto it."""
    fields = [("RUNNING", "Unknown", 10, 500), ("NODE_FAIL", 1100, 20, 60), ("TIMEOUT", 1200, 30, 70)]
    rows = ""
    for state, end, submit, seconds in fields:
        at = end if isinstance(end, str) else 1_900_000_000 + end
        rows += "\\x1f".join(map(str, [state, at, 1_900_000_000 + submit, "", "", "", seconds])) + "\\n"
    answer = f"gym_slurm() {{ printf '{rows}'; }}; gym_elapsed_of 7; echo \"$gym_elapsed\""
    assert world.ask(answer).splitlines() == ["1 60", "2 70"]


def test_every_call_about_a_successor_goes_to_its_cluster(world, tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("scancel", "squeue"):
        row = "job|12|PENDING|me|0|gym-b|gym-job-x/b/2"
        (folder / name).write_text(f'#!/bin/bash\necho "{name} $*" >>{folder}/calls\necho "{row}"\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert world.ask("gym_next_waits '12;east'; echo $?; gym_drop_next '12;east' >/dev/null") == "0"
    calls = (folder / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["squeue", "squeue", "scancel"]
    for call in calls:
        assert "--clusters=east" in call
        assert "12;east" not in call


def test_a_successor_that_nobody_can_remove_is_not_said_to_be_gone(world):
    job = world.queue()
    _, number = world.queue_next(job).split()
    with world.fake.faults() as faults:
        faults.controller_down = True
    assert world.ask(f"gym_drop_next {number}; echo $?") != "0"
    with world.fake.faults() as faults:
        faults.controller_down = False
    assert world.ask(f"gym_drop_next {number}; echo $?") == "0"


def test_a_successor_that_was_accepted_without_saying_so_is_found_later(world):
    job = world.queue()
    (world.job_dir / ".gym_job_chain").write_text(f"{job}\n")
    with world.fake.faults() as faults:
        faults.lost_replies, faults.hidden_for = 1, 60.0
    assert world.queue_next(job).startswith("1 ")
    assert world.ask("gym_find_unheard; echo $?", job) == "1"
    world.fake.move(61)
    assert world.ask('gym_find_unheard; echo "$? $gym_next"', job) == "0 1001"


# Replies of sbatch, and whose a job is


def test_a_reply_is_read_by_the_rule_that_python_reads_it_by(world):
    program = (
        'while IFS= read -r -d "" text; do gym_read_reply "$text"; echo "$gym_reply|$gym_reply_plain"; done'
    )
    texts = "".join(f"{text}\0" for text, *_ in REPLIES)
    (world.job_dir / "replies").write_text(texts)
    said = world.ask(f"{program} <replies").splitlines()
    expected = [
        f"{number}{f';{cluster}' if cluster else ''}|{'yes' if plain else ''}"
        for _, number, cluster, plain in REPLIES
    ]
    assert dict(zip((text for text, *_ in REPLIES), said, strict=True)) == dict(
        zip((text for text, *_ in REPLIES), expected, strict=True)
    )


def wrapped(world, tmp_path, monkeypatch, after="", before="", name="sbatch"):
    """A site's own program before the real one."""
    folder = tmp_path / "site"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(
        f'#!/bin/bash\n{before}\n{world.fake.path / name} "$@"\nstatus=$?\n{after}\nexit $status\n'
    )
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "echo 1000"),
        ("echo 1000", ""),
        ("echo '1000;lab'", ""),
        ("echo 'Remaining hours:'; echo 1000; exec >/dev/null", ""),
        ("", "status=1; echo 'cannot write to the log of submissions' >&2"),
        ("", "echo 1000 >&2"),
    ],
)
def test_a_number_that_a_site_prints_is_never_taken_for_the_successor(
    world, tmp_path, monkeypatch, before, after
):
    stranger = world.queue("somebody-else/b/1")
    assert stranger == "1000"
    job = world.queue()
    (world.job_dir / ".gym_job_chain").write_text(f"{job}\n")
    wrapped(world, tmp_path, monkeypatch, before=before, after=after)
    assert world.queue_next(job) == "0 1002"
    assert [one.comment for one in world.fake.jobs()] == [
        "somebody-else/b/1",
        "gym-job-x/b/1",
        "gym-job-x/b/2",
    ]


def test_what_a_login_shell_prints_is_no_part_of_the_reply(world, tmp_path, monkeypatch):
    world.queue("somebody-else/b/1")
    job = world.queue()
    folder = tmp_path / "programs"
    folder.mkdir()
    text = '#!/bin/bash\necho "777;lab"; echo "Welcome" >&2; exec bash -s\n'
    (folder / "ssh").write_text(text)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    world.settings["GYM_QUEUE_FROM"] = "login"
    assert world.queue_next(job, SLURM_SUBMIT_HOST="login7") == "0 1002"
    with world.fake.faults() as faults:
        faults.submit_limit = 1
    (world.job_dir / ".gym_job_chain").write_text(f"{job}\nother\n")
    refused = world.queue_next(job, SLURM_SUBMIT_HOST="login7")
    assert refused.startswith("1  Welcome sbatch: error: AssocMaxSubmitJobLimit")


@pytest.mark.parametrize("token", ["somebody-else/b/2", "gym-job-x/bb/2", "gym-job-xx/b/2"])
def test_a_strangers_job_is_never_removed_and_is_no_successor(world, token):
    job = world.queue()
    stranger = world.queue(token)
    assert world.ask(f"gym_drop_next {stranger}; echo $?; gym_next_waits {stranger}; echo $?", job) == "1\n1"
    assert world.fake.job(stranger).active
    # nor the job itself, whatever number it was given
    assert world.ask(f"gym_drop_next {job}; echo $?", job) == "1"
    assert world.fake.job(job).active


def test_without_comments_owner_name_and_time_say_whose_a_job_is(world):
    job = world.queue()
    mine = world.queue("")
    assert world.ask(f"gym_drop_next {mine}; echo $?", job) == "1"  # nothing says how old the chain is
    world.started(job)
    later = world.queue("")
    with world.fake._state.open() as model:
        model.jobs[mine].user = "somebody"
    old = world.queue("")
    with world.fake._state.open() as model:
        model.jobs[old].submitted_at -= 90_000
    for number, status, alive in ((mine, "1", True), (old, "1", True), (later, "0", False)):
        assert world.ask(f"gym_drop_next {number}; echo $?", job) == status
        assert world.fake.job(number).active is alive


SITES = {"a site that adds words": "charged to 42: {}", "a site that writes its own": "account 42"}


@pytest.mark.parametrize("comment", SITES.values(), ids=SITES)
def test_a_site_that_changes_comments_does_not_hide_a_job_of_this_chain(world, comment):
    before, job = world.queue(), world.queue()
    world.started(before)
    world.started(job)
    world.fake.end(before, "FAILED")
    number = world.queue_next(job).split()[1]
    for one in (before, job, number):
        with world.fake._state.open() as model:
            model.jobs[one].comment = comment.format(model.jobs[one].comment)
    waits = f"gym_next_waits {number}; echo $?"
    assert world.ask(f"gym_state_of {before}; echo $gym_state; {waits}", job) == "FAILED\n0"
    stranger = world.queue("somebody-else/b/2")
    with world.fake._state.open() as model:
        model.jobs[stranger].user = "somebody"
    assert world.ask(f"gym_drop_next {stranger}; echo $?; gym_drop_next {number}; echo $?", job) == "1\n0"
    assert (world.fake.job(stranger).active, world.fake.job(number).active) == (True, False)


def test_words_of_a_site_around_its_token_do_not_hide_a_successor_that_was_not_heard_of(world):
    job = world.queue()
    world.started(job)
    (world.job_dir / ".gym_job_chain").write_text(f"{job}\n")
    queued = world.queue("charged to 42: gym-job-x/b/2")
    assert world.queue_next(job) == f"0 {queued}"
    assert len(world.fake.jobs()) == 2


def test_a_comment_is_read_whole_among_words_of_any_encoding(world):
    """In Latin-1 a letter with an accent is not text of a UTF-8 locale."""
    shown = "JobId=7 JobState=FAILED Comment=caf\\xe9 gym-job-x/b/1 \\xe9t\\xe9 StdErr=/x Comment=another"
    read = 'gym_r_comment=old; gym_read_show "$shown"; printf \'%q %q\' "$gym_r_state" "$gym_r_comment"'
    told = world.ask(f"printf -v shown '{shown}'; {read}", LC_ALL="C.UTF-8")
    assert told == r"FAILED $'caf\351 gym-job-x/b/1 \351t\351'"
    assert world.ask("shown='JobState=FAILED '; " + read, LC_ALL="C.UTF-8") == "FAILED ''"


def test_a_long_greeting_of_a_login_shell_in_any_encoding_is_no_part_of_the_reply(world):
    greeting = "printf 'caf\\xe9 %200000s\\n' x; printf '%s\\n' \"$1\""
    reply = "echo 42; printf 'd\\xe9j\\xe0 vu' >&2; return 3"
    asked = 'gym_submit login; printf "%q %q %q" "$gym_printed" "$gym_call_status" "$gym_complaint"'
    told = world.ask(f"login() {{ {greeting}; {reply}; }}; {asked}", LC_ALL="C.UTF-8")
    assert told == r"$'42\n' 3 $'d\351j\340 vu'"
