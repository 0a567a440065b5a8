"""What `nemo` says of a model, as evaluations understand it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.serving import registered

DIGEST = "sha256:" + "1" * 64


@pytest.fixture
def nemo(tmp_path, monkeypatch):
    """A program in place of `nemo` that says what it is given."""

    def make(text: str) -> None:
        program = tmp_path / "nemo"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setattr(registered, "nemo_program", lambda: program)

    return make


def test_folders_kind_and_digest_are_taken(nemo):
    found = {"name": "sums", "kind": "adapter", "folder": "/a", "digest": DIGEST, "base": {"folder": "/b"}}
    nemo(f"echo '{json.dumps(found)}'")
    assert registered.find("lab/sums") == registered.RegisteredModel(
        "sums", Path("/a"), DIGEST, adapter=True, base=Path("/b")
    )


def test_what_it_reports_while_it_fetches_is_shown(nemo, capsys):
    found = {"name": "sums", "kind": "full", "folder": "/a", "digest": DIGEST, "base": None}
    nemo(f"echo 'nemo: fetches much …' >&2; echo 'nemo: goes on.' >&2; echo '{json.dumps(found)}'")
    registered.find("sums")
    assert capsys.readouterr() == ("", "nemo: fetches much …\nnemo: goes on.\n")


def test_its_refusal_is_handed_on_in_its_words(nemo, capsys):
    nemo("echo 'nemo: fetches much …' >&2; echo 'nemo: there is no model sums.' >&2; exit 3")
    with pytest.raises(ConfigError, match=r"^there is no model sums$"):
        registered.find("sums")
    assert capsys.readouterr().err == "nemo: fetches much …\n"


def test_what_it_says_otherwise_is_an_error(nemo):
    nemo("echo '{}'")
    with pytest.raises(ConfigError, match="has not said where the model is"):
        registered.find("sums")


def test_a_server_ends_with_the_process_that_is_killed(nemo, tmp_path):
    nemo(f"echo http://127.0.0.1:1/v1; cat; touch {tmp_path}/ended")
    program = (
        "import os, pathlib, signal\n"
        "from nemo_gym.serving import registered\n"
        f"registered.nemo_program = lambda: pathlib.Path({str(tmp_path / 'nemo')!r})\n"
        "model = registered.RegisteredModel('sums', pathlib.Path('/a'), 'sha256:1', adapter=False)\n"
        "with registered.served(model):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    until = time.monotonic() + 60
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_server_that_does_not_start_is_an_error_and_leaves_no_key(nemo, monkeypatch):
    monkeypatch.delenv(registered.KEY_VARIABLE, raising=False)
    nemo("exit 1")
    model = registered.RegisteredModel("sums", Path("/a"), DIGEST, adapter=False)
    with pytest.raises(ConfigError, match="could not be served"), registered.served(model):
        pass
    assert registered.KEY_VARIABLE not in registered.os.environ
