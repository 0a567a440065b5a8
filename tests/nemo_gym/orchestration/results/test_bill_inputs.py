"""Bills read from folders as chains leave them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests import result_rows

from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.config.price_schema import PriceList
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.results import bill_inputs, bill_report
from nemo_gym.orchestration.results.bill import Bill
from nemo_gym.rollouts.output.rows import encode_row
from nemo_runs.clock import utc_text

BEGAN = 1_790_000_000
SLURM = """
compute:
  big: {type: slurm, node_pools: {a: {nodes: 2, gpus_per_node: 4}, b: {nodes: 1, gpus_per_node: 4}}}
"""


class Chain:
    """A benchmark's folder; times are seconds after its submission."""

    def __init__(self, folder: Path) -> None:
        self.paths = RunPaths(folder).job("sums")
        self.paths.artifacts.mkdir(parents=True)
        self.paths.run_config.write_text("{}\n")
        RunPaths(folder).resolved_config.write_text(SLURM)
        self.record = SubmissionRecord(
            gym_job_id="gym-job-20260921T000000Z-00000a",
            gym_version="0.1.0",
            gym_commit=None,
            submitted_at="2026-09-21T00:00:00Z",
            run_dir=str(folder),
            cluster="big",
            executor="slurm",
            submitted_by="ada",
            benchmarks=(BenchmarkEntry(benchmark="sums", job_dir=str(self.paths.job_dir), job_id="7"),),
        )
        self.rows: list[bytes] = []
        self.event(0, "submitted", "7")

    def event(self, at: float, event: str, job_id: str, restart: int = 0, **more: Any) -> None:
        line = {"at": utc_text(BEGAN + at), "event": event, "job_id": job_id, "restart": restart, **more}
        with self.paths.events.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def link(self, job_id: str, restart: int = 0, accounted: str = "", **events: float) -> None:
        folder = self.paths.link(job_id, restart)
        folder.folder.mkdir(parents=True)
        folder.started.write_text(f"{BEGAN + int(events['job_started'])}\n")
        if accounted:
            folder.accounted.write_text(accounted)
        for name, at in events.items():
            self.event(at, name, job_id, restart)

    def row(self, began: float, ended: float, *, reverse: bool = False) -> None:
        perf = {"total_latency_ms": 1000 * (ended - began), "ended_at": BEGAN + ended}
        if reverse:
            perf = {**dict(reversed(perf.items())), "more": 1}
        self.rows.append(encode_row(len(self.rows), 0, {**result_rows.result(), "ng_perf": perf}))
        self.paths.rollouts.output.write_bytes(b"".join(line + b"\n" for line in self.rows))

    def bill(self) -> Bill:
        return bill_inputs.bill_of(
            SubmissionLocation(self.record, self.paths.job_dir.parent), self.record.benchmarks[0]
        )


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_a_chain_is_billed_by_what_the_scheduler_counted(chain: Chain):
    chain.link("7", job_started=30, service_started=40, driver_started=60)
    chain.row(65, 100)
    chain.row(66, 101, reverse=True)
    chain.link("8", accounted="7.0 90\n", job_started=200, service_started=205, driver_started=220)
    chain.row(225, 270)
    chain.link(
        "8",
        restart=1,
        accounted="7.0 90\n8.0 85\n",
        job_started=300,
        service_started=305,
        driver_started=310,
        driver_ended=350,
        job_ended=352,
    )
    chain.row(312, 349)
    found = chain.bill()
    assert [link.name for link in found.links] == ["7.0", "8.0", "8.1"]
    assert [link.allocated for link in found.links] == [90_000, 85_000, 52_000]
    assert [link.queue for link in found.links] == [30_000, 80_000, 15_000]
    assert found.gpus == 12
    first, second, third = (link.owners for link in found.links)
    assert (first["install"], first["load"], first["repeated"]) == (10_000, 25_000, 19_000)
    assert (second["useful"], second["repeated"]) == (45_000, 15_000)
    assert (third["useful"], third["idle"], third["repeated"]) == (37_000, 3_000, 0)
    assert bill_report.gpu_hours([found]) == pytest.approx(12 * 227 / 3600)
    assert found.notes == []


