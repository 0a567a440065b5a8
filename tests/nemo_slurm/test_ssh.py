"""Attempts to log in to a host over ssh; what works is in ``tests/contracts/test_hosts.py``."""

import os
import socket
import tempfile
import threading
import time

import pytest

from nemo_runs.clock import MovableClock
from nemo_slurm import ssh
from nemo_slurm.errors import LoginNeededError, NotConnectedError, SlurmError
from nemo_slurm.ssh import SshHost

REFUSED = "Permission denied (publickey,keyboard-interactive)."
AWAY = "ssh: connect to host lab port 22: Connection refused"


class Site:
    """An ssh that logs nobody in, and counts."""

    def __init__(self, folder, monkeypatch):
        self.calls, self.says, self.open = folder / "calls", folder / "says", folder / "open"
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(
            f'#!/bin/sh\necho "$*" >>{self.calls}\n'
            f'case "$*" in *"-O check"*) test -e {self.open}; exit ;; esac\n'
            f"if test -e {self.open}; then exec bash -s; fi\n"
            f"cat {self.says} >&2\nexit 255\n"
        )
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
        self.clock = MovableClock()
        self.host = SshHost("lab", environ={}, monotonic=self.clock.monotonic)

    @property
    def attempts(self):
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return len([line for line in lines if "-O check" not in line])

    @property
    def checks(self):
        return len([line for line in self.calls.read_text().splitlines() if "-O check" in line])

    def fail(self, says, error):
        self.says.write_text(says)
        with pytest.raises(error) as caught:
            self.host.run("true")
        return str(caught.value)

    def times(self, says, error, seconds):
        """When attempts are made while it is asked every second."""
        made, before = [], self.attempts
        for second in range(seconds):
            self.fail(says, error)
            if self.attempts > before:
                made.append(second)
            before = self.attempts
            self.clock.advance(1)
        return made


@pytest.fixture
def site(tmp_path, monkeypatch):
    return Site(tmp_path, monkeypatch)


def test_a_host_that_cannot_be_reached_is_tried_less_and_less_often(site):
    assert site.times(AWAY, NotConnectedError, 80) == [0, 5, 15, 35, 75]
    assert site.attempts == 5


def test_a_host_that_wants_a_person_is_tried_much_less_often_and_says_the_same_each_time(site):
    said = {site.fail(REFUSED, LoginNeededError)}
    for _ in range(59):
        site.clock.advance(1)
        said.add(site.fail(REFUSED, LoginNeededError))
    assert (len(said), site.attempts) == (1, 1)
    assert site.checks <= 13, "it is looked every few seconds whether the person has logged in"
    site.clock.advance(1)
    site.fail(REFUSED, LoginNeededError)
    assert site.attempts == 2


def test_a_connection_that_the_person_opens_meanwhile_is_used_within_seconds(site):
    site.fail(REFUSED, LoginNeededError)
    site.open.touch()
    site.clock.advance(5)
    assert site.host.run("echo here").stdout.strip() == "here"


def test_what_works_again_is_tried_at_once_when_it_fails_the_next_time(site):
    site.fail(AWAY, NotConnectedError)
    site.clock.advance(5)
    site.open.touch()
    assert site.host.run("true").status == 0
    site.open.unlink()
    before = site.attempts
    site.fail(AWAY, NotConnectedError)
    assert site.attempts == before + 1


def test_threads_that_need_the_host_share_one_attempt(site):
    site.says.write_text(AWAY)
    failed = []

    def ask():
        try:
            site.host.run("true")
        except NotConnectedError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(failed), site.attempts) == (8, 1)


def test_a_person_who_asks_waits_seconds_and_not_minutes(site):
    site.fail(REFUSED, LoginNeededError)
    site.host.expect_change()
    site.clock.advance(4)
    site.fail(REFUSED, LoginNeededError)
    assert site.attempts == 1
    site.clock.advance(1)
    site.fail(REFUSED, LoginNeededError)
    assert site.attempts == 2


def made_at(folder, seconds_ago):
    then = time.time() - seconds_ago
    os.utime(folder, (then, then))
    return folder


def test_folders_of_sockets_that_killed_programs_left_are_removed_and_no_other(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as base, socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.setattr(tempfile, "tempdir", base)
        paths = {
            name: os.path.join(base, f"gym-ssh-{name}") for name in ("empty", "dead", "live", "new", "more")
        }
        for path in (*paths.values(), os.path.join(base, "gym-other")):
            os.mkdir(path)
        listening.bind(f"{paths['live']}/s")
        listening.listen()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{paths['dead']}/s")
        open(f"{paths['more']}/notes", "w").close()
        for name in os.listdir(base):
            made_at(os.path.join(base, name), 10 if name == "gym-ssh-new" else 7200)
        made = ssh._socket_folder()
        assert made is not None
        left = {os.path.basename(made), "gym-ssh-live", "gym-ssh-new", "gym-ssh-more", "gym-other"}
        assert set(os.listdir(base)) == left
        assert os.listdir(paths["live"]) == ["s"]


def test_closing_ends_an_attempt_that_gets_no_answer(site, tmp_path):
    fifo = tmp_path / "says"
    os.mkfifo(fifo)
    raised = []

    def use():
        with pytest.raises(SlurmError) as caught:
            site.host.run("true")
        raised.append(caught.value)

    thread = threading.Thread(target=use)
    thread.start()
    # the attempt waits here for who reads what it says
    written = os.open(fifo, os.O_WRONLY)
    began = time.monotonic()
    while site.host._logging_in is None and time.monotonic() < began + 60:
        time.sleep(0.001)
    site.host.close()
    os.close(written)
    thread.join(60)
    assert ["no answer within" in str(error) for error in raised] == [False]
    assert site.attempts == 1
