"""Every command, file and program of every page is tried as a reader would try it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.docs import cluster, evaluations, jobs, looking_ahead, worlds
from tests.docs.elsewhere import ELSEWHERE, NOT_HERE, SHOWN_ELSEWHERE
from tests.docs.pages import ROOT, Block, Page, blocks, pages
from tests.slurm.lab import RealSlurm, slurm, slurm_lab
from tests.test_cases import named

from nemo_runs.processes.trees import marked

pytestmark = pytest.mark.services

__all__ = ["slurm", "slurm_lab"]

HERE = {**evaluations.READERS, **jobs.READERS, **looking_ahead.READERS}
READERS = {**HERE, **cluster.READERS}


def passed_over(block: Block) -> bool:
    """Whether a block is run by another test, or nowhere."""
    key = (block.page, block.begins)
    return key in NOT_HERE or key in SHOWN_ELSEWHERE


def follow(name: str, folder: Path) -> None:
    """Follow a page from its first block to its last."""
    page = Page(name, folder, passed_over)
    with page.rest:
        READERS[name](page)
        assert page.left == []


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_what_a_page_shows_can_be_done(name: str, tmp_path: Path) -> None:
    follow(name, tmp_path)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.parametrize("name", cluster.READERS)
def test_what_a_page_shows_can_be_done_on_slurm(name: str, slurm: RealSlurm) -> None:
    follow(name, slurm.folder)


def test_a_served_block_that_is_deaf_to_an_interrupt_is_a_failure_and_is_ended(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    deaf = 'trap "" INT; echo here; while :; do sleep 0.1; done'
    written.write_text(f"```sh\nbash -c '{deaf}'\n```\n")
    page = Page(str(written), tmp_path / "followed", passed_over)
    page.environ["DEAF_PAGE"] = str(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        page.serve("here", seconds=1)
    worlds.wait(lambda: marked("DEAF_PAGE", str(tmp_path)) == [])


def test_every_page_with_blocks_is_followed() -> None:
    assert sorted([*READERS, *ELSEWHERE]) == pages()


def test_every_block_that_is_not_run_is_named_with_the_test_that_runs_it_or_a_reason() -> None:
    shown = {(block.page, block.begins) for page in READERS for block in blocks(page)}
    assert {*NOT_HERE, *SHOWN_ELSEWHERE} <= shown
    assert all(len(reason.split()) > 5 for reason in NOT_HERE.values())


@pytest.mark.parametrize("test", [*ELSEWHERE.values(), *SHOWN_ELSEWHERE.values()])
def test_the_test_that_runs_a_page_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in named(ROOT / path)
