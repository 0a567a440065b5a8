"""What looking at jobs makes of what the service says."""

from __future__ import annotations

from nemo_helix_plugin.cli.commands.jobs.show import _for_people

ASKED = {"at": "2026-11-29T18:11:46Z", "to": "created", "who": "you", "why": "asked to run again"}


def test_a_rerun_is_one_line_though_step_and_job_change() -> None:
    rows = _for_people(
        [{**ASKED, "step": "training", "from": None}, {**ASKED, "step": None, "from": "error"}]
    )
    assert [(row["step"], row["change"], row["why"]) for row in rows] == [
        ("training", "created", "asked to run again (you)")
    ]


def test_a_change_of_the_job_alone_is_a_line() -> None:
    (row,) = _for_people([{**ASKED, "step": None, "from": "error"}])
    assert (row["step"], row["change"]) == (None, "error → created")
