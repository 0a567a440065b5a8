"""Our own Gym on a machine that has none: what is installed here, copied there once for each version of it.

Nothing is downloaded on either side: the installed packages themselves are copied, with a program that runs
them under the Python that is there. So that Python must be the same version on the same kind of machine.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nemo_gym
from nemo_gym.errors import ConfigError, GymError
from nemo_gym.job_paths import gym_copies
from nemo_slurm.errors import PathExistsError, SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import quoted_header, remote_script, script_text

_OWN_PACKAGES = ("nemo_gym", "nemo_cli", "nemo_runs", "nemo_slurm")
_DISTRIBUTION = "nemo-baton"
_GROUPS = ("nemo_gym.agents", "nemo_gym.verifiers")
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)(?:[^;]*)(?:;(.*))?$")


@dataclass(frozen=True)
class Bundle:
    """Our Gym as it will be in one folder of another machine."""

    folder: Path
    """There, named by the digest of what is in it."""
    python: str
    """The interpreter there."""

    @property
    def program(self) -> Path:
        """The `gym` of this bundle."""
        return self.folder / "bin" / "gym"

    def bring(self, host: Host, workplace: Path) -> None:
        """Copy it unless it is there; ``workplace`` is a folder of this machine. Raises `SlurmError`."""
        if host.exists(str(self.program)):
            return
        made = workplace / "gym"
        self._make(made)
        try:
            host.copy_in(made, str(self.folder))
        except PathExistsError:
            return  # somebody else brought it at the same moment

    def _make(self, folder: Path) -> None:
        lib, program = folder / "lib", folder / "bin" / "gym"
        for source, relative in installed_files():
            target = lib / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        program.parent.mkdir(parents=True)
        shebang, _, rest = script_text(__package__, "gym").partition("\n")
        text = f"{shebang}\n{quoted_header(python=self.python)}{rest}"
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)


def plan_bundle(host: Host, output_path: Path) -> Bundle:
    """Where our Gym will be and which Python will run it.

    Raises `ConfigError` when the machine has no Python that can.
    """
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    names = [f"python{ours}", "python3", f"/usr/bin/python{ours}", f"/usr/local/bin/python{ours}"]
    try:
        found = host.run(remote_script(__package__, "find_pythons", names=names)).stdout.splitlines()
    except SlurmError as error:
        raise GymError(str(error)) from error
    rows = [row for line in found if len(row := line.rsplit(" ", 3)) == 4]
    for python, version, kind, libc in rows:
        if version == ours and kind == platform.machine() and _number(libc) >= _number(_own_libc()):
            return Bundle(gym_copies(output_path) / digest(python), python)
    there = "; ".join(f"{python} is {version} on {kind}, libc {libc}" for python, version, kind, libc in rows)
    needs = f"Python {ours} on {platform.machine()} with libc {_own_libc()} or newer"
    raise ConfigError(
        f"driver.gym: there is no gym on {host.label}, and this one cannot be brought: it needs {needs} "
        f"({there or 'no Python was found'}); install "
        "gym there and set driver.gym to its path."
    )


def digest(python: str) -> str:
    """What distinguishes one bundle from another: every file's content, and the interpreter it is made
    for."""
    found = hashlib.sha256(python.encode())
    for source, relative in sorted(installed_files(), key=lambda pair: pair[1].as_posix()):
        found.update(relative.as_posix().encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return found.hexdigest()[:16]


def installed_files() -> Iterator[tuple[Path, Path]]:
    """Each file of this Gym and of all that it requires, with its path below the folder of packages."""
    for package in _OWN_PACKAGES:
        folder = Path(nemo_gym.__file__).parents[1] / package
        for source in folder.rglob("*"):
            relative = source.relative_to(folder)
            if source.is_file() and source.suffix != ".pyc" and not _is_prepared(relative):
                yield source, Path(package) / relative
    own = metadata.distribution(_DISTRIBUTION)
    for distribution in (own, *_required(own)):
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if _belongs(file, own=distribution is own) and source.is_file():
                yield source, Path(*file.parts)


def _belongs(file: metadata.PackagePath, *, own: bool) -> bool:
    """Whether a file that was installed is brought. Of our own distribution, only what describes it."""
    if own:
        return file.parts[0].endswith(".dist-info") and file.name in ("METADATA", "entry_points.txt")
    return file.suffix != ".pyc" and ".." not in file.parts


def _is_prepared(relative: Path) -> bool:
    """Whether a file was prepared for a benchmark that came with us, and not part of us."""
    *folders, _ = relative.parts
    return "benchmarks" in folders and "data" in folders[folders.index("benchmarks") :]


def _required(own: metadata.Distribution) -> Iterator[metadata.Distribution]:
    """All distributions that this Gym needs, extras left out, and those that add agents or verifiers."""
    plugins = (point.dist for group in _GROUPS for point in metadata.entry_points(group=group))
    waiting = [*_requirements(own), *(plugin.name for plugin in plugins if plugin is not None)]
    seen = {_plain(own.name)}
    while waiting:
        name = waiting.pop()
        if _plain(name) in seen:
            continue
        seen.add(_plain(name))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform or another Python
        yield distribution
        waiting += _requirements(distribution)


def _requirements(distribution: metadata.Distribution) -> list[str]:
    found = (_REQUIREMENT.match(text) for text in distribution.requires or ())
    return [match[1] for match in found if match and "extra" not in (match[2] or "")]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _own_libc() -> str:
    return platform.libc_ver()[1] or "0"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2])


def cksum(path: Path) -> int:
    """The checksum that the program of that name prints first."""
    done = subprocess.run(["cksum"], stdin=path.open("rb"), capture_output=True, check=True)
    return int(done.stdout.split()[0])
