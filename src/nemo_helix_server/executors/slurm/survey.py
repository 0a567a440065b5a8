"""What a profile of a cluster finds on its host, asked in one round trip."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_helix_server.engines import catalogue
from nemo_helix_server.executors.slurm.ownership import OTHERS_WRITE
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_slurm.channel import reason_line
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import remote_script

_PROBE = """\
import importlib.util, json, sys
from importlib import metadata
modules, packages = json.loads(sys.argv[1])
versions = {}
for name in packages:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
missing = [name for name in modules if importlib.util.find_spec(name) is None]
print("found " + json.dumps([list(sys.version_info[:3]), missing, versions]))
"""
_BASH_LINE = re.compile(r"^\S*bash: line \d+: ")
_SURVEY_TIMEOUT = 240.0
"""Seconds: each interpreter may take one minute to start on slow storage."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What one interpreter says of itself."""

    python: str
    version: tuple[int, ...] | None
    """`None`: it did not run."""
    missing: tuple[str, ...] = ()
    """Modules that it does not find."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of those packages that it has."""
    said: str = ""
    """What it printed when it did not run."""
    tried: bool = True
    """False: the setup lines have ended the shell before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSurvey:
    """One look at the host of a cluster."""

    ahead: float
    """Seconds that its clock is ahead of the service's; 0 within the time that the question took."""
    user: int | None
    owner: int | None
    """Number of the user who owns the root; `None` where it cannot be written to."""
    mode: int = 0
    """Its permissions."""
    free_bytes: int | None = None
    unwritable: str = ""
    """Why the root cannot be made or written to."""
    setup: str | None = None
    """What the setup lines said when the last of them failed."""
    missing: frozenset[str] = frozenset()
    """Programs and files that are not there."""
    sees_service: bool = False
    """Whether the service's data directory is there too, the very same folder."""
    own: Interpreter | None = None
    engines: Mapping[str, Interpreter] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether nobody else can change what lies below the root, so that it may be run."""
        return not self.unwritable and self.owner == self.user and not self.mode & OTHERS_WRITE


def survey(settings: SlurmSettings, host: Host, data_dir: Path, now: Callable[[], float]) -> HostSurvey:
    """Look at the host; makes the root. Raises `nemo_slurm.errors.SlurmError` when it cannot be asked."""
    container = settings.container
    image = container.image if container and container.image and container.image.startswith("/") else None
    pythons = {"": settings.python, **settings.engines}
    script = remote_script(
        __package__,
        "survey",
        root=str(settings.root),
        setup="\n".join(settings.setup),
        pythons=list(pythons.values()),
        probe=_PROBE,
        wanted=[json.dumps(_wanted(name)) for name in pythons],
        programs=["apptainer"] if container and container.runtime == "apptainer" else [],
        files=[image] if image else [],
        service=str(data_dir),
    )
    before = now()
    text = host.run(script, timeout=_SURVEY_TIMEOUT).stdout
    return read(text, list(pythons.items()), asked=(before, now()), service=_identity(data_dir))


def read(
    text: str, pythons: Sequence[tuple[str, str]], *, asked: tuple[float, float], service: str
) -> HostSurvey:
    """What the script printed. ``asked``: the service's time before and after; ``service``: its folder."""
    rows = [line.partition("\t")[::2] for line in text.splitlines() if "\t" in line]
    said = {word: value.strip() for word, value in rows}
    owner, _, mode = said.get("root", "").partition(" ")
    free = said.get("free", "")
    found = {name: _interpreter(python, said, number) for number, (name, python) in enumerate(pythons)}
    return HostSurvey(
        ahead=_ahead(said.get("clock", ""), asked),
        user=int(said["user"]) if said.get("user", "").isdecimal() else None,
        owner=int(owner) if owner.isdecimal() else None,
        mode=int(mode, 8) if mode.isdecimal() else 0,
        free_bytes=int(free) * 1024 if free.isdecimal() else None,
        unwritable=said.get("unwritable", "" if owner else "it did not say who owns it"),
        setup=_BASH_LINE.sub("", said["setup"]) if "setup" in said else None,
        missing=frozenset(value.strip() for word, value in rows if word == "missing"),
        sees_service=bool(service) and said.get("service") == service,
        own=found.pop("", None),
        engines=found,
    )


def _wanted(engine: str) -> list[list[str]]:
    """The modules and the packages that an interpreter is asked about."""
    recipe = catalogue.RECIPES.get(engine)
    if recipe is None:
        return [[], []]
    modules = dict.fromkeys(name.partition(".")[0] for name in recipe.imports)
    return [list(modules), list(recipe.packages)]


def _interpreter(python: str, said: Mapping[str, str], number: int) -> Interpreter:
    word = next((word for word in said if word.startswith(f"python {number} ")), None)
    if word is None:
        return Interpreter(python, None, tried=False)
    _, found, document = said[word].rpartition("found ")
    if not found or not word.endswith(" 0"):
        line = reason_line(said[word])
        why = f"it said {line!r}" if line else f"it ended with status {word.split()[-1]}"
        return Interpreter(python, None, said=why)
    version, missing, versions = json.loads(document)
    return Interpreter(python, tuple(version), tuple(missing), versions)


def _ahead(clock: str, asked: tuple[float, float]) -> float:
    try:
        there = float(clock)
    except ValueError:
        return 0.0
    before, after = asked
    return max(there - after, 0.0) + min(there - before, 0.0)


def _identity(folder: Path) -> str:
    """As the script says it: the inodes of a folder and of the one above, the same wherever they are seen."""
    try:
        return f"{folder.stat().st_ino} {(folder / '..').stat().st_ino}"
    except OSError:
        return ""
