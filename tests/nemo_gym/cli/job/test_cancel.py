"""What `gym job cancel` says of what became of the jobs."""

import pytest

from nemo_gym.cli.job.cancel import _show
from nemo_gym.orchestration.submit.cancel import CancelOutcome, CancelReport

ONE = {"gym_job_id": "gym-job-1", "benchmark": "sums", "reason": ""}
AGAIN = "the request stays; give the command again to go on."


@pytest.mark.parametrize(
    ("outcome", "out", "err"),
    [
        (
            CancelOutcome(**ONE, state="cancelled", asked=("2", "1")),
            "sums: cancelled; asked 2, 1 to end\n",
            "",
        ),
        (CancelOutcome(**ONE, state="succeeded"), "sums: succeeded; nothing was alive\n", ""),
        (
            CancelOutcome(**ONE, state="running", alive=("1",)),
            "sums: running\n",
            f"gym: sums: still alive: 1; {AGAIN}\n",
        ),
        (
            CancelOutcome(**ONE, state="queued", alive=("1",), left_alone=("1",)),
            "sums: queued\n",
            "gym: sums: still alive: 1; the request stays.\n",
        ),
        (
            CancelOutcome(**ONE, state="unknown", unsure=("1",)),
            "sums: unknown\n",
            f"gym: sums: state not known: 1; {AGAIN}\n",
        ),
    ],
)
def test_nothing_is_said_to_be_dead_that_is_alive_or_may_be(
    outcome: CancelOutcome, out: str, err: str, capsys
):
    _show(CancelReport((outcome,)), as_json=False)
    assert tuple(capsys.readouterr()) == (out, err)
