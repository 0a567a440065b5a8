"""What a user's type checker sees: this file is checked by `mypy --strict` in its only test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_helix_plugin.client.calls.tuning import CustomizationJob
from nemo_helix_plugin.client.client import AsyncNemoClient, NemoClient
from nemo_helix_plugin.client.responses import AsyncItems, Items, NemoResponse
from nemo_helix_plugin.customization import requests
from nemo_helix_plugin.jobs import types, watch_types


def synchronous(client: NemoClient) -> None:
    paused: NemoResponse[types.HelixJobResponse] = client.jobs.pause_job(name="a", workspace="b")
    status: types.HelixJobStatus | str = paused.data().status
    items: Items[types.HelixJobResponse] = client.jobs.list_jobs().items()
    checkpoints: list[types.Checkpoint] = list(client.jobs.checkpoints.list(job="a").items())
    step: int = checkpoints[0].step
    content: bytes = client.jobs.download_job_result(job="a", name="model").read()
    for event in client.jobs.watch_job(name="a"):
        seen: watch_types.JobStatusEvent | watch_types.JobLogEvent | watch_types.JobWarningEvent = event
        del seen
    handle: CustomizationJob = client.customization.automodel.jobs.create(spec={}, workspace="b")
    explained: NemoResponse[requests.Explanation] = client.customization.rl.explain()
    tuned: Items[types.HelixJobResponse] = client.customization.backend("toy").jobs.list().items()
    del status, items, step, content, handle, explained, tuned


async def asynchronous(client: AsyncNemoClient) -> None:
    paused: NemoResponse[types.HelixJobResponse] = await client.jobs.pause_job(name="a")
    items: AsyncItems[types.HelixJobResponse] = (await client.jobs.list_jobs()).items()
    handle: CustomizationJob = await client.customization.unsloth.jobs.create(spec={})
    status: NemoResponse[types.HelixJobStatusResponse]
    status = await client.customization.backend("toy").jobs.get_status(name="a")
    del paused, items, handle, status


def misuse(client: NemoClient) -> None:
    client.jobs.pause_job(nam="a")  # type: ignore[call-arg]
    client.jobs.pause_job("a")  # type: ignore[call-arg]
    client.jobs.pause_job(name=1)  # type: ignore[arg-type]
    client.customization.automodle.jobs.list()  # type: ignore[attr-defined]
    client.customization.rl.jobs.create()  # type: ignore[call-arg]
    client.customization.rl.jobs.get("a")  # type: ignore[call-arg]


@pytest.mark.slow
def test_the_types_are_as_this_file_says(tmp_path: Path) -> None:
    from mypy import api

    argv = ["--strict", "--no-incremental", "--cache-dir", str(tmp_path), "--config-file", "pyproject.toml"]
    out, err, status = api.run([*argv, "--python-executable", sys.executable, __file__])
    assert (out, err, status) == ("Success: no issues found in 1 source file\n", "", 0)
