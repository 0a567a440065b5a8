"""What `gym job fetch` says when it has copied everything."""

import os
from pathlib import Path

from nemo_gym.cli.job.fetch import _shown


def test_a_folder_is_named_from_the_current_one_and_whole_when_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert _shown(gone / "my copy") == "'my copy'"
    assert _shown(Path("/elsewhere")) == "/elsewhere"
    os.rmdir(gone)
    assert _shown(tmp_path / "copy") == str(tmp_path / "copy")