def test_the_benchmarks_of_a_shared_job_are_billed_together_and_once(chain: Chain):
    run_dir = chain.paths.job_dir.parent
    (folder := JobPaths(run_dir / "small").job_dir).mkdir()
    chain.paths.job_dir.rename(run_dir / "small.sums")
    chain.paths = JobPaths(folder)
    chain.link("7", job_started=0, service_started=10, job_ended=100)
    chain.paths = JobPaths(run_dir / "small.sums")
    chain.link("7", job_started=1, driver_started=20, driver_ended=90, job_ended=91)
    chain.row(25, 80)
    chain.link("9", job_started=200, driver_started=210, driver_ended=230, job_ended=240)  # queued again
    chain.row(212, 229)
    sums = BenchmarkEntry(benchmark="small.sums", job_dir=str(chain.paths.job_dir), job_id="7", model="small")
    location = SubmissionLocation(dataclasses.replace(chain.record, benchmarks=(sums,)), run_dir)
    shared, own = bill_report.bills_of(location, PriceList())
    assert (shared.benchmark, [link.name for link in shared.links], shared.allocated) == (
        "small",
        ["7.0"],
        100_000,
    )
    assert shared.owners["useful"] == 55_000
    assert (own.benchmark, [link.name for link in own.links], own.allocated) == (
        "small.sums",
        ["9.0"],
        40_000,
    )
    assert own.notes == []


def test_without_accounting_a_killed_link_lasts_to_its_last_sign_of_life(chain: Chain):
    chain.link("7", job_started=10, driver_started=20)
    chain.row(25, 100)
    chain.link("8", job_started=150, driver_started=160)
    chain.row(165, 190)
    found = chain.bill()
    assert [link.allocated for link in found.links] == [90_000, 40_000]
    assert [link.ended for link in found.links] == [True, False]
    assert "8.0 has not ended" in found.notes[0]


def test_a_failed_attempt_counts_against_the_link_in_which_it_failed(chain: Chain):
    chain.link("7", job_started=0, driver_started=0, driver_ended=100, job_ended=100)
    chain.row(0, 10)
    failure = {"_ng_failure_at": BEGAN + 100, "_ng_failure_latency_ms": 80_000.0}
    chain.paths.rollouts.failures.write_bytes(encode_row(1, 0, failure) + b"\n")
    owners = chain.bill().owners
    assert (owners["useful"], owners["idle"], owners["repeated"]) == (10_000, 10_000, 80_000)


def test_rows_that_seem_to_have_been_in_flight_for_decades_are_nobodys(chain: Chain):
    chain.link("7", job_started=10 - BEGAN, driver_started=20 - BEGAN)
    chain.row(25, 45)
    assert "1 rollout ended while none of these jobs ran" in chain.bill().notes[0]


def test_rows_that_say_no_time_or_an_impossible_one_are_told(chain: Chain):
    chain.link("7", job_started=10, driver_started=20, driver_ended=50, job_ended=50)
    chain.rows.append(encode_row(9, 0, result_rows.result()))
    chain.row(3e9, 4e9)
    found = chain.bill()
    assert "1 row does not say when the rollout ended" in found.notes[0]
    assert "1 rollout ended while none of these jobs ran" in found.notes[1]


@pytest.mark.parametrize("started", ["0", "9" * 12, "9" * 5000, "²", "-1", "nan"])
def test_a_start_by_a_wrong_clock_costs_neither_memory_nor_the_bill(chain: Chain, started: str):
    link = chain.paths.link("7").folder
    link.mkdir(parents=True)
    (link / "started").write_text(started)
    chain.link("8", job_started=10, driver_started=20, driver_ended=50, job_ended=50)
    chain.row(25, 45)
    chain.rows.append(b'{"ng_perf":{"total_latency_ms":1e999,"ended_at":1}}')
    chain.event(60, "driver_started", "7")
    found = chain.bill()
    assert {link.name for link in found.links} <= {"7.0", "8.0"}
    bill_report.to_json([found])


def test_a_folder_without_a_single_start_has_nothing_to_bill(chain: Chain):
    (chain.paths.job_dir / "links" / "7.0").mkdir(parents=True)
    assert chain.bill().links == []


def test_a_node_count_that_nobody_gave_leaves_gpu_hours_unknown(chain: Chain):
    chain.link("7", job_started=0, job_ended=10)
    RunPaths(chain.paths.job_dir.parent).resolved_config.unlink()
    found = chain.bill()
    assert bill_report.gpu_hours([found]) is None
    assert "unknown" in bill_report.to_text([found])


@pytest.mark.parametrize(
    ("config", "gpus"),
    [
        ({"compute": {"here": {"type": "local"}}}, None),
        ({"compute": {"here": {"type": "local", "gpus": 8}}}, 8),
        (
            {
                "compute": {"here": {"type": "local", "gpus": 8}},
                "services": {"m": {"type": "vllm", "tensor_parallel_size": 2, "number_of_instances": 2}},
            },
            4,
        ),
        ({"compute": {"here": {}}, "services": {"m": {"type": "sglang", "replicas": 3}}}, 3),
        ({"compute": {"c": {"node_pools": {"a": {"nodes": 3}}}}}, None),
        ({}, None),
    ],
)
def test_the_gpus_of_a_job_come_from_its_pools_or_its_services(config: dict[str, Any], gpus: int | None):
    assert bill_inputs.gpus(config, set(config.get("services") or {})) == gpus
