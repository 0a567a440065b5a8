"""The key ``sandbox:`` of a config."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.sandbox.protocol import Limits

_MIB = 1024**2


class SandboxOptions(BaseModel):
    """How code that nobody has read is kept from doing harm."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: str = "auto"
    """``bubblewrap``, ``apptainer``, ``none`` (no isolation: the code can do all that you can), or ``auto``:
    the first that works on the machine, and never ``none``."""
    image: str | None = None
    """For ``apptainer``, which ``auto`` tries only with it: the image whose programs the code finds, a file
    or a folder, full path."""
    python: str | None = None
    """The interpreter whose environment the code finds first on its search path, a full path; by default the
    one that `gym` runs on, without the packages that were added to it. An image has its own."""
    environment: str | None = None
    """[Packages that the code finds](#packages-for-the-code), pinned and installed once: the name of a set,
    or a file of your own, relative to the config that names it. Not with ``python`` or an image."""
    environment_pins: str | None = None
    """The text of that file; filled in when the config is read, so that it goes along."""
    read_only: tuple[Path, ...] = ()
    """Further folders that the code can read, full paths."""
    seconds: float = Field(10, gt=0, le=86_400)
    """How long a program may take."""
    memory_mb: int = Field(1024, ge=16)
    """Memory of a program and all that it starts, in units of 2**20 bytes, as all sizes here."""
    processes: int = Field(64, ge=1)
    """Processes and threads at one time."""
    output_mb: float = Field(1, gt=0, allow_inf_nan=False)
    """What a program may write to its standard output, and to its standard error."""
    disk_mb: int = Field(256, ge=1)
    """What it may leave in the folders that it can write to."""

    @property
    def limits(self) -> Limits:
        """The same as limits of one program."""
        return Limits(
            seconds=self.seconds,
            memory_bytes=self.memory_mb * _MIB,
            processes=self.processes,
            output_bytes=int(self.output_mb * _MIB),
            disk_bytes=self.disk_mb * _MIB,
        )
