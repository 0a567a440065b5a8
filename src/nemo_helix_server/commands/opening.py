"""An address that opens the pages of a running service, made on its data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_helix_server.commands import service_probe
from nemo_helix_server.pages import entering


def open_pages(data_dir: Path, role: str, workspace: str | None) -> dict[str, Any]:
    """Ask the service for a code: ``{address, seconds}``; raises `NotRunningError` and `AnswerError`."""
    found = service_probe.ask(data_dir, "POST", entering.CODES, {"role": role, "workspace": workspace})
    return {"address": found["address"], "seconds": found["seconds"]}
