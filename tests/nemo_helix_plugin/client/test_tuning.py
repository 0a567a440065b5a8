"""Fine-tuning, files and models through the clients, against the real service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from tests.nemo_helix_server.api.service_bench import Bench

from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.client import AsyncNemoClient
from nemo_helix_plugin.customization.sdk import AsyncCustomization
from nemo_helix_plugin.customization.types import RlJobInput


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "data", engines={"trl": {"python": sys.executable}})
    yield made
    made.close()


@pytest.mark.slow
def test_files_models_and_jobs_with_await(bench: Bench, tmp_path: Path) -> None:
    weights = tmp_path / "config.json"
    weights.write_bytes(b"{}" + b" " * 600_000)

    async def run() -> None:
        transport = httpx.ASGITransport(bench.application)
        async with AsyncNemoClient(
            base_url="http://localhost:8080", workspace="default", transport=transport
        ) as client:
            for name in ("weights", "pairs"):
                await client.files.create_fileset(body={"name": name})
            sent = await client.files.upload_file(fileset="weights", path="deep/config.json", source=weights)
            assert sent.data().size == 600_002
            await client.files.upload_file(fileset="pairs", path="train.jsonl", source=weights)
            page = await client.files.list_files(fileset="weights")
            assert [file.path for file in page.page().items] == ["deep/config.json"]
            answer = await client.files.download_file(fileset="weights", path="deep/config.json")
            assert await answer.read() == weights.read_bytes()
            await client.models.create(body={"name": "base", "fileset": "weights"})

            tuning = AsyncCustomization.from_client(client)
            spec = RlJobInput.model_validate(
                {"model": "base", "dataset": "pairs", "training": {"type": "dpo"}}
            )
            handle = await tuning.rl.jobs.create(
                spec=spec, name="mine", options={"checkpoints": {"steps": 5}}
            )
            assert (handle.job.name, handle.name) == ("mine", "mine")
            assert handle.job.spec["checkpoints"]["steps"] == 5
            assert (await tuning.rl.jobs.get(name="mine")).data().source == "customization"
            assert (await tuning.rl.explain()).data().backend == "rl"
            jobs = await tuning.rl.jobs.list()
            assert [job.name for job in jobs.page().items] == ["mine"]
            with pytest.raises(errors.NotFoundError):
                await tuning.unsloth.jobs.get(name="mine")
            with pytest.raises(
                errors.UnprocessableEntityError, match="deployment_config 'x' is not supported"
            ):
                await tuning.rl.jobs.create(
                    spec={**spec.model_dump(exclude_unset=True), "deployment_config": "x"}
                )
            body = {"name": "small", "backend": "rl", "config": {}}
            assert (await tuning.templates.create(body=body)).data().name == "small"

    anyio.run(run)


def test_a_file_that_is_not_there_is_an_error_of_this_side(bench: Bench, tmp_path: Path) -> None:
    async def run() -> None:
        transport = httpx.ASGITransport(bench.application)
        async with AsyncNemoClient(base_url="http://localhost:8080", transport=transport) as client:
            with pytest.raises(FileNotFoundError):
                await client.files.upload_file(
                    fileset="x1", path="a", source=tmp_path / "none", workspace="default"
                )

    anyio.run(run)
