"""Certificates of a submission: of each benchmark's results, and of the configuration they belong to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, RolloutPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry
from nemo_gym.orchestration.records import locations
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.records.run_outputs import RunOutputs
from nemo_gym.rollouts.run_config import identity
from nemo_gym.rollouts.scores.certificate import Certificate, certify

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One benchmark."""

    benchmark: str
    job_dir: str
    certificate: Certificate | None
    """`None` where there is nothing to read."""
    problems: list[str] = field(default_factory=list)
    """Everything that is wrong, the certificate's problems among them."""
    notes: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """Whether every expected rollout is there once and everything matches."""
        return not self.problems

    def lines(self) -> list[str]:
        """For a person: whether it is certified, the counts, the digests, what is wrong."""
        certificate = self.certificate
        found = [f"{self.benchmark}: {'certified' if self.valid else 'not certified'}"]
        if certificate is not None and certificate.expected is not None:
            found.append(
                f"  expected {certificate.expected:,}, present once {certificate.present:,}, "
                f"missing {certificate.missing:,}, duplicated {certificate.duplicates:,}, "
                f"damaged {certificate.damaged:,}, torn bytes {certificate.torn_bytes:,}, "
                f"unplanned {certificate.strays:,}"
            )
            if certificate.until is not None:
                found.append(f"  until {certificate.until['sentence']}; seed {certificate.until['seed']}")
                found.append(f"  not needed {certificate.not_needed:,}")
            digests = certificate.digests.items()
            found += [f"  {name.replace('_', ' '):<19} sha256 {digest}" for name, digest in digests]
        found += [f"  wrong: {problem}" for problem in self.problems]
        return found + [f"  note: {note}" for note in self.notes]

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values."""
        found = asdict(self.certificate) if self.certificate else {}
        shown = {key: value for key, value in found.items() if key not in ("problems", "notes")}
        head = {"benchmark": self.benchmark, "valid": self.valid, "job_dir": self.job_dir}
        return {**head, **shown, "problems": self.problems, "notes": self.notes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One submission, or one run without any."""

    gym_job_id: str | None
    """``None``: a run of `gym eval run`."""
    run_dir: str
    config_digest: str | None
    """SHA-256 of ``resolved-config.yaml`` as it is now."""
    benchmarks: list[Verified]
    problems: list[str]
    """What is wrong with the submission as a whole."""

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong anywhere."""
        return not self.problems and all(benchmark.valid for benchmark in self.benchmarks)

    @property
    def sentence(self) -> str:
        """What the certificates come to."""
        return "CERTIFIED: complete and intact." if self.valid else "NOT CERTIFIED: see above."

    def to_json(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gym_job_id": self.gym_job_id,
            "valid": self.valid,
            "run_dir": self.run_dir,
            "config_digest": self.config_digest,
            "problems": self.problems,
            "benchmarks": [benchmark.to_json() for benchmark in self.benchmarks],
        }


def verify(location: SubmissionLocation, benchmark: str | None) -> Verification:
    """Certify all benchmarks of a submission, or one; nothing is written.

    Raises `GymError` for an unknown benchmark.
    """
    entries = locations.chosen(location.record, benchmark)
    digest, problems = _check_config(location)
    found = Verification(
        gym_job_id=location.record.gym_job_id,
        run_dir=str(location.run_dir),
        config_digest=digest,
        benchmarks=[_verify(entry, location.job(entry.benchmark)) for entry in entries],
        problems=problems,
    )
    return _with_source(found, location.source) if location.source else found


def verify_outputs(run: RunOutputs) -> Verification:
    """Certify all outputs of a run that has no record; nothing is written.

    There is no configuration of a submission that the rows could be compared with.
    """
    return Verification(
        gym_job_id=None,
        run_dir=str(run.folder),
        config_digest=None,
        benchmarks=[
            _verified(name, paths.output.parent, *_certificate(paths)) for name, paths in run.outputs.items()
        ],
        problems=[],
    )


def _with_source(found: Verification, source: str) -> Verification:
    """The same with the names of the files that were brought here for a moment."""
    near = found.run_dir

    def with_source(texts: list[str]) -> list[str]:
        return [text.replace(near, source) for text in texts]

    benchmarks = [
        replace(
            each,
            job_dir=each.job_dir.replace(near, source),
            problems=with_source(each.problems),
            notes=with_source(each.notes),
        )
        for each in found.benchmarks
    ]
    return replace(found, run_dir=source, benchmarks=benchmarks, problems=with_source(found.problems))


def _check_config(location: SubmissionLocation) -> tuple[str | None, list[str]]:
    """The digest of the resolved config, and what is wrong with it."""
    from nemo_gym.composition import load_yaml
    from nemo_gym.orchestration.config.resolve import digest_of

    path, said = location.paths.resolved_config, location.record.config_digest
    try:
        real = digest_of(load_yaml(path))
    except GymError as error:
        return None, [str(error)]
    if said is not None and said != real:
        return real, [f"{path}: its digest is {real}, the job record says {said}: it was changed since."]
    return real, []


def _verify(entry: BenchmarkEntry, paths: JobPaths) -> Verified:
    return _verified(entry.benchmark, paths.job_dir, *_certify(entry, paths))


def _verified(
    benchmark: str, folder: Path, certificate: Certificate | None, problems: list[str], notes: list[str]
) -> Verified:
    return Verified(
        benchmark=benchmark,
        job_dir=str(folder),
        certificate=certificate,
        problems=problems,
        notes=notes,
    )


def _certify(entry: BenchmarkEntry, paths: JobPaths) -> tuple[Certificate | None, list[str], list[str]]:
    if not paths.rollouts.manifest.exists():
        if entry.job_id is None:
            return None, [f"it was never queued: {entry.error or 'no reason is recorded'}"], []
        if not paths.run_config.exists():
            nothing = "neither run.yaml nor results: a command of its own leaves nothing to certify"
            return None, [f"{paths.job_dir} has {nothing}."], []
    certificate, problems, notes = _certificate(paths.rollouts)
    if certificate is None:
        return None, problems, notes
    different, compared = _check_run_config(paths.run_config, paths)
    return certificate, [*problems, *different], [*notes, *compared]


def _certificate(paths: RolloutPaths) -> tuple[Certificate | None, list[str], list[str]]:
    """The certificate of one output, its problems and its notes."""
    try:
        certificate = certify(paths)
    except OSError as error:
        where = error.filename or paths.output.parent
        return None, [f"{where}: it cannot be read ({error.strerror})."], []
    return certificate, [*certificate.problems], [*certificate.notes]


def _check_run_config(path: Path, paths: JobPaths) -> tuple[list[str], list[str]]:
    """Problems and notes: whether the rows were collected with the configuration that was submitted."""
    from nemo_gym.rollouts.output.manifest import load_manifest
    from nemo_gym.rollouts.run_config.schema import load_run_config

    if not path.exists():
        return [], [f"{path} is not there: what was submitted is compared with nothing"]
    try:
        manifest = load_manifest(paths.rollouts.manifest)
        config = load_run_config(
            [str(path)], None, [], search_dirs=[], cwd=paths.job_dir, user_env=False
        ).config
    except GymError as error:
        return [], [f"{path} cannot be compared with the rows: {error}"]
    if manifest is None:
        return [], []
    data = str(manifest.generation.get("dataset_sha256"))
    asked = identity.identity_of(config, dataset_sha256=data, model=None)
    known = manifest.generation
    for name in ("policy_model_name", "num_repeats"):  # known to the job alone
        if name not in asked.generation:
            known = {key: value for key, value in known.items() if key != name}
    changed = identity.differences(asked.generation, known)
    graded = identity.differences(asked.scoring, manifest.scoring)
    return (
        [f"{path}: the rows were collected with another configuration: {'; '.join(changed)}."]
        if changed
        else [],
        [f"graded again since it was submitted: {'; '.join(graded)}"] if graded else [],
    )
