"""Commands of a cluster in one round trip: each its own answer, and a job inherits nothing of the asking."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_slurm.calls import HostCalls
from nemo_slurm.errors import CommandMissingError, NoSuchPathError, NotReachableError
from nemo_slurm.hosts import LocalHost


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with an ``sbatch`` and a ``squeue`` that show their words and environment."""
    for name in ("sbatch", "squeue"):
        program = tmp_path / name
        program.write_text("#!/bin/bash\nprintf '<%s>' \"$@\"\necho\nenv\nexit ${#1}\n", encoding="utf-8")
        program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


def test_words_and_statuses_come_through_as_they_are(path: str) -> None:
    words = ["abc", "", "it's", "a b", "$HOME", "x\ny"]
    first, second = HostCalls(LocalHost()).call([["squeue", *words], ["squeue", "-"]], env={"PATH": path})
    assert first.stdout.startswith("<abc><><it's><a b><$HOME><x\ny>\n")
    assert (first.status, second.status) == (3, 1)


def test_a_job_inherits_its_owners_variables_and_none_of_ours(path: str) -> None:
    theirs = {name: f"their {name}" for name in ("mark", "limit", "folder", "words", "n", "s", "status")}
    environ = {"PATH": path, "SLURM_JOB_ID": "7", **theirs}
    batch, queue = HostCalls(LocalHost()).call([["sbatch", "a"], ["squeue", "a"]], env=environ)
    seen = dict(line.partition("=")[::2] for line in batch.stdout.splitlines())
    assert {name: seen.get(name) for name in theirs} == theirs
    assert not {name for name in seen if name.startswith(("slurm_", "SLURM_JOB"))}
    assert "SLURM_TIME_FORMAT" not in seen
    assert "SLURM_TIME_FORMAT=%s" in queue.stdout


def test_what_cannot_be_called_is_named(path: str) -> None:
    calls = HostCalls(LocalHost())
    with pytest.raises(CommandMissingError, match="no_such_command cannot be found on this machine"):
        calls.call([["squeue"], ["no_such_command", "7"]], env={"PATH": path})
    with pytest.raises(NoSuchPathError, match="/no/such/folder on this machine cannot be entered"):
        calls.call([["squeue"]], folder="/no/such/folder", env={"PATH": path})


def test_a_command_that_hangs_is_ended_there(path: str, tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/bash\nexec sleep 60\n", encoding="utf-8")
    with pytest.raises(NotReachableError, match=r"squeue on this machine gave no answer within 0\.2 s"):
        HostCalls(LocalHost()).call([["squeue"]], env={"PATH": path}, timeout=0.2)
