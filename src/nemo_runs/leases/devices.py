"""The GPUs of this machine by names that mean the same to every program: their UUIDs where known."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LINE = re.compile(r"^(?P<indent>\s*)(?P<kind>GPU|MIG)\b.*\(UUID: (?P<uuid>[^)\s]+)\)\s*$")
_TIMEOUT = 20.0


def found_devices(environ: Mapping[str, str], *, listing: Callable[[], str] | None = None) -> tuple[str, ...]:
    """The GPUs that this process may use, by ``CUDA_VISIBLE_DEVICES`` or else all of them.

    ``listing`` returns what ``nvidia-smi -L`` prints, nothing where there is no such program.
    """
    named = environ.get(_VISIBLE)
    if named is None:
        return parse_listing((listing or _nvidia_smi)())
    visible = []
    for name in (part.strip() for part in named.split(",")):
        if not name or name.startswith("-") or name in visible:
            # CUDA itself sees nothing from the first invalid name on
            break
        visible.append(name)
    return named_devices(visible, listing=listing)


def named_devices(names: Sequence[str], *, listing: Callable[[], str] | None = None) -> tuple[str, ...]:
    """Numbers and abbreviated names of GPUs as their UUIDs; what is not known here stays as it is."""
    if not names:
        return ()
    known = parse_listing((listing or _nvidia_smi)())
    return tuple(dict.fromkeys(_full(name, known) for name in names))


def parse_listing(text: str) -> tuple[str, ...]:
    """UUIDs from the output of ``nvidia-smi -L``; of a GPU that is cut in MIG instances, those instead."""
    found: list[str] = []
    whole = False
    for match in filter(None, map(_LINE.match, text.splitlines())):
        if match["kind"] == "MIG" and whole:
            found.pop()
        whole = match["kind"] == "GPU"
        found.append(match["uuid"])
    return tuple(found)


def _full(name: str, known: Sequence[str]) -> str:
    if name.isdecimal():
        return known[int(name)] if int(name) < len(known) else name
    matches = [uuid for uuid in known if uuid.startswith(name)]
    return matches[0] if len(matches) == 1 else name


def _nvidia_smi() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
