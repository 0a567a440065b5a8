"""What a start really runs in, found out on its node: the container image, or else the environment.

Standard library only: it runs on the nodes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.environment_digest import Environments, content_digest
from nemo_runs.durable.files import replace_file
from nemo_runs.environments.digests import with_sources

_NAMED = re.compile(r"@(sha256:[0-9a-f]{64})$")


def software(
    order: Mapping[str, Any], environment: Mapping[str, str], code: str, known: Path
) -> dict[str, str | None]:
    """Its name for people, and its digest; `None` where that cannot be read.

    ``code`` is the digest of our own sources; in ``known`` digests of image files are kept.
    """
    container = order["container"]
    if container is not None:
        image = str(container["image"])
        digest = _image(image, known)
        return {"name": image, "digest": f"{image}@{digest}" if digest else None}
    argv = tuple(order["argv"])
    found = Environments().digest(argv, environment)
    name = f"the environment of {argv[0]}" if argv else "its command"
    if found is None:
        return {"name": name, "digest": None}
    return {"name": name, "digest": with_sources(found, code)}


def _image(image: str, known: Path) -> str | None:
    """The digest of an image file, or that which a reference to a registry names itself."""
    named = _NAMED.search(image)
    if named is not None:
        return named[1]
    path = Path(image)
    try:
        status = path.stat()
        if not path.is_file():
            return None
        mark = [status.st_ino, status.st_size, status.st_mtime_ns]
        note = known / f"{hashlib.sha256(image.encode()).hexdigest()[:32]}.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(note.read_bytes())
            if said["mark"] == mark:
                return str(said["digest"])
        digest = f"sha256:{content_digest(path)}"
        with contextlib.suppress(OSError):
            known.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(note, json.dumps({"mark": mark, "digest": digest}).encode(), mode=0o600)
    except OSError:
        return None
    return digest
