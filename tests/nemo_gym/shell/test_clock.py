"""What the job script measures with: real bash, dates that jump, and a clock that a test sets."""

import subprocess
from pathlib import Path

import pytest

import nemo_gym

pytestmark = pytest.mark.services

SHELL = Path(nemo_gym.__file__).parent / "shell"
SOURCES = "".join(
    f". {SHELL}/{part}.sh\n" for part in ("header", "full_disk", "driver", "chain_facts", "chain")
)
READY = "GYM_JOB_DIR=. GYM_PROGRAM=gym GYM_KEEPS='' gym_link=link gym_job_id=7 gym_restart=0\n"
SEAM = """
gym_uptime=uptime gym_began=1000
echo '1000.25 3.00' >uptime
ticks=0
# a machine on which every tick takes two seconds, and whose date is set anew at each of them
gym_tick() {
  ((++ticks < 100)) || { echo 'for ever'; exit; }
  echo "$((1000 + 2 * ticks)).25 3.00" >uptime
  SECONDS=$((SECONDS + $1_jump))
}
"""


def run(tmp_path, text, *, jump=0):
    (tmp_path / "link").mkdir(exist_ok=True)
    ready = READY + SOURCES + SEAM.replace("$1_jump", str(jump))
    done = subprocess.run(
        ["bash", "-c", ready + text], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.split()


@pytest.mark.parametrize("jump", [-86400, 0, 86400])
@pytest.mark.parametrize(
    ("wait", "ticks"),
    [
        ("gym_pause 10", 5),
        # a disk that stays full for its whole bound
        ("gym_is_full() { :; }; NEMO_GYM_FULL_DISK_SECONDS=20; (gym_await_space; echo $ticks)", 10),
        # a step that does not end after SIGTERM
        ("kill() { :; }; wait() { :; }; NEMO_GYM_STOP_SECONDS=10; gym_end_step 123", 5),
        # when the successor is looked at next
        (
            (
                "NEMO_GYM_CHAIN_SECONDS=30; gym_chain_later; "
                "while gym_is_before $gym_chain_due; do gym_tick; done"
            ),
            15,
        ),
    ],
)
def test_a_date_that_is_set_back_or_forward_moves_no_deadline(tmp_path, wait, ticks, jump):
    assert run(tmp_path, f"{wait} 2>/dev/null; echo $ticks", jump=jump)[0] == str(ticks)


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_what_a_run_says_of_its_age_is_no_difference_of_dates(tmp_path, jump):
    seen = "gym_tick; gym_tick; gym_chain_due=0; gym_chain_see_to_successor() { :; }; "
    run(tmp_path, f"{seen} gym_notice_succession() {{ false; }}; gym_chain_tick", jump=jump)
    assert (tmp_path / "link" / "alive").read_text() == "4\n"


def test_the_clock_is_the_machines_and_starts_with_the_script(tmp_path):
    told = "SECONDS=7777; gym_look_at_clock; echo $gym_uptime $((gym_clock < 60))"
    done = subprocess.run(
        ["bash", "-c", f"{READY}. {SHELL}/header.sh\n{told}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["/proc/uptime", "1"]


def test_a_machine_without_such_a_clock_falls_back_on_its_date(tmp_path):
    said = run(tmp_path, "gym_began=''; SECONDS=55; gym_look_at_clock; echo $gym_clock")
    assert said == ["55"]


def test_a_clock_that_cannot_be_read_for_once_stays_as_it_was(tmp_path):
    said = run(
        tmp_path, "gym_tick; gym_look_at_clock; rm uptime; SECONDS=9; gym_look_at_clock; echo $gym_clock"
    )
    assert said == ["2"]


def test_no_part_of_the_script_measures_with_dates():
    parts = [*SHELL.glob("*.sh")]
    lines = [line for part in parts for line in part.read_text().splitlines()]
    used = [
        line.strip()
        for line in lines
        if not line.startswith("#") and ("$SECONDS" in line or "(SECONDS" in line)
    ]
    assert used == ["gym_clock=$SECONDS"]
