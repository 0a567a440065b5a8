"""What `gym job export` and `gym job share` say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_gym.rollouts.export.exported import ExportedOutput


def report_unpublished(outputs: list[ExportedOutput]) -> None:
    """Say whose rows are left out."""
    from nemo_gym.cli.submissions import report

    left_out = [output.benchmark for output in outputs if not output.publishes_rows]
    if left_out:
        report(f"rows of {', '.join(left_out)} must stay unpublished and are left out; scores are not.")
