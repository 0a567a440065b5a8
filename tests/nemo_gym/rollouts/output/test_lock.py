"""The lock: one owner at a time, a dead one is succeeded at once, nobody deletes anything by hand."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nemo_gym.errors import BusyError
from nemo_gym.rollouts.output.lock import Claimant, OutputClaim, Ownership, acquire
from nemo_runs.processes.trees import ProcessIdentity, identify

OUTPUT = Path("/out/rollouts.jsonl")


def claimant(**changes) -> Claimant:
    return dataclasses.replace(Claimant(identify()), **changes)


def elsewhere(**changes) -> ProcessIdentity:
    return dataclasses.replace(identify(), host="other-host", boot_id="other-boot", **changes)


def dead() -> ProcessIdentity:
    """A process on this machine that has ended."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(child.pid)
    child.communicate(b"\n")
    return identity


def age(owner: Ownership, seconds: float) -> None:
    """Make the last heartbeat older, by the file server's clock."""
    beaten = owner.path.stat().st_mtime - seconds
    os.utime(owner.path, (beaten, beaten))


def test_the_first_claim_is_number_one_and_proven(tmp_path) -> None:
    owner = acquire(tmp_path / "lock", claimant(), output=OUTPUT)
    assert [path.name for path in (tmp_path / "lock").iterdir()] == ["000001.json"]
    assert owner.number == 1
    assert owner.proven
    assert not owner.lost()


def test_a_live_owner_on_this_machine_is_never_succeeded_however_long_it_is_silent(tmp_path) -> None:
    owner = acquire(tmp_path, claimant(chain="c", job_id="17"), output=OUTPUT)
    age(owner, 3600)
    with pytest.raises(BusyError) as caught:
        acquire(tmp_path, claimant(chain="c"), output=OUTPUT)
    assert str(caught.value) == (
        f"/out/rollouts.jsonl: process {os.getpid()} on this machine is collecting into it (job 17); "
        "wait until it ends, stop it, or choose another --output."
    )


def test_a_released_claim_is_succeeded_at_once_and_proven(tmp_path) -> None:
    first = acquire(tmp_path, claimant(), output=OUTPUT)
    first.release()
    second = acquire(tmp_path, claimant(), output=OUTPUT)
    assert (second.number, second.proven) == (2, True)
    assert first.lost()
    assert not second.lost()


def test_a_dead_owner_on_this_machine_is_succeeded_at_once_and_proven(tmp_path) -> None:
    acquire(tmp_path, claimant(process=dead()), output=OUTPUT)
    assert acquire(tmp_path, claimant(), output=OUTPUT).proven


def test_an_owner_of_an_earlier_boot_is_succeeded_at_once_but_not_proven(tmp_path) -> None:
    before = dataclasses.replace(identify(), boot_id="an-earlier-boot")
    acquire(tmp_path, claimant(process=before), output=OUTPUT)
    assert not acquire(tmp_path, claimant(), output=OUTPUT).proven


def test_a_fresh_owner_elsewhere_is_busy_and_the_message_says_when_to_try_again(tmp_path) -> None:
    owner = acquire(tmp_path, claimant(process=elsewhere(pid=77), job_id="4711"), output=OUTPUT)
    age(owner, 10)
    with pytest.raises(BusyError) as caught:
        acquire(tmp_path, claimant(), output=OUTPUT)
    assert str(caught.value) == (
        "/out/rollouts.jsonl: process 77 on host other-host is collecting into it (job 4711), seen 10 s ago; "
        "if it is gone, try again in 21 s."
    )


def test_a_silent_owner_elsewhere_is_succeeded_but_not_proven(tmp_path) -> None:
    owner = acquire(tmp_path, claimant(process=elsewhere()), output=OUTPUT)
    age(owner, 31)
    successor = acquire(tmp_path, claimant(), output=OUTPUT)
    assert not successor.proven
    assert owner.lost()


def test_a_heartbeat_keeps_an_owner_elsewhere(tmp_path) -> None:
    owner = acquire(tmp_path, claimant(process=elsewhere()), output=OUTPUT)
    age(owner, 31)
    owner.beat()
    with pytest.raises(BusyError, match="seen 0 s ago"):
        acquire(tmp_path, claimant(), output=OUTPUT)


def test_a_clock_that_is_ten_minutes_wrong_on_the_other_host_changes_nothing(tmp_path) -> None:
    """Only times of the file server are compared: the claim's content holds none."""
    owner = acquire(tmp_path, claimant(process=elsewhere()), output=OUTPUT)
    assert b"time" not in owner.path.read_bytes().replace(b"start_time", b"")
    age(owner, -600)  # the file server's own clock was set back
    with pytest.raises(BusyError, match=r"seen 0 s ago; if it is gone, try again in 31 s"):
        acquire(tmp_path, claimant(), output=OUTPUT)


def test_the_same_chain_waits_for_nobody_it_cannot_see(tmp_path) -> None:
    acquire(tmp_path, claimant(process=elsewhere(), chain="job/gpqa"), output=OUTPUT)
    with pytest.raises(BusyError):
        acquire(tmp_path, claimant(chain="job/other"), output=OUTPUT)
    with pytest.raises(BusyError):
        acquire(tmp_path, claimant(), output=OUTPUT)
    assert not acquire(tmp_path, claimant(chain="job/gpqa"), output=OUTPUT).proven


