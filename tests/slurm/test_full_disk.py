"""A chain on the real Slurm whose disk is really full: jobs end without a retry, and it goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.local_jobs import Workplace
from tests.slurm.chains import QUICK, Chains
from tests.slurm.lab import RealSlurm
from tests.small_disk import fill, small_disk

from nemo_gym.rollouts.scores.certificate import certify

pytestmark = [pytest.mark.slurm, pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def small(slurm: RealSlurm) -> Iterator[Path]:
    with small_disk(slurm.folder / "small", megabytes=2) as folder:
        yield folder


def test_jobs_on_a_full_disk_cost_no_retry_and_the_chain_ends_by_itself_once_there_is_room(
    slurm: RealSlurm, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**QUICK, "NEMO_GYM_FULL_DISK_SECONDS": "2"}.items():
        monkeypatch.setenv(name, value)
    chains = Chains(slurm)
    chains.place = Workplace(small)
    chain = chains.start("fulldisk")
    chain.at_work(1)
    first = chain.waiting()
    ballast = small / "ballast"
    fill(small)
    chain.times_out(chain.first)
    # the successor cannot begin, and queues another one
    second = chain.waiting(first)
    chain.gone(first)
    ballast.unlink()
    chain.over()
    assert certify(chain.paths.rollouts).valid, chain.said()
    assert chain.number(".gym_infra_retries") == 0, chain.said()
    assert chain.state(first) == "FAILED"
    assert int(second) > int(first)
