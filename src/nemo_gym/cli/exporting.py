"""What `gym job export`, `gym job share` and `gym job show` say alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_gym.rollouts.export.exported import ExportedOutput


def report_unpublished(outputs: list[ExportedOutput]) -> None:
    """Say whose rows are left out, and why."""
    from nemo_gym.cli.submissions import report

    for benchmark, reason in unpublished(outputs).items():
        report(
            f"rows of {benchmark} must stay unpublished and are left out ({reason.rstrip('.')}); "
            "scores are not."
        )


def unpublished(outputs: list[ExportedOutput]) -> Mapping[str, str]:
    """Why rows must stay unpublished, by benchmark."""
    return {output.benchmark: output.unpublished for output in outputs if output.unpublished is not None}
