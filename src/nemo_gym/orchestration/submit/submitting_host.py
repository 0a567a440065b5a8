"""What a submission takes from the machine that submits: program, user, paths, telemetry token."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.schema import SubmitConfig


def check(config: SubmitConfig, environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` for what this machine lacks: mounted paths, the telemetry token."""
    output = Path(config.job.output_path)
    if output.exists() and not output.is_dir():
        raise ConfigError(
            f"job.output_path: {output} is not a folder; name one, it is made when it is not there."
        )
    owners = [(f"services.{name}", service.mounts) for name, service in config.services.items()]
    for path, mounts in [*owners, ("driver", config.driver.mounts)]:
        for mount in mounts:
            source = mount.partition(":")[0]
            if not Path(source).exists():
                raise ConfigError(f"{path}.mounts: there is no {source} on this machine.")
    check_token(config, environ)


def check_token(config: SubmitConfig, environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` when the telemetry token is asked for and not there."""
    otel = config.otel
    if otel is not None and otel.enabled and not environ.get(otel.token_env):
        raise ConfigError(
            f"otel.token_env: the variable {otel.token_env} is not set or empty; export the collector's "
            "token in it, or set otel.enabled=false."
        )


def gym_program(config: SubmitConfig) -> Path:
    """The `gym` for the jobs: ``driver.gym``, else the one that submits."""
    if config.driver.gym is not None:
        found = shutil.which(config.driver.gym)
        if found is None:
            raise ConfigError(f"driver.gym: {config.driver.gym} is not a program on this machine.")
        return Path(found).absolute()
    beside = shutil.which("gym", path=str(Path(sys.executable).parent)) or shutil.which("gym")
    if beside is None:
        raise ConfigError(
            "driver.gym: the gym that submits was not found; set it to the path of the program."
        )
    return Path(beside).absolute()


def username() -> str:
    """The local username; the user's number when it has no name here."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pass
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
