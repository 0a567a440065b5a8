"""The configuration file on the disk: found, read, and replaced whole, for its owner's eyes only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_helix_plugin.errors import ContextFileError
from nemo_runs import file_locks, homes

FOLDER = "nhx"
NAME = "config.yaml"


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: ``NHX_CONFIG_FILE``, else in the folder ``nhx`` of the user's configuration."""
    named = environ.get("NHX_CONFIG_FILE")
    if named:
        return Path(named).expanduser()
    base = homes.base("XDG_CONFIG_HOME", ".config", environ)
    return base / FOLDER / NAME


def read(path: Path) -> dict[str, Any]:
    """What the file holds; nothing when there is none. Raises `ContextFileError` naming the line of a
    damage.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ContextFileError(
            f"{path} is not text in UTF-8; correct it, or remove it to start with an empty one"
        ) from None
    except OSError as error:
        raise ContextFileError(f"{path} cannot be read ({error.strerror})") from error
    return _parsed(text, path)


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file; its folder gets mode 0700 if it is made here or is our own, the file 0600."""
    text = _dumped(dict(content))
    target = path.resolve()
    try:
        _own_folder(target.parent)
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, prefix=f".{NAME}-", delete=False) as part:
            try:
                part.write(text.encode())
                part.flush()
                os.fsync(part.fileno())
                Path(part.name).replace(target)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ContextFileError(f"{path} cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def editing(path: Path) -> Iterator[dict[str, Any]]:
    """What the file holds, to be changed inside the block; written at its end, unless an error ends it."""
    target = path.resolve()
    try:
        _own_folder(target.parent)
        lock = os.open(target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ContextFileError(f"{path} cannot be written ({error.strerror})") from error
    try:
        with contextlib.suppress(OSError):  # a file system without locks: the last writer wins
            file_locks.take(lock)
        content = read(path)
        yield content
        write(path, content)
    finally:
        os.close(lock)


def _own_folder(folder: Path) -> None:
    """Make the folder; one that is named after us is closed to others also when it was there."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif folder.name == FOLDER and folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _dumped(content: dict[str, Any]) -> str:
    from nemo_helix_plugin import yaml_text

    return yaml_text.dump(content)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    import yaml

    from nemo_helix_plugin import yaml_text

    try:
        content = yaml_text.load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ContextFileError(f"{path}{line}: this is not YAML ({error.problem or error.context})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ContextFileError(f"{path}: this is not YAML ({reason})") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ContextFileError(f"{path}, line 1: a mapping is expected, with keys such as current_context")
    return content