def test_a_later_job_of_the_chain_succeeds_a_driver_that_lives_on_and_needs_a_fresh_copy(tmp_path) -> None:
    """Its node was lost for the scheduler, its processes were not."""
    zombie = acquire(tmp_path, claimant(chain="c", job_id="17"), output=OUTPUT)
    for same in (claimant(chain="c", job_id="17"), claimant(chain="c"), claimant(chain="d", job_id="18")):
        with pytest.raises(BusyError, match="on this machine is collecting into it"):
            acquire(tmp_path, same, output=OUTPUT)
    assert not acquire(tmp_path, claimant(chain="c", job_id="18"), output=OUTPUT).proven
    assert zombie.lost()
    assert not acquire(tmp_path, claimant(chain="c", job_id="18", restart=1), output=OUTPUT).proven


def test_what_was_not_proven_stays_so_until_the_rows_were_copied(tmp_path) -> None:
    """A successor that dies, or gives up, before it copied the rows leaves the duty to the next one."""
    acquire(tmp_path, claimant(process=elsewhere(), chain="c"), output=OUTPUT)
    acquire(tmp_path, claimant(process=dead(), chain="c"), output=OUTPUT)
    third = acquire(tmp_path, claimant(chain="c"), output=OUTPUT)
    assert not third.proven
    third.release()
    fourth = acquire(tmp_path, claimant(), output=OUTPUT)
    assert not fourth.proven
    fourth.fence()
    assert fourth.proven
    fourth.release()
    assert acquire(tmp_path, claimant(), output=OUTPUT).proven


@pytest.mark.parametrize("name", ["\u0663.json", "\u00b2\u00b2.json", "9" * 40 + ".json", "1.json"])
def test_a_file_that_no_gym_wrote_is_no_claim(tmp_path, name: str) -> None:
    (tmp_path / name).touch()
    assert acquire(tmp_path, claimant(), output=OUTPUT).number == 1


@pytest.mark.parametrize("content", [b"", b"{}", b'{"process": {}}', b"\x00" * 64])
def test_a_damaged_claim_counts_as_somebody_who_cannot_be_seen(tmp_path, content: bytes) -> None:
    claim = tmp_path / "000001.json"
    claim.write_bytes(content)
    with pytest.raises(BusyError, match=r"if it is gone, try again in \d+ s"):
        acquire(tmp_path, claimant(), output=OUTPUT)
    os.utime(claim, (0, claim.stat().st_mtime - 31))
    assert not acquire(tmp_path, claimant(), output=OUTPUT).proven


def test_of_many_openers_at_once_exactly_one_wins(tmp_path) -> None:
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        acquire(folder, claimant(process=dead()), output=OUTPUT)
        start = threading.Barrier(8)
        won: list[int] = []
        busy: list[str] = []

        def try_it(folder: Path = folder, start: threading.Barrier = start, won=won, busy=busy) -> None:
            start.wait()
            try:
                won.append(acquire(folder, claimant(), output=OUTPUT).number)
            except BusyError as error:
                busy.append(str(error))

        threads = [threading.Thread(target=try_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [2]
        assert len(busy) == 7
        assert sorted(path.name for path in folder.iterdir()) == ["000001.json", "000002.json"]


def test_an_owner_whose_claim_was_removed_has_lost(tmp_path) -> None:
    owner = acquire(tmp_path, claimant(), output=OUTPUT)
    owner.path.unlink()
    owner.beat()
    assert owner.lost()
    owner.release()
    assert not owner.path.exists()


def test_what_killed_openers_left_behind_is_swept(tmp_path) -> None:
    left, young, not_ours = ".tmp-77-0123456789ab", ".tmp-78-0123456789ab", ".tmp-notes"
    for name, old in ((left, 100.0), (young, 0.0), (not_ours, 100.0)):
        (tmp_path / name).touch()
        moment = (tmp_path / name).stat().st_mtime - old
        os.utime(tmp_path / name, (moment, moment))
    acquire(tmp_path, claimant(), output=OUTPUT)
    assert sorted(path.name for path in tmp_path.iterdir()) == [young, not_ours, "000001.json"]


def test_the_job_is_taken_from_the_link_and_else_from_the_environment() -> None:
    environ = {"NEMO_GYM_CHAIN": "job/gpqa", "NEMO_GYM_JOB_ID": "17", "NEMO_GYM_RESTART": "2"}
    assert Claimant.of({}, environ) == Claimant(identify(), "job/gpqa", "17", 2)
    assert Claimant.of({"job_id": 18, "restart": 3, "chain": "x"}, environ) == Claimant(
        identify(), "x", "18", 3
    )
    assert Claimant.of({}, {}) == Claimant(identify(), None, None, 0)


def test_a_claim_reads_back_as_it_was_written() -> None:
    claim = OutputClaim(claimant(chain="c", job_id="1", restart=2), "released", fenced=False)
    assert OutputClaim.decode(claim.encode()) == claim
