"""How the state of a service is shown to people."""

import pytest

from nemo_helix_server.commands.service_probe import as_text

pytestmark = pytest.mark.services


def test_the_start_of_a_service_is_told_to_the_second():
    found = {"status": "ok", "url": "http://h", "pid": 7, "started_at": "2026-11-29T19:03:21.472772Z"}
    shown = as_text({**found, "data_dir": "/d", "jobs": {"active": 1}, "problems": []})
    assert shown == "ok: http://h (process 7, since 2026-11-29T19:03:21Z)\ndata in /d\njobs: 1 active"
