"""The end of a run's log."""

from __future__ import annotations

import json

from nemo_helix_server.storage.log_parts import LogPart, RunLog

_TAIL = 1 << 16


def last_messages(log: RunLog) -> list[str]:
    """The last messages of a log, oldest first, of the two newest parts 64 KiB each; empty without a log."""
    parts = log.parts()
    try:
        lines = [line for part in parts[-2:] for line in _last_bytes(part).split(b"\n")]
    except OSError:
        return []
    finally:
        for part in parts:
            part.close()
    return [message for line in lines if (message := _message(line)) is not None]


def _last_bytes(part: LogPart) -> bytes:
    return part.read(_TAIL, max(0, part.size - _TAIL))


def _message(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["m"]).encode("utf-8", "replace").decode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
