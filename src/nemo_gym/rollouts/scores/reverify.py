"""Grading stored answers again, after a verifier changed: the model that answered is not asked.

The rows hold everything that grading needs (task and answer), so neither data set nor endpoint is touched.
Judge models are asked where the verifier has them; what they said is kept, so that a grading that was ended
goes on.
Answers that have no grade yet, because grading them failed, get theirs. The new rows are written whole before
anything is replaced; replaced rows stay beside as ``<name>.superseded-reverify``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nemo_gym
from nemo_gym.errors import ConfigError, DataError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.judges.configured import judges_of, prices_of
from nemo_gym.rollouts.judges.models import JudgeModel, opened_judges
from nemo_gym.rollouts.output import lock, manifest, rows
from nemo_gym.rollouts.output.result_rows import METRICS
from nemo_gym.rollouts.output.stored_answers import Stored, StoredAnswers
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.run_config.identity import differences, digest, identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.rollouts.scores import aggregate, until_scores
from nemo_gym.rollouts.scores.grading_pass import GradingJournal, grade_all
from nemo_gym.rollouts.scores.summary import Summary
from nemo_gym.rollouts.scores.whole_answers import load_grader
from nemo_gym.types import Row, Verifier
from nemo_gym.verifiers.registry import graded_with, grades_stored_answers
from nemo_runs.clock import SecondsClock, SystemClock, utc_text
from nemo_runs.counts import counted
from nemo_runs.durable import disk

_UNFINISHED = {"unfinished": "gym eval reverify"}


@dataclass(slots=True)
class Grades:
    """What grading again came to."""

    rows: int = 0
    changed: int = 0
    """Rows whose reward, understood answer or metrics are other ones now."""
    first: int = 0
    """Rows that had no grade before; none of them counts as changed."""
    before: float = 0.0
    """Sum of the old rewards; an unscored row counts 0."""
    after: float = 0.0

    def take(self, old: Row, new: Row, *, graded: bool) -> None:
        """Count one row; ``graded`` says whether the old one had a grade."""
        before = old.get("reward")
        self.rows += 1
        if not graded:
            self.first += 1
            self.after += new["reward"] or 0.0
            return
        self.before += float(before) if isinstance(before, int | float) else 0.0
        self.after += new["reward"] or 0.0
        self.changed += any(
            old.get(name) != new.get(name) for name in ("reward", "extracted_answer", METRICS)
        )


@dataclass(frozen=True, slots=True)
class Reverified:
    """The outcome: where the rows are now, how many changed, and what they come to."""

    output: Path
    superseded: Path | None
    """The old rows, when they were replaced in place."""
    grades: Grades
    summary: Summary

    def to_json(self) -> dict[str, Any]:
        """One document for ``--json``."""
        count = max(1, self.grades.rows)
        before = max(1, self.grades.rows - self.grades.first)
        return {
            "output": str(self.output),
            "superseded": None if self.superseded is None else str(self.superseded),
            "rows": self.grades.rows,
            "changed": self.grades.changed,
            "first_graded": self.grades.first,
            "mean_reward_before": self.grades.before / before,
            "mean_reward_after": self.grades.after / count,
            "summary": self.summary.to_json(),
        }


def reverify(
    paths: RolloutPaths,
    config: RunConfig,
    *,
    output: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    report: Callable[[str], None] = lambda _: None,
    clock: SecondsClock | None = None,
    function: Callable[..., Any] | None = None,
) -> Reverified:
    """Grade every row of ``paths.output`` with the verifier of ``config.benchmark``.

    ``function`` grades, where that verifier describes one.

    In place, or into a new ``output`` with its own manifest, inputs and failures. Refused when the prompt or
    agent of the benchmark is not the one that the answers came from (`ResumeRefusedError` with the
    differences), when a row is damaged (`DataError` with its line) and while a collector is at work
    (`BusyError`). When the verifier fails on one row nothing is replaced.
    """
    known = manifest.load_manifest(paths.manifest)
    if known is None:
        raise DataError(f"{paths.manifest}: not there; only outputs of `gym eval run` can be graded again.")
    if not paths.output.is_file():  # opening a pipe would wait for ever
        raise DataError(f"{paths.output}: there is no such file, or it is not a regular file.")
    scoring = _scoring(known, config)
    judges = judges_of(config, environ)
    verifier = load_grader(config.benchmark, repeats=known.num_repeats, judges=judges, function=function)
    if not grades_stored_answers(verifier):
        kind = config.benchmark.verifier["type"]
        raise ConfigError(f"benchmark.verifier.type: '{kind}' cannot grade stored answers, only live ones.")
    with contextlib.closing(verifier), _owned(paths):
        verifier.start()
        if digests := graded_with(verifier.inner):
            scoring = {**scoring, "graded_with": dict(digests)}
        target = paths if output is None else _new_output(paths, output, scoring)
        pending = None if target is not paths else replace(known, scoring={**scoring, **_UNFINISHED})
        answers = StoredAnswers(paths, known.num_repeats)
        judging = _Judging(judges, GradingJournal(_journal(target, scoring)), report) if judges else None
        grades, superseded = _replace_rows(paths, target, _rows(answers, verifier, judging), pending)
        link = _link(clock or SystemClock(), grades, known.scoring)
        unpublished = config.benchmark.unpublished or known.unpublished
        changed = replace(known, scoring=scoring, unpublished=unpublished, links=[*known.links, link])
        changed.save(target.manifest)
        _journal(target, scoring).unlink(missing_ok=True)
        run = _run(changed, config)
        until_scores.keep_decision(target, known)
        summary = aggregate.aggregate(
            target,
            num_tasks=known.num_tasks,
            num_repeats=known.num_repeats,
            run=run,
            verifier=verifier.inner,
            group_by=config.benchmark.group_by or (),
            prices=prices_of(config),
        )
    return Reverified(target.output, superseded, grades, summary)


def _scoring(known: manifest.OutputManifest, config: RunConfig) -> dict[str, Any]:
    """The new scoring identity; refuses a benchmark that is not the one the answers came from."""
    asked = identity_of(config, dataset_sha256=str(known.generation.get("dataset_sha256")), model=None)
    changes = differences(
        {"benchmark": known.generation.get("benchmark", {})}, {"benchmark": asked.generation["benchmark"]}
    )
    if changes:
        raise ResumeRefusedError(
            "these answers belong to something else, so grading them would mislead: "
            f"{'; '.join(changes)}. Collect new answers with `gym eval run` instead."
        )
    return asked.scoring


def _replace_rows(
    paths: RolloutPaths,
    target: RolloutPaths,
    graded: AsyncIterator[tuple[Stored, Row]],
    pending: manifest.OutputManifest | None,
) -> tuple[Grades, Path | None]:
    """Write graded rows and put them in place; ``pending`` is the manifest while old ones are replaced.

    It has a scoring that nobody asks for: after a crash between rows and manifest a resume is refused and
    points here, and grading once more heals it.
    """
    grades = Grades()
    with disk.temporary_beside(target.output) as temporary:
        with disk.full_disk_named(target.output), temporary.open("xb", buffering=disk.CHUNK) as file:
            asyncio.run(_write(graded, grades, file.write))
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(paths.output.stat().st_mode & 0o777)
        superseded = None
        if pending is not None:
            superseded = _keep_old(target.output)
            pending.save(target.manifest)
        temporary.replace(target.output)
    disk.sync_folder(target.output.parent)
    if target is paths:
        paths.answers.unlink(missing_ok=True)  # each of them is a result now
    return grades, superseded


@dataclass(frozen=True, slots=True)
class _Judging:
    """What a pass with judge models needs besides."""

    judges: Mapping[str, JudgeModel]
    journal: GradingJournal
    report: Callable[[str], None]


async def _rows(
    answers: StoredAnswers, verifier: Verifier, judging: _Judging | None
) -> AsyncIterator[tuple[Stored, Row]]:
    """Every answer with its graded row; judges are connected meanwhile, and what they said is kept."""
    if judging is None:
        async for graded in grade_all(answers, verifier):
            yield graded
        return
    retries = Retries(judging.report)
    parallel = max(judge.parallel for judge in judging.judges.values())
    async with opened_judges(judging.judges, retries, _wait):
        with judging.journal as journal:
            if journal.kept:
                some = counted(journal.kept, "grade is", "grades are")
                judging.report(f"{some} kept from a grading that was ended: they are not asked for again.")
            try:
                async for graded in grade_all(answers, verifier, parallel=parallel, journal=journal):
                    yield graded
            except DataError as error:
                some = counted(journal.kept, "grade is", "grades are")
                message = f"{error} {some} kept; the same command goes on from there."
                raise DataError(message) from error
    if sentence := retries.sentence():
        judging.report(sentence)


async def _wait(seconds: float) -> bool:
    await asyncio.sleep(seconds)
    return False


def _journal(target: RolloutPaths, scoring: Mapping[str, Any]) -> Path:
    """Where grades are kept until all are there; another judge or prompt has another file."""
    return target.output.with_name(f"{target.output.name}.grading-{digest(scoring)[:12]}")


async def _write(
    graded: AsyncIterator[tuple[Stored, Row]], grades: Grades, write: Callable[[bytes], object]
) -> None:
    async for stored, row in graded:
        grades.take(stored.row, row, graded=stored.graded)
        write(rows.encode_row(*stored.identity, row) + b"\n")


@contextlib.contextmanager
def _owned(paths: RolloutPaths) -> Iterator[None]:
    """Hold the output's claim; nobody collects into it meanwhile."""
    claim = lock.acquire(paths.lock, lock.Claimant.of({}, os.environ), output=paths.output)
    try:
        yield
    finally:
        claim.release()


