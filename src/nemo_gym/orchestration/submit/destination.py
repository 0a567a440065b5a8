"""The machine that holds the run directories: this one, or the login node of a cluster without our files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.orchestration.plan import interpreter
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.plan.values import Submission
from nemo_gym.orchestration.submit import named_files, submitting_host
from nemo_slurm.errors import PathExistsError, SlurmError
from nemo_slurm.remote_script import missing_paths, quoted_header, remote_script

if TYPE_CHECKING:
    from nemo_gym.orchestration.submit.gym_bundle import Bundle
    from nemo_slurm.hosts import Host


class Destination(Protocol):
    """Where a submission goes. What it raises for a person is a `GymError`, and nothing was written then."""

    @property
    def hostname(self) -> str | None:
        """As in the record; ``None`` for this machine."""
        ...

    def check(self, config: SubmitConfig, environ: Mapping[str, str]) -> None:
        """Raise `ConfigError` for what is missing there."""
        ...

    def gym_program(self, config: SubmitConfig) -> Path | None:
        """The `gym` for the jobs, as they will find it; ``None``: they install it."""
        ...

    def keeps(self, config: SubmitConfig, program: Path | None) -> str:
        """What that `gym` keeps of the login shell's environment in a job."""
        ...

    def localized(
        self, runs: Mapping[str, BenchmarkRun], run_dir: Path, *, contained: bool = False
    ) -> Mapping[str, BenchmarkRun]:
        """The runs with paths that hold there; what has to be brought is named in their ``inputs``.

        ``contained``: the driver runs in a container, which may hold what the machine does not. Raises
        `ConfigError` for what is not there and cannot be brought.
        """
        ...

    def stage(self, submission: Submission) -> None:
        """Write the run directory. Raises `FileExistsError` when the name is taken."""
        ...

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Write one file of the run directory. Raises `OSError`, `RunsError` or `SlurmError`."""
        ...


class ThisMachine:
    """Run directories on a file system that is mounted here."""

    hostname: str | None = None

    def check(self, config: SubmitConfig, environ: Mapping[str, str]) -> None:
        """See `Destination.check`."""
        submitting_host.check(config, environ)

    def gym_program(self, config: SubmitConfig) -> Path | None:
        """See `Destination.gym_program`."""
        if config.driver.container is not None and config.driver.gym is not None:
            return Path(config.driver.gym)
        try:
            return submitting_host.gym_program(config)
        except ConfigError:
            if config.driver.gym_install is None:
                raise
        return None

    def keeps(self, config: SubmitConfig, program: Path | None) -> str:
        """See `Destination.keeps`."""
        if config.driver.container is not None:
            return ""
        if program is None:
            return interpreter.LIBRARIES  # it is made by the job, in an environment of its own
        if interpreter.is_plain(os.environ):
            return ""
        return interpreter.kept(program, config, interpreter.run_here)

    def localized(
        self, runs: Mapping[str, BenchmarkRun], run_dir: Path, *, contained: bool = False
    ) -> Mapping[str, BenchmarkRun]:
        """See `Destination.localized`."""
        del run_dir, contained
        return runs

    def stage(self, submission: Submission) -> None:
        """See `Destination.stage`."""
        from nemo_gym.orchestration.submit import staging

        staging.stage(submission)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """See `Destination.write`."""
        from nemo_runs.durable.files import create_file

        create_file(path, data, mode=mode)


@dataclass
class OtherMachine:
    """Run directories on a host that is reached over ssh, with or without file systems that are ours too."""

    host: Host
    bundle: Bundle | None = None
    """Our own Gym, once it is decided that it has to be brought."""

    @property
    def hostname(self) -> str | None:
        """See `Destination`."""
        return self.host.name

    def check(self, config: SubmitConfig, environ: Mapping[str, str]) -> None:
        """See `Destination.check`. One round trip."""
        submitting_host.check_token(config, environ)
        output = config.job.output_path
        owners = [(f"services.{name}", service.mounts) for name, service in config.services.items()]
        mounts = [
            (path, mount.partition(":")[0])
            for path, its in [*owners, ("driver", config.driver.mounts)]
            for mount in its
        ]
        script = remote_script("nemo_slurm", "space", folder=output, paths=[source for _, source in mounts])
        lines = self._lines(script)
        if lines[1:2] != ["yes"]:
            raise ConfigError(
                f"job.output_path: {output} cannot be made on {self.host.label}: "
                f"{lines[0] if lines else output} is not a folder that you may write to."
            )
        for number in lines[3:]:
            path, source = mounts[int(number)]
            raise ConfigError(f"{path}.mounts: there is no {source} on {self.host.label}.")

    def gym_program(self, config: SubmitConfig) -> Path | None:
        """See `Destination.gym_program`.

        In this order: ``driver.gym``, the one that submits, ``driver.gym_install``, or our own to be brought.
        """
        named = config.driver.gym
        if config.driver.container is not None and named is not None:
            return Path(named)
        if named is not None:
            found = self._lines(f'{quoted_header(named=named)}command -v -- "$named" || :')
            if not found or not found[0].startswith("/"):
                raise ConfigError(f"driver.gym: {named} is not a program on {self.host.label}.")
            return Path(found[0])
        try:
            mine = submitting_host.gym_program(config)
            if self._same_program(mine):
                return mine
        except ConfigError:
            if config.driver.gym_install is None:
                raise
        if config.driver.gym_install is not None:
            return None
        from nemo_gym.orchestration.submit import gym_bundle

        self.bundle = gym_bundle.plan_bundle(self.host, Path(config.job.output_path))
        return self.bundle.program

    def keeps(self, config: SubmitConfig, program: Path | None) -> str:
        """See `Destination.keeps`."""
        if config.driver.container is not None:
            return ""
        if program is None or self.bundle is not None:
            return interpreter.LIBRARIES  # neither looks at packages of the user's own
        return interpreter.kept(program, config, lambda script: "\n".join(self._lines(script)))

    def localized(
        self, runs: Mapping[str, BenchmarkRun], run_dir: Path, *, contained: bool = False
    ) -> Mapping[str, BenchmarkRun]:
        """See `Destination.localized`. A path that is there too is taken for the same file."""
        paths = sorted({file.path for run in runs.values() for file in named_files.named_files(run.run)})
        try:
            missing = {paths[number] for number in missing_paths(self.host, [str(path) for path in paths])}
        except SlurmError as error:
            raise GymError(str(error)) from error
        return {
            name: named_files.moved(
                run,
                missing,
                RunPaths(run_dir).job(name).inputs,
                where=f"driver.benchmarks.{name}.run",
                machine=self.host.label,
                contained=contained,
            )
            for name, run in runs.items()
        }

    def stage(self, submission: Submission) -> None:
        """See `Destination.stage`: made here, copied there under another name, then given its own."""
        import tempfile

        from nemo_gym.orchestration.submit import staging

        with tempfile.TemporaryDirectory(prefix="gym-submit-") as folder:
            made = Path(folder) / submission.run_dir.name
            staging.stage(submission, into=made)
            try:
                if self.bundle is not None:
                    self.bundle.bring(self.host, Path(folder))
                self.host.copy_in(made, str(submission.run_dir))
            except PathExistsError as error:
                raise FileExistsError(str(error)) from error
            except SlurmError as error:
                raise GymError(
                    f"{submission.run_dir} on {self.host.label} cannot be written: {error}"
                ) from error

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """See `Destination.write`."""
        self.host.write(str(path), data, mode=mode)

    def _same_program(self, program: Path) -> bool:
        """Whether the path is our program there too: same content, and it starts."""
        found = self._lines(remote_script(__package__, "same_program", program=str(program)))
        from nemo_gym import __version__
        from nemo_gym.orchestration.submit import gym_bundle

        return (
            len(found) == 2
            and found[0].split()[0] == str(gym_bundle.cksum(program))
            and __version__ in found[1]
        )

    def _lines(self, script: str) -> list[str]:
        try:
            return self.host.run(script).stdout.splitlines()
        except SlurmError as error:
            raise GymError(str(error)) from error


def destination_of(host: Host | None) -> Destination:
    """Where submissions over a host go; ``None`` is this machine."""
    return ThisMachine() if host is None or host.name is None else OtherMachine(host)
