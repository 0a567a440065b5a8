"""Pages as files: what must not be passed on is in none of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.evaluation_pages import write_evaluation

from nemo_gym.pages import serving


def written(folder: Path, name: str, *, reason: str | None) -> str:
    """All pages of an evaluation as one text."""
    paths = write_evaluation(folder / name, [1.0, 0.0])
    manifest = json.loads(paths.manifest.read_text())
    paths.manifest.write_text(json.dumps({**manifest, **({"unpublished": reason} if reason else {})}))
    serving.write([folder / name], folder / "pages")
    return "".join(path.read_text() for path in (folder / "pages").rglob("*.html"))


@pytest.mark.parametrize("name", ["run", "a run", "r%20n", "läuft", "what?", "a#b"])
@pytest.mark.parametrize("reason", [None, "its authors ask for it"])
def test_rollouts_that_must_stay_unpublished_are_left_out(
    tmp_path: Path, name: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pages = written(tmp_path, name, reason=reason)
    assert "Rollouts of" in pages
    assert ("Prompt as sent" in pages) is (reason is None)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["coverage", "manifest", "progress", "failures", "output"])
def test_pages_wait_for_no_pipe_in_a_folder_of_others(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_evaluation(tmp_path / "runs" / "good", [1.0, 0.0])
    pipe: Path = getattr(write_evaluation(tmp_path / "runs" / "odd", [1.0, 0.0]), file)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    serving.write([tmp_path / "runs"], tmp_path / "pages")
    assert "good" in (tmp_path / "pages" / "index.html").read_text()
