"""Version and commit of the Gym that submits."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from nemo_gym import __version__
from nemo_gym.provenance import provenance


def git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    environ = {**os.environ, **identity, "GIT_COMMITTER_EMAIL": "a@b", "HOME": str(folder)}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "repo" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(tmp_path / "repo", "init", "-q")
    git(tmp_path / "repo", "add", ".")
    git(tmp_path / "repo", "commit", "-qm", "first")
    return package


def nothing() -> None:
    return None


def test_a_git_install_names_its_commit_from_the_install_metadata(checkout: Path):
    text = json.dumps({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "abc123"}})
    assert provenance(checkout, lambda: text).commit == "abc123"


@pytest.mark.parametrize("text", [None, "", "{", '{"dir_info": {"editable": true}}', '{"vcs_info": 3}'])
def test_without_a_commit_in_the_metadata_the_head_of_the_checkout_counts(checkout: Path, text: str | None):
    found = provenance(checkout, lambda: text)
    assert found.commit == git(checkout, "rev-parse", "HEAD")
    assert found.version == __version__


def test_uncommitted_changes_mark_the_commit_as_dirty(checkout: Path):
    (checkout / "__init__.py").write_text("changed")
    assert provenance(checkout, nothing).commit == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_an_untracked_file_marks_the_commit_as_dirty(checkout: Path):
    (checkout / "new.py").write_text("")
    assert str(provenance(checkout, nothing).commit).endswith("-dirty")


def test_a_package_that_is_not_tracked_by_the_checkout_around_it_has_no_commit(checkout: Path):
    installed = checkout.parents[1] / "venv" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    found = provenance(installed, nothing)
    assert found.commit is None
    assert "nor tracked" in str(found.unknown_because)


def test_a_folder_outside_any_checkout_has_no_commit(tmp_path: Path):
    assert provenance(tmp_path, nothing).commit is None


def test_a_machine_without_git_has_no_commit_and_says_why(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    found = provenance(checkout, nothing)
    assert (found.commit, found.unknown_because) == (None, "git is not there to be asked")


def test_variables_of_a_surrounding_git_hook_do_not_mislead(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    head = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nonexistent/.git")
    assert provenance(checkout, nothing).commit == head
