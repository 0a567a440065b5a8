"""A Gym that the jobs install themselves (``driver.gym_install``): its rules; all pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_runs.patterns import pattern

_REF = pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9._/+@-]*[A-Za-z0-9_+-])?")
_URL = pattern(r"(?:https?|ssh|git|file)://\S+")
_SCP_LIKE = pattern(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9._-]*:[^-\s:][^\s:]*")
_LOGIN = pattern(r"(?:https?|git)://[^/]*@|[a-z]+://[^/@]*:[^/@]*@")


def problems(config: SubmitConfig) -> Iterator[str]:
    """What is wrong, each a sentence without its full stop.

    The repository's address is not repeated: it may hold a password.
    """
    driver, install = config.driver, config.driver.gym_install
    if install is None:
        return
    where = "driver.gym_install"
    if driver.gym is not None:
        yield f"{where}: driver.gym names a program already; leave out one or the other"
    if driver.container is not None:
        yield (
            f"{where}: a Gym is installed for the machine of the job and not inside driver.container; set "
            "driver.gym to the path of `gym` in the image in its place, or leave the container out"
        )
    repo = install.repo
    if _LOGIN.match(repo):
        yield (
            f"{where}.repo: a login in an address can be read by everybody; take it out and let git's "
            "credential helper or ssh know it where the job runs"
        )
    elif not (repo.startswith("/") or _URL.fullmatch(repo) or _SCP_LIKE.fullmatch(repo)):
        yield f"{where}.repo: it must be a URL or an absolute path on the machine of the job"
    if not _REF.fullmatch(install.ref) or ".." in install.ref:
        yield f"{where}.ref: '{install.ref}' cannot be a tag, branch or commit"


def warnings(config: SubmitConfig, program: Path | None) -> Iterator[str]:
    """What is allowed but most likely not meant, once it is known which program the jobs run."""
    if config.driver.gym_install is not None and program is not None:
        yield (
            "driver.gym_install: it is not used, since the Gym that submits is there for the jobs too "
            f"({program})."
        )
