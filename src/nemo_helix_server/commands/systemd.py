"""The systemd unit of the service."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.errors import ServerError

_UNIT = """\
# A user unit: put it into ~/.config/systemd/user/nemo-services.service, then
#   systemctl --user daemon-reload && systemctl --user enable --now nemo-services
#   loginctl enable-linger     (so that it runs without anybody being logged in)
[Unit]
Description=NeMo Helix Jobs service
After=network-online.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=2
# jobs are processes of their own and run on when the service stops, or is updated
KillMode=process
TimeoutStopSec=15
UMask=0077

[Install]
WantedBy=default.target
"""


class UnitError(ServerError):
    """No unit can be written with these options."""


def unit(options: Mapping[str, Any], program: Path | None = None) -> str:
    """The unit that runs `nemo services run` with these options."""
    command = [str(program or _program()), "services", "run"]
    for name, value in options.items():
        command += [name, str(value.absolute()) if isinstance(value, Path) else str(value)]
    return _UNIT.format(command=" ".join(quoted(word) for word in command))


def quoted(word: str) -> str:
    """A word of a command as systemd reads it: specifiers and variables doubled, quotes escaped."""
    if not word.isprintable():
        raise UnitError(f"{word!r} cannot be written in a unit; use printable characters")
    text = word.replace("%", "%%").replace("$", "$$")
    if text and not set(text) & set(" \"'\\;"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _program() -> Path:
    beside = Path(sys.executable).parent / "nemo"
    found = beside if beside.exists() else shutil.which("nemo")
    if found is None:
        raise UnitError("the program `nemo` is not beside this Python and not on PATH")
    return Path(found).absolute()
