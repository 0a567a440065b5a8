"""What a status change leaves in the details."""

from __future__ import annotations

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs import stamps
from nemo_helix_server.jobs.states import StatusEvent

AT = 1_800_000_000_000_000


def test_a_new_start_does_not_keep_the_place_of_the_one_before():
    before = {"place": "job 4346 on n1", "image_digest": "sha256:1"}
    after = stamps.after(before, {"executor": None}, StatusEvent.ACCEPTED, Status.PENDING, AT)
    assert "place" not in after
    assert after["image_digest"] == "sha256:1"


@pytest.mark.parametrize("event", [StatusEvent.STARTED, StatusEvent.PAUSE_REQUESTED])
def test_a_start_keeps_its_place(event):
    assert stamps.after({"place": "job 1"}, {}, event, Status.ACTIVE, AT)["place"] == "job 1"