def _new_output(paths: RolloutPaths, output: Path, scoring: Mapping[str, Any]) -> RolloutPaths:
    """Another output that is complete by itself: with the same inputs and failures beside it."""
    target = RolloutPaths(output)
    if _journal(target, scoring).exists() and not target.output.exists():
        return target  # its grading was begun
    for path in (target.output, target.manifest, target.materialized_inputs, target.failures, target.answers):
        if path.exists():
            raise ConfigError(
                f"--output: {path} is there already; nothing is overwritten, choose another name."
            )
    output.parent.mkdir(parents=True, exist_ok=True)
    for old, new in (
        (paths.materialized_inputs, target.materialized_inputs),
        (paths.failures, target.failures),
        (paths.until, target.until),
    ):
        if old.exists():
            with disk.temporary_beside(new) as temporary:
                shutil.copy2(old, temporary)
                temporary.replace(new)
    return target


def _keep_old(path: Path) -> Path:
    """Give the old rows a second name, a copy where there are no hard links."""
    for count in itertools.count(1):
        kept = path.with_name(f"{path.name}.superseded-reverify{'' if count == 1 else f'-{count}'}")
        try:
            os.link(path, kept)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in disk.NO_HARD_LINKS:
                raise
            if kept.exists():
                continue
            shutil.copy2(path, kept)
        return kept
    raise AssertionError("numbers never run out")


def _link(clock: SecondsClock, grades: Grades, old: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": utc_text(clock.seconds()),
        "kind": "reverify",
        "gym_version": nemo_gym.__version__,
        "rows": grades.rows,
        "changed": grades.changed,
        "first_graded": grades.first,
        "scoring_before": old,
    }


def _run(known: manifest.OutputManifest, config: RunConfig) -> dict[str, Any]:
    return {
        "benchmark": config.benchmark.name,
        "model": (known.model or {}).get("name") or known.generation.get("policy_model_name"),
        "run_id": known.run_id,
    }
